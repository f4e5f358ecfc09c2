//! Single-rank replay: one process of a job without its peers, and the substitutes for these.
//!
//! The trace holds the results of NCCL's operations at this rank (`record --collectives`), each with the
//! launch that it belongs to. These launches are not made: their results are written instead, on the same
//! stream. Captured operations become copies in the graph, from memory of the replay's own, into which the
//! results are written before each launch of the graph. Memory exported by other processes is replaced by
//! memory of the replay's own. Its contents before each call that may use it are written there (`record
//! --shared-memory`); otherwise it holds zeros. Only NCCL's kernels are known to use it; other calls that
//! name it are reported.

use crate::base::ranges::Ranges;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use trace::api::roles::Class;
use trace::base::hash::Hash;
use trace::file::record;
use trace::file::record::imported_memory::ImportedMemory;
use trace::file::record::nccl::{Delivered, began};
use trace::read::call::Content;
use trace::read::collective::{CAPTURED, is_kernel};
use trace::{Call, Function, Trace};

/// The recorded result of an operation at this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Recorded addresses; empty if it brought nothing.
    pub at: Range<u64>,
    /// The bytes, by blobs of [`record::PIECE`] bytes.
    pub pieces: Vec<Hash>,
    /// What this process itself had left there, if that is known: only what differs is written.
    pub left: Vec<Hash>,
    /// Why they are not there; empty if they are.
    pub lost: String,
    /// Of an operation in a graph: they go to memory of the replay's own, which the graph copies from.
    pub of_graph: Option<u64>,
}

/// An operation that was captured into a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapturedOperation {
    pub operation: u64,
    /// Recorded addresses; empty if it brings nothing.
    pub at: Range<u64>,
}

/// A substitute for physical memory of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StandIn {
    /// So many bytes are mapped.
    pub bytes: u64,
    /// The recorded device of whoever imported it.
    pub device: i32,
}

#[derive(Debug, Default)]
pub struct SingleRank {
    /// Launches of NCCL's kernels, and what is written in their place.
    pub(crate) launches: HashMap<u64, Vec<Delivery>>,
    /// Launches of which that is not known.
    pub(crate) refused: HashSet<u64>,
    /// Launches of NCCL's kernels into captures.
    pub(crate) captured: HashMap<u64, Vec<CapturedOperation>>,
    /// Launches of graphs, and what is written before them of what the operations in them delivered.
    pub(crate) of_graphs: HashMap<u64, Vec<Delivery>>,
    /// Questions about nodes of such graphs, which are others here.
    pub(crate) about_nodes: HashSet<u64>,
    /// Physical memory of other processes, by the call that imported it.
    pub(crate) stand_ins: HashMap<u64, StandIn>,
    /// Where memory of others is.
    pub(crate) foreign: Ranges,
    /// How often it is open there, by its address: the driver counts.
    pub(crate) opened: HashMap<u64, u32>,
    /// What it held when a call was about to use it.
    pub(crate) held: HashMap<u64, Vec<Delivery>>,
    /// Launches that are made and were given such memory, and where it is.
    pub(crate) given: HashMap<u64, Range<u64>>,
    /// Calls that closed such memory, and where it begins.
    pub(crate) closing: HashMap<u64, u64>,
    pub keeps_collectives: bool,
    pub keeps_memory: bool,
    /// `replay --alone`.
    pub is_asked_for: bool,
    /// By thread and number there, until the call is met.
    by_call: HashMap<(u32, u32), Vec<(Delivery, bool)>>,
    /// What it held when this process had used it last, by its address.
    contents: BTreeMap<u64, Vec<Hash>>,
    /// Operations of which nothing is told.
    pub(crate) untold: u64,
}

/// Why a trace cannot be replayed alone.
pub(crate) const NOT_KEPT: &str = "the trace has no results of NCCL collectives: record them with --collectives";

pub(crate) const UNHELD: &str = "the contents of another process's memory are not in the trace";

pub(crate) const WAITS: &str = "waits for ranks that are not replayed";

pub(crate) const REFUSED: &str = "the result of this collective is not in the trace";

pub(crate) const TOUCHES: &str = "uses memory of another process, which is zero in the replay";

