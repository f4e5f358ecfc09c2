//! A graph as the driver reports it: the writes of its nodes, their callbacks, and the order between them.

use crate::driver::calls;
use crate::driver::queries::{self, Place};
use crate::host_memory::destinations::{Write, WriteKind};
use crate::in_flight::node_runs::NeighbourWrites;
use crate::recording::recorder;
use crate::submission::copy_endpoints;
use std::collections::{HashMap, HashSet};
use trace::api::copies::{Region, device_region, region};
use trace::api::enums::CUgraphNodeType as Kind;
use trace::api::roles::Side;
use trace::api::structs::{CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS};
use trace::api::types::Typed;

/// The nodes of a graph and of those within it, except the bodies of conditional ones.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Kind and handle.
    found: Vec<(u32, u64)>,
    /// Each with the node that it is the child of.
    graphs: Vec<(u64, Option<u64>)>,
}

impl Nodes {
    pub(crate) fn list(graph: u64) -> Nodes {
        let mut nodes = Nodes { found: Vec::new(), graphs: vec![(graph, None)] };
        let mut next = 0;
        while let Some((graph, _)) = nodes.graphs.get(next).copied() {
            next += 1;
            for node in queries::graph_nodes(graph) {
                let (mut kind, mut child) = (0, 0);
                // SAFETY: the node has just been told.
                let asked = unsafe { calls::node_type(node, &mut kind) };
                if asked != Some(0) {
                    continue;
                }
                nodes.found.push((kind, node));
                if kind == Kind::CU_GRAPH_NODE_TYPE_GRAPH.0 {
                    // SAFETY: as above, of a node of the kind.
                    let asked = unsafe { calls::child_graph(node, &mut child) };
                    nodes.graphs.extend((asked == Some(0)).then_some((child, Some(node))));
                }
            }
        }
        nodes
    }

    fn of_kind(&self, wanted: Kind) -> impl Iterator<Item = u64> {
        self.found.iter().filter(move |(kind, _)| *kind == wanted.0).map(|(_, node)| *node)
    }

    /// Where copies and fills bring bytes to memory that the CPU can see.
    pub(crate) fn written(&self) -> Vec<Write> {
        const COPY: usize = size_of::<CUDA_MEMCPY3D>();
        let mut found = Vec::new();
        for node in self.of_kind(Kind::CU_GRAPH_NODE_TYPE_MEMCPY) {
            let mut bytes = [0u8; COPY];
            // SAFETY: the struct has room, and the node is one of the kind.
            let asked = unsafe { calls::copy_node(node, bytes.as_mut_ptr()) };
            if asked == Some(0) {
                let of_host = region(CUDA_MEMCPY3D::TYPE, &bytes, Side::Destination, |_| None);
                let written = of_host.or_else(|| device_region(CUDA_MEMCPY3D::TYPE, &bytes, Side::Destination));
                let from_host = copy_endpoints::copies_host(CUDA_MEMCPY3D::TYPE, &bytes);
                let written = written.filter(|region| is_hosts(region.address));
                found.extend(written.map(|region| Write { region, node, by: WriteKind::Copy, from_host }));
            }
        }
        for node in self.of_kind(Kind::CU_GRAPH_NODE_TYPE_MEMSET) {
            // SAFETY: as above; plain numbers, for which zeros are valid.
            let (asked, fill) = unsafe {
                let mut fill = std::mem::zeroed::<CUDA_MEMSET_NODE_PARAMS>();
                (calls::fill_node(node, &mut fill), fill)
            };
            if asked == Some(0) && is_hosts(fill.dst.0) {
                let row_bytes = u64::from(fill.elementSize) * fill.width as u64;
                let (rows, pitch) = (fill.height as u64, if fill.height > 1 { fill.pitch as u64 } else { row_bytes });
                let address = fill.dst.0;
                let region = Region { address, row_bytes, rows, pitch, slices: 1, slice_pitch: pitch * rows };
                found.push(Write { region, node, by: WriteKind::Fill, from_host: false });
            }
        }
        found
    }

    /// The data that the driver has for the callbacks, each with what of `written` stands before it and
    /// behind it.
    pub(crate) fn called_back(&self, written: &[Write]) -> Vec<(u64, NeighbourWrites)> {
        let callbacks: Vec<u64> = self.of_kind(Kind::CU_GRAPH_NODE_TYPE_HOST).collect();
        let is_any_around = !written.is_empty() && !callbacks.is_empty();
        let order = if is_any_around { Order::from_nodes(self) } else { Order::default() };
        let mut results = Results::new(&order, written, &self.found);
        let ask = |node| {
            let mut parameters = [0; 2];
            // SAFETY: the struct is of two pointers, and the node is one of the kind.
            let asked = unsafe { calls::host_node(node, &mut parameters) };
            (asked == Some(0)).then(|| (parameters[1], order.neighbour_writes(node, written, &mut results)))
        };
        callbacks.into_iter().filter_map(ask).collect()
    }
}

