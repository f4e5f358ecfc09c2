//! The model of a trace: lanes, sums and memory over time.

use super::column::Column;
use super::event::Category;
use super::lane::{Lane, Source};
use super::memory::Memory;
use super::tables::{Load, Row, Timing};
use analysis::findings::finding::Gap;
use analysis::findings::holes::Hole;
use bincode::{Decode, Encode};

/// The name of a function, kernel or annotation, safe for a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Name {
    pub(crate) text: String,
    pub(super) category: u8,
    pub(crate) kernel: bool,
}

impl Name {
    /// Of an operation of NCCL's.
    pub(super) fn of_operation(text: &str) -> Name {
        Name { text: text.to_owned(), category: Category::Submit as u8, kernel: false }
    }
}

/// The part of a model that is small enough to be read whole.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Summary {
    /// Number of recorded calls.
    pub calls: u64,
    /// When the last thing happened, nanoseconds since the start of the trace.
    pub end: u64,
    /// Functions by their ids in the file, then kernels.
    pub names: Vec<Name>,
    /// By thread: where the count of its calls and their numbers in the file part.
    pub(super) jumps: Vec<(u32, Vec<(u64, u32)>)>,
    pub(crate) functions: Vec<Row>,
    pub(crate) kernels: Vec<Row>,
    pub(crate) moves: Vec<Row>,
    /// Kernels, and copies and fills, by the times of a device; none if the trace does not hold any.
    pub timing: Option<Timing>,
    /// NVTX ranges and marks, by domain and message.
    pub ranges: Vec<Row>,
    /// Names of NVTX domains that have lanes.
    pub domains: Vec<String>,
    pub(crate) loads: Vec<Load>,
    /// The longest times in which a device had nothing to do, in order of time.
    pub gaps: Vec<Gap>,
    /// What cannot be read, in order of time.
    pub holes: Vec<Hole>,
    /// Whether the trace has a footer.
    pub closed: bool,
}

/// A trace as the viewer sees it.
#[derive(Clone, Default)]
pub struct Model {
    /// Names, totals and tables.
    pub summary: Summary,
    /// Threads with their depths, their annotations, then streams.
    pub lanes: Vec<Lane>,
    /// Memory over time, by device and kind.
    pub memory: Vec<Memory>,
    /// Numbers of the calls that make, name or end objects.
    pub concerned: Column<u32>,
}

impl Model {
    /// The name at this index; `?` if there is none.
    pub fn name(&self, name: u32) -> &str {
        self.summary.names.get(name as usize).map_or("?", |name| &name.text)
    }

    /// The lane and event of a call, on its thread.
    pub fn find_call(&self, call: u32) -> Option<(usize, usize)> {
        let mut threads = self.lanes.iter().enumerate().filter(|(_, lane)| lane.source.is_thread());
        threads.find_map(|(at, lane)| Some((at, lane.of_call(call)?)))
    }

    /// Numbers of the calls that touch a piece of time: the first, and one past the last.
    pub fn calls_between(&self, from: u64, to: u64) -> (u32, u32) {
        let threads = self.lanes.iter().filter(|lane| lane.source.is_thread());
        let touched = threads.filter_map(|lane| {
            let (first, end) = (lane.first_from(from), lane.first_at(to));
            (first < end).then(|| (lane.call[first], lane.call[end - 1] + 1))
        });
        touched.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or((0, 0))
    }

    /// The last call that had begun at a time, on any thread.
    pub fn last_call(&self, time: u64) -> Option<u32> {
        let threads = self.lanes.iter().filter(|lane| lane.source.is_thread());
        let last = threads.filter_map(|lane| {
            let after = lane.first_at(time.saturating_add(1));
            Some(lane.call[after.checked_sub(1)?])
        });
        last.max()
    }

    /// The lane and event of the work that a call submitted.
    pub fn find_work(&self, call: u32) -> Option<(usize, usize)> {
        let mut streams = self.lanes.iter().enumerate().filter(|(_, lane)| lane.source.is_work());
        streams.find_map(|(at, lane)| Some((at, lane.of_call(call)?)))
    }

    /// Thread, number on the thread, and whether it was made within another call: what
    /// [`trace::Trace::call_at`] asks for.
    pub fn place(&self, call: u32) -> Option<(u32, u32, bool)> {
        let (lane, _) = self.find_call(call)?;
        let Source::Thread { thread, depth } = self.lanes[lane].source else { return None };
        let of_thread =
            self.lanes.iter().filter(|lane| matches!(lane.source, Source::Thread { thread: t, .. } if t == thread));
        let before: u64 = of_thread.map(|lane| lane.call.partition_point(|other| *other < call) as u64).sum();
        let jumps = &self.summary.jumps.iter().find(|(of, _)| *of == thread)?.1;
        let (count, sequence) = jumps[jumps.partition_point(|(count, _)| *count <= before).checked_sub(1)?];
        Some((thread, sequence.wrapping_add((before - count) as u32), depth > 0))
    }

    /// Calls in lanes of threads.
    pub fn events(&self) -> u64 {
        let threads = self.lanes.iter().filter(|lane| matches!(lane.source, Source::Thread { .. }));
        threads.map(|lane| lane.len() as u64).sum()
    }
}
