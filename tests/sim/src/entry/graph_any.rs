//! Nodes by a structure that tells its kind.

use super::entries;
use super::structs::{HostNodeParameters, KernelNodeParameters, Memcpy3d, MemsetNodeParameters};
use crate::abi::{Handle, In, Out};
use crate::code::{Code, Result};
use crate::graph::exec;
use crate::graph::node::Kind;
use crate::{event, graph};

/// CUgraphNodeParams: the kind, twelve bytes, then the union.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AnyParameters {
    kind: u32,
    reserved: [u32; 3],
    words: [u64; 29],
    reserved_too: u64,
}

/// Where the copy itself begins in a memcpy node's part of the union: after flags and a context.
const COPY_AT: usize = 16;

fn kind(given: In<AnyParameters>) -> Result<Kind> {
    let AnyParameters { kind, words, .. } = given.get()?;
    let union = words.as_ptr().cast::<u8>();
    match kind {
        0 => Kind::from_kernel(&In::from_raw(union.cast::<KernelNodeParameters>()).get()?),
        1 => Kind::from_copy(In::from_raw(union.wrapping_add(COPY_AT).cast::<Memcpy3d>()).get()?),
        2 => Kind::from_fill(&In::from_raw(union.cast::<MemsetNodeParameters>()).get()?),
        3 => super::graph_node::host(In::from_raw(union.cast::<HostNodeParameters>())),
        4 => Ok(Kind::Child(graph::copy(words[0] as Handle, true)?)),
        5 => Ok(Kind::Empty),
        6 => event::find(words[0] as Handle).map(|_| Kind::WaitEvent(words[0] as Handle)),
        7 => event::find(words[0] as Handle).map(|_| Kind::RecordEvent(words[0] as Handle)),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn add(made: Out<Handle>, hgraph: Handle, after: In<Handle>, count: usize, given: In<AnyParameters>) -> Result {
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(graph::find(hgraph)?.add(hgraph, kind(given)?, after.all(count)?)?)
}

entries! {
    fn cuGraphAddNode(
        made: Out<Handle>, hgraph: Handle, after: In<Handle>, count: usize, given: In<AnyParameters>,
    ) {
        add(made, hgraph, after, count, given)
    }

    fn cuGraphAddNode_v2(
        made: Out<Handle>, hgraph: Handle, after: In<Handle>, _edges: In<u64>, count: usize, given: In<AnyParameters>,
    ) {
        add(made, hgraph, after, count, given)
    }

    fn cuGraphNodeSetParams(hnode: Handle, given: In<AnyParameters>) {
        graph::find_node(hnode)?.set_kind(kind(given)?)
    }

    fn cuGraphExecNodeSetParams(hexec: Handle, hnode: Handle, given: In<AnyParameters>) {
        graph::find_node(hnode)?;
        exec::find_exec(hexec)?.set(hnode, kind(given)?)
    }
}
