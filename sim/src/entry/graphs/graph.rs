//! Graphs: their nodes and edges.

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Input, Out};
use crate::base::registry::handle_of;
use crate::entry::declare::entries;
use crate::graphs::graph;
use crate::graphs::node::Kind;
use std::ffi::c_char;

// From CUgraphDebugDot_flags.
const VERBOSE: u32 = 1 << 0;
const HOST_NODES: u32 = 1 << 5;

/// The two-call pattern: without storage the count is told; with it, as much as there is room for is filled
/// in by `put` and the rest of the room cleared.
fn fill<T: Copy>(found: &[T], given: bool, count: Out<usize>, put: impl Fn(usize, Option<T>)) -> Result {
    let room = count.get()?;
    if !given {
        return count.set(found.len());
    }
    for index in 0..room {
        put(index, found.get(index).copied());
    }
    count.set(found.len().min(room))
}

fn handles(found: &[Handle], to: Out<Handle>, count: Out<usize>) -> Result {
    fill(found, !to.is_null(), count, |index, node| to.set_at(index, node.unwrap_or(0)))
}

/// The same with the edges' data, which is always the default.
fn handles_with_data(found: &[Handle], to: Out<Handle>, data: Out<u64>, count: Out<usize>) -> Result {
    fill(found, !to.is_null(), count, |index, node| {
        to.set_at(index, node.unwrap_or(0));
        data.set_at(index, 0);
    })
}

fn edges(hgraph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) -> Result {
    if from.is_null() != to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let found = graph::find(hgraph)?.edges();
    fill(&found, !from.is_null(), count, |index, edge| {
        let (first, second) = edge.unwrap_or((0, 0));
        from.set_at(index, first);
        to.set_at(index, second);
        data.set_at(index, 0);
    })
}

fn dependents(hnode: Handle) -> Result<Vec<Handle>> {
    let graph = graph::find(graph::find_node(hnode)?.graph)?;
    Ok(graph.edges().into_iter().filter(|(from, _)| *from == hnode).map(|(_, to)| to).collect())
}

fn connect(hgraph: Handle, from: Input<Handle>, to: Input<Handle>, count: usize, wanted: bool) -> Result {
    for (from, to) in from.all(count)?.into_iter().zip(to.all(count)?) {
        let (first, second) = (graph::find_node(from)?, graph::find_node(to)?);
        let mut after = second.dependencies();
        if first.graph != hgraph || second.graph != hgraph || after.contains(&from) == wanted || from == to {
            return Err(Code::INVALID_VALUE);
        }
        if wanted {
            after.push(from)
        } else {
            after.retain(|d| *d != from)
        }
        second.set_dependencies(after);
    }
    Ok(())
}

entries! {
    fn cuGraphCreate(made: Out<Handle>, flags: u32) {
        if made.is_null() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        made.set(graph::create())
    }

    fn cuGraphDestroy(hgraph: Handle) {
        graph::destroy(hgraph)
    }

    fn cuGraphClone(made: Out<Handle>, hgraph: Handle) {
        made.set(graph::copy(hgraph, false)?)
    }

    fn cuGraphNodeFindInClone(found: Out<Handle>, original: Handle, clone: Handle) {
        found.set(graph::find(clone)?.copy_of(original).ok_or(Code::INVALID_VALUE)?)
    }

    fn cuGraphGetNodes(hgraph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let found: Vec<_> = graph::find(hgraph)?.nodes().iter().map(handle_of).collect();
        handles(&found, nodes, count)
    }

    fn cuGraphGetRootNodes(hgraph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let all = graph::find(hgraph)?.nodes();
        let found: Vec<_> = all.iter().filter(|n| n.dependencies().is_empty()).map(handle_of).collect();
        handles(&found, nodes, count)
    }

    fn cuGraphGetEdges(hgraph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(hgraph, from, to, Out::from_raw(std::ptr::null_mut()), count)
    }

    fn cuGraphGetEdges_v2(hgraph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        edges(hgraph, from, to, data, count)
    }

    fn cuGraphNodeGetDependencies(hnode: Handle, nodes: Out<Handle>, count: Out<usize>) {
        handles(&graph::find_node(hnode)?.dependencies(), nodes, count)
    }

    fn cuGraphNodeGetDependencies_v2(hnode: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        handles_with_data(&graph::find_node(hnode)?.dependencies(), nodes, data, count)
    }

    fn cuGraphNodeGetDependentNodes_v2(hnode: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        handles_with_data(&dependents(hnode)?, nodes, data, count)
    }

    fn cuGraphNodeGetDependentNodes(hnode: Handle, nodes: Out<Handle>, count: Out<usize>) {
        handles(&dependents(hnode)?, nodes, count)
    }

    fn cuGraphAddDependencies(hgraph: Handle, from: Input<Handle>, to: Input<Handle>, count: usize) {
        connect(hgraph, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(hgraph: Handle, from: Input<Handle>, to: Input<Handle>, _data: Input<u64>, count: usize) {
        connect(hgraph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(hgraph: Handle, from: Input<Handle>, to: Input<Handle>, count: usize) {
        connect(hgraph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(hgraph: Handle, from: Input<Handle>, to: Input<Handle>, _data: Input<u64>, count: usize) {
        connect(hgraph, from, to, count, false)
    }

    fn cuGraphDestroyNode(hnode: Handle) {
        let node = graph::find_node(hnode)?;
        graph::find(node.graph)?.remove(hnode);
        Ok(())
    }

    /// What a host node runs is shown if that is wanted.
    fn cuGraphDebugDotPrint(hgraph: Handle, path: Input<c_char>, flags: u32) {
        let mut drawn = "digraph dot {\n".to_owned();
        for node in graph::find(hgraph)?.nodes() {
            let (own, kind) = (handle_of(&node), node.kind());
            let shown = match kind {
                Kind::Host(function, data) if flags & (VERBOSE | HOST_NODES) != 0 => {
                    format!("|{{fn|userData}}|{{{function:p}|{:#x}}}", data.0 as usize)
                }
                _ => String::new(),
            };
            drawn += &format!("\"{own:#x}\"[label=\"{{{}{shown}}}\"];\n", kind.number());
            drawn.extend(node.dependencies().iter().map(|from| format!("\"{from:#x}\" -> \"{own:#x}\";\n")));
        }
        std::fs::write(path.text()?, drawn + "}\n").map_err(|_| Code::OPERATING_SYSTEM)
    }

    fn cuGraphNodeGetType(hnode: Handle, kind: Out<u32>) {
        kind.set(graph::find_node(hnode)?.kind().number())
    }
}
