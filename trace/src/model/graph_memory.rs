//! Memory that graphs allocate and do not free themselves: live from a launch until the program or a graph
//! frees it, or until the next launch of a graph that was instantiated to free it.

use super::change::{Change, Moment};
use super::graph_node::Node;
use super::memory::{Allocation, End, Memory};
use super::stream::StreamId;
use crate::api::effect::Memory as Kind;
use foldhash::{HashMap, HashSet};

/// In the place of a pool's handle: each device has a pool for its graphs, which no call names.
pub const POOL: u64 = u64::MAX;

#[derive(Default)]
pub(crate) struct GraphMemory {
    /// By the stream on which the capture began.
    captured: HashMap<StreamId, Vec<Node>>,
    graphs: HashMap<u64, Vec<Node>>,
    executable: HashMap<u64, Executable>,
}

/// What a launch leaves behind.
struct Executable {
    /// Address, bytes and device of what is not freed within the graph.
    allocated: Vec<(u64, u64, i32)>,
    /// Allocated elsewhere.
    freed: Vec<u64>,
    /// What an earlier launch left is freed first.
    frees_first: bool,
}

impl GraphMemory {
    /// Whether no launch changes anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.executable.is_empty()
    }

    /// Follows what a call changed. `capture`: the stream on which the capture began that the call is part of.
    pub(crate) fn follow(&mut self, change: &Change, capture: Option<StreamId>, device: i32) {
        match (*change, capture) {
            (Change::Allocated { at, bytes: Some(bytes), .. }, Some(capture)) => {
                self.captured.entry(capture).or_default().push(Node::Allocates { at, bytes, device });
            }
            (Change::Freed { at, .. }, Some(capture)) => {
                self.captured.entry(capture).or_default().push(Node::Frees { at });
            }
            (Change::CaptureEnded { graph, .. }, Some(capture)) => {
                let nodes = self.captured.remove(&capture).unwrap_or_default();
                if let Some(graph) = graph.filter(|_| !nodes.is_empty()) {
                    self.graphs.entry(graph).or_default().extend(nodes);
                }
            }
            (Change::NodeAdded { graph, node }, _) => self.graphs.entry(graph).or_default().push(node),
            (Change::GraphEnded { graph }, _) => _ = self.graphs.remove(&graph),
            (Change::GraphInstantiated { exec, graph, frees_first }, _) => {
                self.executable.remove(&exec);
                let nodes = self.graphs.get(&graph);
                self.executable.extend(nodes.map(|nodes| (exec, Executable::from_nodes(nodes, frees_first))));
            }
            _ => {}
        }
    }

    /// What a launch of this executable graph allocates; to `gone` comes what it frees.
    pub(crate) fn launch(
        &self,
        exec: u64,
        moment: Moment,
        memory: &mut Memory,
        gone: &mut Vec<(Allocation, End)>,
    ) -> Vec<Allocation> {
        let Some(graph) = self.executable.get(&exec) else { return Vec::new() };
        let left = graph.allocated.iter().map(|(at, ..)| *at).filter(|_| graph.frees_first);
        let freed = graph.freed.iter().copied().chain(left);
        gone.extend(freed.filter_map(|at| memory.free(at)).map(|one| (one, End::Freed)));
        let made = graph.allocated.iter().map(|(at, bytes, device)| Allocation::of_graph(moment, *at, *bytes, *device));
        made.inspect(|one| memory.replace(*one, gone)).collect()
    }
}

impl Executable {
    fn from_nodes(nodes: &[Node], frees_first: bool) -> Executable {
        let at = |node: &Node| match *node {
            Node::Allocates { at, .. } => (Some(at), None),
            Node::Frees { at } => (None, Some(at)),
        };
        let (own, freed): (Vec<_>, Vec<_>) = nodes.iter().map(at).unzip();
        let own: HashSet<u64> = own.into_iter().flatten().collect();
        let freed: HashSet<u64> = freed.into_iter().flatten().collect();
        let allocated = nodes.iter().filter_map(|node| match *node {
            Node::Allocates { at, bytes, device } if !freed.contains(&at) => Some((at, bytes, device)),
            _ => None,
        });
        Executable { allocated: allocated.collect(), freed: freed.difference(&own).copied().collect(), frees_first }
    }
}

impl Allocation {
    fn of_graph(moment: Moment, at: u64, bytes: u64, device: i32) -> Allocation {
        Allocation {
            name: super::memory::Name::Address(at),
            kind: Kind::Pooled,
            bytes: Some(bytes),
            device: Some(device),
            pool: Some(POOL),
            owner: None,
            call: moment.call,
            since: moment.end,
        }
    }
}
