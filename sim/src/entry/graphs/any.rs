//! Nodes of any kind, made from a structure that names its kind.

use crate::abi::code::{Code, Result};
use crate::abi::structs::{HostNodeParameters, KernelNodeParameters, Memcpy3d, MemsetNodeParameters};
use crate::abi::{Handle, Input, Out};
use crate::base::registry::Registry;
use crate::entry::declare::entries;
use crate::graphs::exec;
use crate::graphs::graph;
use crate::graphs::node::{Conditional, Kind, Node};
use crate::streams::event;
use std::sync::Arc;

/// CUgraphNodeParams: the kind, twelve bytes, then the union.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AnyParameters {
    kind: u32,
    reserved: [u32; 3],
    words: [u64; 29],
    reserved_too: u64,
}

/// Where the copy itself begins in a memcpy node's part of the union: after flags and a context.
const COPY_AT: usize = 16;

/// Default values of conditions.
static CONDITIONS: Registry<u32> = Registry::new();

/// Assigns the default at each launch.
const ASSIGN_DEFAULT: u32 = 1;
const SWITCH: u32 = 2;

/// A condition, its type and the number of graphs it chooses from.
fn conditional(condition: Handle, kind: u32, size: u32) -> Result<Kind> {
    let value = *CONDITIONS.find(condition)?;
    let bodies: Vec<Handle> = (0..size).map(|_| graph::create_body()).collect();
    let chosen = match kind {
        SWITCH => bodies.get(value as usize).copied(),
        _ => bodies.get(usize::from(value == 0)).copied(),
    };
    Ok(Kind::Conditional(Arc::new(Conditional { bodies, chosen })))
}

fn kind(given: AnyParameters) -> Result<Kind> {
    let AnyParameters { kind, words, .. } = given;
    let union = words.as_ptr().cast::<u8>();
    match kind {
        0 => Kind::from_kernel(&Input::from_raw(union.cast::<KernelNodeParameters>()).get()?),
        1 => Kind::from_copy(Input::from_raw(union.wrapping_add(COPY_AT).cast::<Memcpy3d>()).get()?),
        2 => Kind::from_fill(&Input::from_raw(union.cast::<MemsetNodeParameters>()).get()?),
        3 => crate::entry::graphs::node::host(Input::from_raw(union.cast::<HostNodeParameters>())),
        4 => Ok(Kind::Child(graph::copy(words[0] as Handle, true)?)),
        5 => Ok(Kind::Empty),
        6 => event::find(words[0] as Handle).map(|_| Kind::WaitEvent(words[0] as Handle)),
        13 => conditional(words[0] as Handle, words[1] as u32, (words[1] >> 32) as u32),
        7 => event::find(words[0] as Handle).map(|_| Kind::RecordEvent(words[0] as Handle)),
        12 => crate::entry::graphs::attribute::batch(Input::from_raw(union.cast())),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// The parameters of a node in the form in which they can be given.
fn any_parameters(node: &Node) -> Result<AnyParameters> {
    let kind = node.kind();
    let mut all = AnyParameters { kind: kind.number(), reserved: [0; 3], words: [0; 29], reserved_too: 0 };
    let union = Out::from_raw(all.words.as_mut_ptr());
    match kind {
        Kind::Kernel(_) => union.cast().set(node.kernel()?)?,
        Kind::Copy(raw, _) => Out::from_raw(all.words[COPY_AT / 8..].as_mut_ptr()).cast().set(*raw)?,
        Kind::Fill(fill) => union.cast().set(MemsetNodeParameters::new(&fill))?,
        Kind::Host(f, data) => union.cast().set(HostNodeParameters { function: Some(f), data })?,
        Kind::Child(handle) | Kind::WaitEvent(handle) | Kind::RecordEvent(handle) => all.words[0] = handle as u64,
        Kind::Empty => {}
        _ => return Err(Code::NOT_SUPPORTED),
    }
    Ok(all)
}

fn add(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Out<AnyParameters>) -> Result {
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut parameters = given.get()?;
    let kind = kind(parameters)?;
    if let Kind::Conditional(of) = &kind {
        // The array is the node's.
        parameters.words[2] = of.bodies.as_ptr() as u64;
        given.set(parameters)?;
    }
    made.set(graph::find(hgraph)?.add(hgraph, kind, after.all(count)?)?)
}

entries! {
    fn cuGraphAddNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Out<AnyParameters>,
    ) {
        add(made, hgraph, after, count, given)
    }

    fn cuGraphAddNode_v2(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, _edges: Input<u64>, count: usize, given: Out<AnyParameters>,
    ) {
        add(made, hgraph, after, count, given)
    }

    fn cuGraphAddNode_v3(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, _edges: Input<u64>, count: usize, given: Out<AnyParameters>,
    ) {
        add(made, hgraph, after, count, given)
    }

    fn cuGraphNodeSetParams_v2(hnode: Handle, given: Input<AnyParameters>) {
        graph::find_node(hnode)?.set_kind(kind(given.get()?)?)
    }

    fn cuGraphNodeGetParams(hnode: Handle, to: Out<AnyParameters>) {
        to.set(any_parameters(&*graph::find_node(hnode)?)?)
    }

    fn cuGraphConditionalHandleCreate(made: Out<u64>, hgraph: Handle, _context: Handle, default: u32, flags: u32) {
        graph::find(hgraph)?;
        made.set(CONDITIONS.insert(Arc::new(if flags & ASSIGN_DEFAULT == 0 { 0 } else { default })) as u64)
    }

    fn cuGraphNodeSetParams(hnode: Handle, given: Input<AnyParameters>) {
        graph::find_node(hnode)?.set_kind(kind(given.get()?)?)
    }

    fn cuGraphExecNodeSetParams(hexec: Handle, hnode: Handle, given: Input<AnyParameters>) {
        graph::find_node(hnode)?;
        exec::find_exec(hexec)?.set(hnode, kind(given.get()?)?)
    }
}