/// Whether the CPU can see it: pageable, pinned or managed memory. With no lock held: it asks the driver.
pub(crate) fn is_hosts(address: u64) -> bool {
    recorder::recorder().shares(address, 1) || queries::place(address) == Place::Pageable
}

/// Which node waits for which. A child graph is entered at its node and left at another place of the same
/// name.
#[derive(Default)]
struct Order {
    next: HashMap<Step, Vec<Step>>,
    last: HashMap<Step, Vec<Step>>,
}

type Step = (u64, bool);

impl Order {
    fn from_nodes(nodes: &Nodes) -> Order {
        let mut order = Order::default();
        let parents: HashSet<u64> = nodes.graphs.iter().filter_map(|(_, parent)| *parent).collect();
        for (graph, parent) in &nodes.graphs {
            queries::graph_edges(*graph)
                .into_iter()
                .flatten()
                .for_each(|(from, to)| order.waits((from, parents.contains(&from)), (to, false)));
            let Some(parent) = *parent else { continue };
            order.waits((parent, false), (parent, true));
            for node in queries::graph_nodes(*graph) {
                order.waits((parent, false), (node, false));
                order.waits((node, parents.contains(&node)), (parent, true));
            }
        }
        order
    }

    fn waits(&mut self, from: Step, to: Step) {
        self.next.entry(from).or_default().push(to);
        self.last.entry(to).or_default().push(from);
    }

    fn neighbour_writes(&self, node: u64, written: &[Write], results: &mut Results) -> NeighbourWrites {
        let ((before, _), (after, _)) = (reached(&self.last, node), reached(&self.next, node));
        let results = results.results_before(node, &before, &after);
        let is_settled = |write: &&Write| before.contains(&write.node) || after.contains(&write.node);
        let (settled, others): (Vec<&Write>, Vec<&Write>) = written.iter().partition(is_settled);
        let others: HashSet<Region> = others.into_iter().map(|write| write.region).collect();
        let mut around = NeighbourWrites { results, ..NeighbourWrites::default() };
        for Write { region, node, .. } in settled.into_iter().filter(|write| !others.contains(&write.region)) {
            if before.contains(node) { &mut around.before } else { &mut around.after }.push(*region);
        }
        around
    }
}

/// The nodes that a row of steps leads to, and how many steps were looked at for that.
fn reached(steps: &HashMap<Step, Vec<Step>>, from: u64) -> (HashSet<u64>, usize) {
    let (mut seen, mut left, mut count) = (HashSet::new(), vec![(from, false)], 0);
    while let Some(place) = left.pop() {
        let next = steps.get(&place).map_or(&[][..], Vec::as_slice);
        count += next.len();
        left.extend(next.iter().filter(|next| seen.insert(**next)));
    }
    (seen.into_iter().map(|(node, _)| node).collect(), count)
}

/// HostWrites which copies from the device that stand before a callback have brought what is there when that
/// begins.
struct Results<'g> {
    order: &'g Order,
    written: &'g [Write],
    kinds: HashMap<u64, u32>,
    /// Where nodes write.
    places: HashMap<u64, Region>,
    /// What stands behind nodes that write.
    behind: HashMap<u64, HashSet<u64>>,
    /// So many nodes and steps of the order may still be looked at.
    left: usize,
}

impl<'g> Results<'g> {
    /// A program waits for its graph to be made: in a large one with many callbacks not all results are
    /// looked for.
    const MOST_STEPS: usize = 1 << 19;
    /// Of one callback.
    const MOST: usize = 64;

