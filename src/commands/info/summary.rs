//! The results of `info` that require reading all of a trace, rather than a few records of it.

use super::counts::{Annotated, Counts, count};
use crate::verdict::{self, Said};
use analysis::filter::selection::Selection;
use anyhow::Result;
use bincode::{Decode, Encode};
use std::collections::HashSet;
use trace::Trace;
use trace::base::parallel::both;
use trace::file::record::imported_memory::ImportedMemory;
use trace::file::record::nccl::Delivered;
use trace::file::reference::Source;
use trace::read::collective::CAPTURED;

#[derive(Clone, Encode, Decode)]
pub(crate) struct Summary {
    pub counts: Counts,
    pub said: Said,
    pub annotated: Annotated,
    pub collectives: Collectives,
    pub shared_memory: SharedMemory,
    /// Files that have what the trace only names: of each how many pieces, and their bytes.
    pub sources: Vec<(Source, u64, u64)>,
    /// Kernels, copies and fills whose device times are known.
    pub works: u64,
}

/// NCCL's reports, and the part of its results that the trace holds.
#[derive(Clone, Encode, Decode, serde::Serialize)]
pub(crate) struct Collectives {
    pub communicators: u64,
    pub operations: u64,
    /// Whether what operations delivered was to be kept; of how many it was, the bytes, and of how many not.
    pub is_kept: bool,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub lost: u64,
}

impl Collectives {
    fn of(trace: &Trace) -> Collectives {
        let kept = trace.delivered.iter().filter(|delivered| delivered.lost.is_empty());
        Collectives {
            communicators: trace.communicators.len() as u64,
            operations: trace.operations().len() as u64,
            is_kept: trace.keeps_collectives(),
            delivered: kept.clone().count() as u64,
            delivered_bytes: kept.fold(0, |sum, delivered| sum.saturating_add(delivered.len)),
            lost: trace.delivered.iter().filter(is_lost).count() as u64,
        }
    }
}

/// What was captured each launch of its graph tells.
fn is_lost(delivered: &&Delivered) -> bool {
    !delivered.lost.is_empty() && delivered.lost != CAPTURED
}

/// The recorded contents of memory that other processes had exported.
#[derive(Clone, Encode, Decode, serde::Serialize)]
pub(crate) struct SharedMemory {
    pub is_kept: bool,
    /// Before how many calls, the bytes, and before how many it was not.
    pub calls: u64,
    pub bytes: u64,
    pub lost: u64,
}

impl SharedMemory {
    fn of(trace: &Trace) -> SharedMemory {
        let calls = |is_lost: bool| {
            let of_kind =
                |held: &&ImportedMemory| if is_lost { !held.lost.is_empty() } else { !held.pieces.is_empty() };
            trace
                .held
                .iter()
                .filter(|held| !held.is_behind)
                .filter(of_kind)
                .map(|held| held.call)
                .collect::<HashSet<_>>()
                .len() as u64
        };
        let kept = trace.held.iter().filter(|held| !held.pieces.is_empty());
        let bytes = kept.fold(0u64, |sum, held| sum.saturating_add(held.len));
        SharedMemory { is_kept: trace.keeps_shared_memory(), calls: calls(false), bytes, lost: calls(true) }
    }
}

impl Summary {
    pub(crate) fn of(trace: &Trace) -> Summary {
        Summary::of_selected(trace, &Selection::default()).expect("everything can be selected")
    }

    pub(crate) fn of_selected(trace: &Trace, selection: &Selection) -> Result<Summary> {
        // A wrong selection is an error before anything is read.
        let _selection = selection.test(trace)?;
        let (said, counts) = both(|| verdict::of(trace), || count(trace, selection));
        let annotated = Annotated::of(trace);
        let (collectives, shared_memory) = (Collectives::of(trace), SharedMemory::of(trace));
        let sources = trace.sources().into_iter().map(|(source, pieces, bytes)| (source.clone(), pieces, bytes));
        let (sources, works) = (sources.collect(), trace.timed_works());
        Ok(Summary { counts: counts?, said, annotated, collectives, shared_memory, sources, works })
    }

    /// Whether nothing is to be said of the calls besides, once the trace is closed: it is whole, and ended
    /// outside the driver.
    pub(crate) fn is_all(&self, trace: &Trace) -> bool {
        trace.damage.is_empty() && self.counts.missing.pieces == 0 && self.counts.in_flight == 0
    }
}
