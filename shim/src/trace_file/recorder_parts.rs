//! The state that the parts of a recording share: the output, the losses, the host's pinned memory, and the
//! work in flight.

use crate::in_flight::pending::Pending;
use crate::in_flight::pinned::Ranges;
use crate::os::lock::Lock;
use crate::trace_file::file::TraceFile;
use crate::trace_file::mapped_files::MappedFiles;
use crate::trace_file::workers::Workers;
use std::sync::Arc;
use trace::file::preamble::Data;

pub(crate) struct Surroundings {
    pub file: Arc<TraceFile>,
    pub data: Data,
    pub pinned: Ranges,
    pub pending: Pending,
    pub workers: Workers,
    /// If what lies there is recorded by reference.
    pub mapped_files: Option<MappedFiles>,
    /// Losses by what was lost; cold.
    pub losses: Lock<Vec<(&'static str, u64)>>,
}

impl Surroundings {
    pub(crate) fn new(file: TraceFile, data: Data, mapped_files: Option<MappedFiles>) -> Surroundings {
        let (pinned, pending, workers, losses) = Default::default();
        Surroundings { file: Arc::new(file), data, pinned, pending, workers, mapped_files, losses }
    }

    /// Counts something that is not in the trace; the count is written into the trace by the lane that lost
    /// it.
    #[cold]
    pub(crate) fn lose(&self, what: &'static str) -> u64 {
        let mut losses = self.losses.lock();
        match losses.iter_mut().find(|(w, _)| *w == what) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                losses.push((what, 1));
                1
            }
        }
    }
}