    fn new(order: &'g Order, written: &'g [Write], found: &[(u32, u64)]) -> Results<'g> {
        let kinds = found.iter().map(|(kind, node)| (*node, *kind)).collect();
        let places = written.iter().map(|write| (write.node, write.region)).collect();
        Results { order, written, kinds, places, behind: HashMap::new(), left: Self::MOST_STEPS }
    }

    fn results_before(&mut self, callback: u64, before: &HashSet<u64>, after: &HashSet<u64>) -> Vec<Region> {
        let is_result = |write: &&Write| {
            let is_from_device = write.by == WriteKind::Copy && !write.from_host;
            is_from_device && write.region.is_dense() && before.contains(&write.node)
        };
        let copied = self.written.iter().filter(is_result).take(Self::MOST);
        copied.filter(|write| self.stands(write, callback, before, after)).map(|write| write.region).collect()
    }

    /// Nodes behind the copy that may run beside the callback must not write there, and those in between must
    /// not tell anybody else that it is there.
    fn stands(&mut self, copied: &Write, callback: u64, before: &HashSet<u64>, after: &HashSet<u64>) -> bool {
        if self.left == 0 {
            return false;
        }
        let Results { order, kinds, places, behind, left, .. } = self;
        let behind = behind.entry(copied.node).or_insert_with(|| {
            let (behind, count) = reached(&order.next, copied.node);
            *left = left.saturating_sub(count);
            behind
        });
        *left = left.saturating_sub(behind.len());
        let region = &copied.region;
        let end = region.address + region.span();
        let meets = |other: &Region| other.address < end && region.address < other.address + other.span();
        let is_beside = |node: &&u64| **node != callback && !after.contains(*node);
        behind.iter().filter(is_beside).all(|node| match kinds.get(node).copied().map(Kind) {
            Some(
                Kind::CU_GRAPH_NODE_TYPE_EMPTY
                | Kind::CU_GRAPH_NODE_TYPE_GRAPH
                | Kind::CU_GRAPH_NODE_TYPE_WAIT_EVENT
                | Kind::CU_GRAPH_NODE_TYPE_MEM_ALLOC
                | Kind::CU_GRAPH_NODE_TYPE_MEM_FREE,
            ) => true,
            Some(Kind::CU_GRAPH_NODE_TYPE_MEMCPY | Kind::CU_GRAPH_NODE_TYPE_MEMSET) => {
                before.contains(node) || !places.get(node).is_some_and(meets)
            }
            Some(Kind::CU_GRAPH_NODE_TYPE_KERNEL) => before.contains(node),
            // What another callback has put there is no result of the device.
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u32 = Kind::CU_GRAPH_NODE_TYPE_KERNEL.0;
    const COPY: u32 = Kind::CU_GRAPH_NODE_TYPE_MEMCPY.0;
    const HOST: u32 = Kind::CU_GRAPH_NODE_TYPE_HOST.0;

    fn copy(node: u64, address: u64) -> Write {
        let region = Region { address, row_bytes: 64, rows: 1, pitch: 64, slices: 1, slice_pitch: 64 };
        Write { region, node, by: WriteKind::Copy, from_host: false }
    }

    fn results(found: &[(u32, u64)], edges: &[(u64, u64)], written: &[Write]) -> Vec<usize> {
        let mut order = Order::default();
        edges.iter().for_each(|(from, to)| order.waits((*from, false), (*to, false)));
        let mut results = Results::new(&order, written, found);
        let callbacks = found.iter().filter(|(kind, _)| *kind == HOST);
        callbacks.map(|(_, node)| order.neighbour_writes(*node, written, &mut results).results.len()).collect()
    }

    #[test]
    fn what_stands_before_a_callback_is_its_result_if_nobody_else_may_have_written_there() {
        let found = [(COPY, 1), (COPY, 2), (HOST, 3), (COPY, 4)];
        let written = [copy(1, 0x1000), copy(2, 0x2000), copy(4, 0x2020)];
        assert_eq!(results(&found, &[(1, 3), (2, 3)], &written), [2]);
        // The third copy runs beside the callback, in memory of the second.
        assert_eq!(results(&found, &[(1, 3), (2, 3), (2, 4)], &written), [1]);
        assert_eq!(results(&found, &[(1, 3), (2, 3), (3, 4)], &written), [2]);
        // A kernel beside it may tell others.
        assert_eq!(results(&[(COPY, 1), (HOST, 3), (KERNEL, 4)], &[(1, 3), (1, 4)], &written[..1]), [0]);
    }

    #[test]
    fn in_a_large_graph_not_all_results_are_looked_for() {
        const LEN: u64 = 500;
        // Copies in a row, behind each of which a callback stands.
        let found: Vec<_> = (0..LEN).flat_map(|at| [(COPY, 2 * at), (HOST, 2 * at + 1)]).collect();
        let edges: Vec<_> = (0..LEN).flat_map(|at| [(2 * at, 2 * at + 1), (2 * at, 2 * at + 2)]).collect();
        let written: Vec<_> = (0..LEN).map(|at| copy(2 * at, 0x1000 + 64 * at)).collect();
        let mut order = Order::default();
        edges.iter().for_each(|(from, to)| order.waits((*from, false), (*to, false)));
        let mut results = Results::new(&order, &written, &found);
        let callbacks: HashSet<u64> = found.iter().filter(|(kind, _)| *kind == HOST).map(|(_, node)| *node).collect();
        for callback in &callbacks {
            let (before, after) = (reached(&order.last, *callback).0, reached(&order.next, *callback).0);
            results.results_before(*callback, &before, &after);
        }
        assert_eq!(results.left, 0);
        let known: usize = results.behind.values().map(HashSet::len).sum();
        assert!(known <= Results::MOST_STEPS + found.len(), "{known}");
    }
}
