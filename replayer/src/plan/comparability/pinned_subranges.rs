//! Subranges of one piece of pinned memory: launches with an address inside it, copies of host memory to it,
//! and callbacks that wrote there.
//!
//! The driver makes such a copy with the CPU. CPU writes, by the driver or by the program, cannot be
//! distinguished from the writes of a launch in flight on the same pages, and nobody knows how far from its
//! address a launch writes.

use crate::plan::comparability::mapped_memory::{MappedMemory, arguments};
use std::collections::{HashMap, HashSet};
use trace::api::roles::Class;
use trace::model::copy_endpoints::{End, copy_endpoints};
use trace::{Call, Function};

const COPIED: &str = "kernels used pinned memory that was the destination of a host copy: CPU writes to the same pages may be \
                      recorded too late";
const CALLED_BACK: &str = "kernels and callbacks of other streams wrote the same pages of pinned memory: their writes may be \
                           recorded for each other";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Launch,
    Copy,
    Callback,
}

/// A use, the stream it is on, and the memory.
struct SubrangeUse {
    own: Use,
    stream: Option<u64>,
    memory: Vec<u64>,
}

impl SubrangeUse {
    /// Why they cannot be told apart. Callbacks and launches of one stream come one behind the other.
    fn is_concurrent_with(&self, other: &SubrangeUse) -> Option<&'static str> {
        let why = match (self.own, other.own) {
            (Use::Launch, Use::Copy) | (Use::Copy, Use::Launch) => COPIED,
            (Use::Launch, Use::Callback) | (Use::Callback, Use::Launch) if self.stream != other.stream => CALLED_BACK,
            _ => return None,
        };
        self.memory.iter().any(|at| other.memory.contains(at)).then_some(why)
    }
}

/// Pinned memory of which outstanding submissions use only parts, by its start.
#[derive(Default)]
pub(crate) struct PinnedSubranges {
    under_way: HashMap<u64, Vec<SubrangeUse>>,
    /// Memory of which nodes of graphs were given an address in the midst, and that in which their callbacks
    /// wrote: of any graph.
    nodes: HashSet<u64>,
    called_back: HashSet<u64>,
}

impl PinnedSubranges {
    /// Moves past a call that `shared` has just moved past. Why its part of some memory cannot be told from
    /// what work under way makes of another.
    pub(crate) fn observe(
        &mut self,
        call: &Call,
        function: &'static Function,
        shared: &MappedMemory,
    ) -> Option<&'static str> {
        if !shared.has_pinned() || !matches!(function.class, Class::launch | Class::submit | Class::graph) {
            return None;
        }
        let parts = self.parts(call, function, shared);
        if parts.is_empty() {
            return None;
        }
        let under_way: HashSet<u64> = shared.work.under_way().collect();
        if !under_way.contains(&call.number) {
            // It has become a node.
            for part in parts {
                match part.own {
                    Use::Launch => self.nodes.extend(part.memory),
                    Use::Callback => self.called_back.extend(part.memory),
                    Use::Copy => {}
                }
            }
            return None;
        }
        self.under_way.retain(|other, _| under_way.contains(other));
        let others = || self.under_way.values().flatten();
        let beside = parts.iter().flat_map(|part| others().filter_map(|other| part.is_concurrent_with(other))).max();
        self.under_way.insert(call.number, parts);
        beside
    }

    fn parts(&self, call: &Call, function: &'static Function, shared: &MappedMemory) -> Vec<SubrangeUse> {
        let stream = call.stream();
        let around = |address| Some(shared.pinned_around(address)?.start);
        let midst = |word| around(word).filter(|start| *start != word);
        let runs_graph = function.launches_graph();
        let (launch, called_back): (Vec<u64>, Vec<u64>) = if runs_graph {
            (self.nodes.iter().copied().collect(), self.called_back.iter().copied().collect())
        } else {
            let written = call.callback_runs().into_values().flatten();
            let images = written.flat_map(|written| written.images());
            let called_back = images.filter_map(|image| around(image.address)).collect();
            (arguments(call).filter_map(midst).collect(), called_back)
        };
        let is_host =
            |end: End| matches!(end, End::Host(_)) || end.address().is_some_and(|address| around(address).is_some());
        let brought = (function.class == Class::submit).then(|| copy_endpoints(call, function)).into_iter().flatten();
        let brought = brought.filter(|copied| is_host(copied.from));
        let copied = brought.filter_map(|copied| around(copied.to.address()?)).collect();
        let parts = [(Use::Launch, launch), (Use::Callback, called_back), (Use::Copy, copied)];
        let parts = parts.into_iter().filter(|(_, memory)| !memory.is_empty());
        parts.map(|(own, memory)| SubrangeUse { own, stream, memory }).collect()
    }
}
