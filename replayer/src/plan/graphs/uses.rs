//! Memory that graphs use, followed from the calls that make nodes, by capture or one by one, to the graph,
//! its executable graphs, and their launches.

use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;
use std::sync::Arc;
use trace::api::effect::{Effect, Work};
use trace::api::enums::CUgraphNodeType;
use trace::api::roles::{Class, Extent, Field, Role};
use trace::api::structs::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS as Conditional, CUgraphNodeParams,
};
use trace::api::types::{Form, Kind, Typed};
use trace::model::stream::StreamId;
use trace::model::streams::Target;
use trace::read::call::When;
use trace::{Call, Function};

/// Allocations, by number. Shared, as a graph is launched many times.
pub(crate) type Uses = Arc<BTreeSet<u32>>;

#[derive(Default)]
pub(crate) struct Graphs {
    /// Captures under way, by the stream that they began on.
    captures: HashMap<StreamId, Uses>,
    graphs: HashMap<u64, Uses>,
    executable: HashMap<u64, Uses>,
    /// The graph that a node is in.
    nodes: HashMap<u64, u64>,
    /// The graph around a graph: that of a child graph's node, or of a conditional node.
    around: HashMap<u64, u64>,
}

impl Graphs {
    /// Follows a call that took effect. `given`: the memory it was given. What it makes use of itself, and
    /// none if it only builds.
    pub(crate) fn follow(&mut self, call: &Call, function: &Function, target: Target, given: Uses) -> Option<Uses> {
        let Target { stream, capture } = target;
        let named = |kind| function.handle(kind).and_then(|at| call.argument_of(at));
        let handle = |kind| named(kind).unwrap_or(0);
        let made = |kind| call.output_of(function.hands_out(kind)?);
        match function.effect {
            Effect::BeginCapture => _ = self.captures.insert(stream, Uses::default()),
            Effect::EndCapture => {
                let captured = self.captures.remove(&stream);
                if let (Some(graph), Some(uses)) = (made(Kind::Graph), captured) {
                    self.add(graph, &uses);
                }
            }
            Effect::UpdateGraph => {
                self.executable.insert(handle(Kind::GraphExec), self.uses_of_graph(handle(Kind::Graph)));
            }
            Effect::Submit(Work::Graph) => return self.add_work(capture, self.launched(handle(Kind::GraphExec))),
            Effect::ListNodes => {
                let listed = listed(call, function).unwrap_or_default();
                self.nodes.extend(listed.into_iter().map(|node| (node, handle(Kind::Graph))));
            }
            Effect::FindInClone => {
                self.nodes.extend(made(Kind::GraphNode).map(|node| (node, handle(Kind::Graph))));
            }
            Effect::ChildGraph => {
                let around = self.nodes.get(&handle(Kind::GraphNode));
                self.around.extend(made(Kind::Graph).zip(around.copied()));
            }
            _ if function.ends(Kind::Graph).is_some() => {
                self.graphs.remove(&handle(Kind::Graph));
                self.around.remove(&handle(Kind::Graph));
            }
            _ if function.ends(Kind::GraphExec).is_some() => _ = self.executable.remove(&handle(Kind::GraphExec)),
            // Instantiated, cloned, or made anew.
            _ if function.creates(Kind::GraphExec).is_some() => {
                let uses = self.uses_of_graph(handle(Kind::Graph));
                self.executable.extend(made(Kind::GraphExec).map(|executable| (executable, uses)));
            }
            _ if function.creates(Kind::Graph).is_some() => {
                let uses = self.uses_of_graph(handle(Kind::Graph));
                self.graphs.extend(made(Kind::Graph).map(|graph| (graph, uses)));
            }
            _ if function.class == Class::graph => match named(Kind::GraphExec) {
                Some(executable) => {
                    let child = named(Kind::Graph).or_else(|| described_child(call, function));
                    let child = child.map(|child| self.uses_of_graph(child)).unwrap_or_default();
                    let uses = self.executable.entry(executable).or_default();
                    Arc::make_mut(uses).extend(given.iter().chain(child.iter()));
                }
                None => self.node(call, function, &given),
            },
            _ => return self.add_work(capture, given),
        }
        None
    }