impl SingleRank {
    pub fn from_trace(trace: &Trace) -> Result<SingleRank, &'static str> {
        let (keeps_collectives, keeps_memory) = (trace.keeps_collectives(), trace.keeps_shared_memory());
        if !keeps_collectives && !keeps_memory {
            return Err(NOT_KEPT);
        }
        let mut by_launch: HashMap<(u32, u32), Vec<&Delivered>> = HashMap::new();
        for delivered in &trace.delivered {
            if let Some(launch) = delivered.launch {
                by_launch.entry(launch).or_default().push(delivered);
            }
        }
        let mut alone = SingleRank { keeps_collectives, keeps_memory, is_asked_for: true, ..SingleRank::default() };
        let is_launch = |call: &Call| call.function().is_some_and(|f| f.class == Class::launch);
        for call in trace.calls().filter(is_launch) {
            if let Some(delivered) = by_launch.remove(&(call.thread, call.sequence)) {
                alone.delivered(&call, &delivered);
            }
        }
        let told: HashSet<u64> = trace.delivered.iter().map(|delivered| delivered.operation).collect();
        let given = trace.nccl_events().filter(|event| matches!(event.about.what, began::COLLECTIVE | began::TRANSFER));
        alone.untold = given.filter(|event| keeps_collectives && !told.contains(&event.about.operation)).count() as u64;
        for ImportedMemory { call, address, len, pieces, lost, is_behind } in &trace.held {
            let told = (delivery(*address, *len, pieces, lost), *is_behind);
            alone.by_call.entry(*call).or_default().push(told);
        }
        Ok(alone)
    }

    /// What the operations of a launch delivered.
    fn delivered(&mut self, call: &Call, all: &[&Delivered]) {
        let of = |of: &&Delivered| delivery(of.address, of.len, &of.pieces, &of.lost);
        let captured = |of: &&Delivered| {
            let end = of.address.checked_add(of.len).filter(|_| of.lost == CAPTURED)?;
            Some(CapturedOperation { operation: of.operation, at: of.address..end })
        };
        if call.function().is_some_and(Function::launches_graph) {
            let in_graph = |one: &&Delivered| Delivery { of_graph: Some(one.operation), ..of(one) };
            self.of_graphs.insert(call.number, all.iter().map(in_graph).collect());
        } else if launches_nccl(call) {
            match all.iter().map(captured).collect() {
                Some(captured) => _ = self.captured.insert(call.number, captured),
                None => _ = self.launches.insert(call.number, all.iter().map(of).collect()),
            }
        }
    }

    /// Whether something else takes the place of a launch.
    pub(crate) fn replaces(&self, call: u64) -> bool {
        self.launches.contains_key(&call) || self.captured.contains_key(&call)
    }

    /// Where the memory of others is that a call has opened, and that holds this address.
    pub(crate) fn place(&mut self, call: &Call, address: u64) -> Option<Range<u64>> {
        let told = self.by_call.remove(&(call.thread, call.sequence))?;
        let place = told.into_iter().map(|(told, _)| told.at).find(|place| place.contains(&address))?;
        self.begins_anew(&place);
        Some(place)
    }

    /// What is told of memory of others that a call used: what is to be there before it, and whether it held
    /// something else when the call's work was done.
    pub(crate) fn used_by(&mut self, call: &Call) -> (Vec<Delivery>, bool) {
        let told = self.by_call.remove(&(call.thread, call.sequence)).unwrap_or_default();
        let (behind, mut before): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, is_behind)| *is_behind);
        for (one, _) in &mut before {
            one.left = self.contents.remove(&one.at.start).unwrap_or_default();
        }
        let is_told_behind = |one: &Delivery| behind.iter().any(|(other, _)| other.at.start == one.at.start);
        for (one, is_behind) in before.iter().chain(&behind) {
            // A call that may write tells nothing of memory in which others may be writing at the same time.
            let is_known = *is_behind || behind.is_empty() || is_told_behind(one);
            match one.lost.is_empty() && is_known {
                true => self.contents.insert(one.at.start, one.pieces.clone()),
                false => self.contents.remove(&one.at.start),
            };
        }
        let has_changed = behind.iter().any(|(later, _)| {
            let earlier = before.iter().find(|(one, _)| one.at.start == later.at.start);
            earlier.is_some_and(|(one, _)| one.lost.is_empty() && later.lost.is_empty() && one.pieces != later.pieces)
        });
        (before.into_iter().map(|(one, _)| one).collect(), has_changed)
    }

    /// Other memory is there from now on.
    pub(crate) fn begins_anew(&mut self, range: &Range<u64>) {
        let gone: Vec<u64> = self.contents.range(range.clone()).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| _ = self.contents.remove(start));
    }
}

fn delivery(address: u64, len: u64, pieces: &[[u8; 16]], lost: &str) -> Delivery {
    let end = address.checked_add(len);
    let is_whole = pieces.len() as u64 == len.div_ceil(record::PIECE as u64);
    let lost = match end {
        Some(_) if is_whole || !lost.is_empty() => lost.to_owned(),
        _ => "its records in the trace contradict each other".into(),
    };
    let pieces = pieces.iter().map(|hash| Hash::from_bytes(*hash)).collect();
    Delivery { at: address..end.unwrap_or(address), pieces, left: Vec::new(), lost, of_graph: None }
}

/// Whether it launches one of NCCL's kernels.
pub(crate) fn launches_nccl(call: &Call) -> bool {
    call.named_kernel().is_some_and(|kernel| is_kernel(&kernel.name))
}

/// Whether an argument of the call, or of the kernel that it launches, is an address in this memory.
pub(crate) fn names(call: &Call, memory: &Ranges) -> bool {
    first_memory_of(call, memory).is_some()
}

/// The first such memory.
pub(crate) fn first_memory_of(call: &Call, memory: &Ranges) -> Option<Range<u64>> {
    let find = |bytes: &[u8]| {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        words.find_map(|word| memory.range_around(word))
    };
    find(call.argument_bytes()).or_else(|| {
        call.images().find_map(|image| match image.content {
            Content::Arguments { packed, .. } => find(packed),
            _ => None,
        })
    })
}