    /// A node is made or changed.
    fn node(&mut self, call: &Call, function: &Function, given: &Uses) {
        let is_graph = |(_, param): &(usize, &Field)| matches!(param.ty.form, Form::Handle(Kind::Graph));
        let mut graphs = function.params.iter().enumerate().filter(is_graph).filter_map(|(at, _)| call.argument_of(at));
        let node = function.handle(Kind::GraphNode).and_then(|at| call.argument_of(at));
        let of_node = || node.and_then(|node| self.nodes.get(&node).copied());
        let Some(graph) = graphs.next().or_else(of_node) else { return };
        let made = function.creates(Kind::GraphNode).and_then(|at| call.output_of(at));
        self.nodes.extend(made.map(|node| (node, graph)));
        let child = graphs.next().or_else(|| described_child(call, function));
        let child = child.map(|child| self.uses_of_graph(child)).unwrap_or_default();
        self.add(graph, given);
        self.add(graph, &child);
        self.around.extend(bodies(call, function).unwrap_or_default().into_iter().map(|body| (body, graph)));
    }

    /// Work on a stream: part of a capture, or done.
    fn add_work(&mut self, capture: Option<StreamId>, uses: Uses) -> Option<Uses> {
        let Some(capture) = capture else { return Some(uses) };
        Arc::make_mut(self.captures.entry(capture).or_default()).extend(uses.iter());
        None
    }

    /// What a launch of this executable graph uses.
    pub(crate) fn launched(&self, executable: u64) -> Uses {
        self.executable.get(&executable).cloned().unwrap_or_default()
    }

    pub(crate) fn is_executable(&self, handle: u64) -> bool {
        self.executable.contains_key(&handle)
    }

    /// What the graph uses in which a node is.
    pub(crate) fn graph_of_node(&self, node: u64) -> Uses {
        self.nodes.get(&node).map_or_else(Uses::default, |graph| self.uses_of_graph(*graph))
    }

    fn uses_of_graph(&self, graph: u64) -> Uses {
        self.graphs.get(&graph).cloned().unwrap_or_default()
    }

    fn add(&mut self, graph: u64, uses: &Uses) {
        // Deeper than any graph; handles that are used again may lead in a circle.
        const DEEP: usize = 16;
        let mut at = Some(graph);
        for _ in 0..DEEP {
            let Some(graph) = at else { return };
            Arc::make_mut(self.graphs.entry(graph).or_default()).extend(uses.iter());
            at = self.around.get(&graph).copied();
        }
    }
}

/// The bytes of the struct that describes a node of this kind, if the call has one.
fn described(call: &Call, function: &Function, when: When, kind: CUgraphNodeType) -> Option<Vec<u8>> {
    let describes =
        |param: &Field| matches!(param.ty.form, Form::Pointer(to) if to.name == CUgraphNodeParams::TYPE.name);
    let params = call.argument_of(function.params.iter().position(describes)?)?;
    let bytes = call.memory(when, params, size_of::<CUgraphNodeParams>() as u64)?;
    let is_of_kind = word(&bytes, offset_of!(CUgraphNodeParams, r#type))? as u32 == kind.0;
    is_of_kind.then(|| bytes.to_vec())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

const PARAMS: usize = offset_of!(CUgraphNodeParams, params);

/// The graphs inside a conditional node, which the driver makes with it.
fn bodies(call: &Call, function: &Function) -> Option<Vec<u64>> {
    function.creates(Kind::GraphNode)?;
    let bytes = described(call, function, When::Return, CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL)?;
    let count = word(&bytes, PARAMS + offset_of!(Conditional, size))? as u32;
    Some(handles(call, word(&bytes, PARAMS + offset_of!(Conditional, phGraph_out))?, count.into()))
}

/// The graph that a node is described to hold.
fn described_child(call: &Call, function: &Function) -> Option<u64> {
    let bytes = described(call, function, When::Entry, CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH)?;
    word(&bytes, PARAMS + offset_of!(CUDA_CHILD_GRAPH_NODE_PARAMS, graph))
}

/// The nodes of a graph, as many as the call says that there are.
fn listed(call: &Call, function: &Function) -> Option<Vec<u64>> {
    let list = function.params.iter().enumerate().find_map(|(at, param)| match param.role {
        Role::Out(Extent::LenAt(count)) => Some((at, usize::from(count.0))),
        _ => None,
    });
    let (nodes, count) = list?;
    Some(handles(call, call.argument_of(nodes)?, call.output_of(count)?))
}

/// An array of handles, as it was after the call.
fn handles(call: &Call, address: u64, count: u64) -> Vec<u64> {
    let bytes = count.checked_mul(8).and_then(|len| call.memory(When::Return, address, len));
    let words = bytes.as_deref().unwrap_or_default().chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::plan::plan;

    const AT: u64 = 0x7f00_1234_0000;
    const STREAM: u64 = 0x50;
    const EVENT: u64 = 0xe0;
    const GRAPH: u64 = 0x99;
    const INSTANCE: u64 = 0xaa;

    fn begun() -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for (n, at) in [AT, AT + 512].into_iter().enumerate() {
            let time = 2 + n as u64;
            sample.call(0, "cuMemAlloc_v2", time..time, &[0x100, 512], &[(0x100, &at.to_le_bytes())]);
        }
        sample
    }

    /// Instantiates and launches; launches, unreached launches, and whether the launch wrote what is copied.
    fn launched(sample: &mut Sample, from: u64) -> (u64, u64, bool) {
        let instance = (0x100, &INSTANCE.to_le_bytes()[..]);
        sample.call(0, "cuGraphInstantiateWithFlags", 60..61, &[0x100, GRAPH, 0], &[instance]);
        sample.call(0, "cuGraphDestroy", 62..63, &[GRAPH], &[]);
        sample.call(0, "cuGraphLaunch", 70..71, &[INSTANCE, STREAM], &[]);
        sample.copy_out(0, 80..81, from, 100);
        let trace = sample.trace();
        let plan = plan(&trace);
        let number = |name| trace.calls().find(|call| call.name() == name).expect("called above").number;
        let writers = plan.comparability.reach.writers(number("cuMemcpyDtoH_v2"));
        (plan.counts.launches, plan.counts.unreached_launches, writers == [number("cuGraphLaunch")])
    }

    #[test]
    fn what_a_forked_capture_uses_its_launches_use() {
        for (from, found) in [(AT, (1, 0, true)), (AT + 512, (1, 1, false))] {
            let mut sample = begun();
            sample.call(0, "cuStreamBeginCapture_v2", 10..11, &[STREAM, 0], &[]);
            sample.call(0, "cuEventRecord", 12..13, &[EVENT, STREAM], &[]);
            sample.call(0, "cuStreamWaitEvent", 14..15, &[STREAM + 1, EVENT, 0], &[]);
            sample.call(0, "cuMemsetD8Async", 16..17, &[AT, 5, 100, STREAM + 1], &[]);
            let graph = (0x100, &GRAPH.to_le_bytes()[..]);
            sample.call(0, "cuStreamEndCapture", 18..19, &[STREAM, 0x100], &[graph]);
            // This one is not part of the graph.
            sample.call(0, "cuMemsetD8Async", 20..21, &[AT + 512, 5, 100, STREAM + 1], &[]);
            assert_eq!(launched(&mut sample, from), found);
        }
    }

    #[test]
    fn what_a_kernel_launches_by_its_handle_the_kernel_uses() {
        let handle = INSTANCE.to_le_bytes();
        for is_stored in [false, true] {
            for from in [AT, AT + 512] {
                let mut sample = begun();
                let stored = (0x100, &(AT + 1024).to_le_bytes()[..]);
                sample.call(0, "cuMemAlloc_v2", 6..7, &[0x100, 512], &[stored]);
                sample.call(0, "cuGraphCreate", 10..11, &[0x100, 0], &[(0x100, &GRAPH.to_le_bytes())]);
                let node = (0x100, &0x77u64.to_le_bytes()[..]);
                sample.call(0, "cuGraphAddMemFreeNode", 14..15, &[0x100, GRAPH, 0, 0, AT], &[node]);
                let instance = (0x100, &handle[..]);
                sample.call(0, "cuGraphInstantiateWithFlags", 20..21, &[0x100, GRAPH, 8], &[instance]);
                if is_stored {
                    sample.call(0, "cuMemcpyHtoD_v2", 22..23, &[AT + 1024, 0x6000, 8], &[(0x6000, &handle)]);
                    sample.launch(0, 24..25, AT + 1024);
                } else {
                    sample.launch(0, 24..25, INSTANCE);
                }
                sample.copy_out(0, 80..81, from, 100);
                let plan = plan(&sample.trace());
                assert_eq!(
                    (plan.counts.launches, plan.counts.unreached_launches),
                    (1, u64::from(from != AT)),
                    "{is_stored} {from:#x}"
                );
            }
        }
    }

    #[test]
    fn what_a_child_graph_uses_its_parent_uses() {
        let mut sample = begun();
        let (node, child) = (0x77u64, 0x98u64);
        sample.call(0, "cuGraphCreate", 10..11, &[0x100, 0], &[(0x100, &child.to_le_bytes())]);
        sample.call(0, "cuGraphCreate", 12..13, &[0x100, 0], &[(0x100, &GRAPH.to_le_bytes())]);
        let made = (0x100, &node.to_le_bytes()[..]);
        sample.call(0, "cuGraphAddMemFreeNode", 14..15, &[0x100, child, 0, 0, AT], &[made]);
        sample.call(0, "cuGraphAddChildGraphNode", 16..17, &[0x100, GRAPH, 0, 0, child], &[made]);
        assert_eq!(launched(&mut sample, AT), (1, 0, true));
    }
}
