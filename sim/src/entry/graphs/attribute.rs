//! Attributes of graphs and their nodes: attributes of kernels, words to write and wait for, ids, a drawing.

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Input, Out};
use crate::entry::declare::entries;
use crate::entry::graphs::node::add;
use crate::graphs::node::{Batch, Kind};
use crate::graphs::{exec, graph};
use crate::streams::context;

/// CUDA_BATCH_MEM_OP_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BatchParameters {
    context: Handle,
    count: u32,
    operations: Input<[u64; 6]>,
    flags: u32,
}

pub(crate) fn batch(given: Input<BatchParameters>) -> Result<Kind> {
    let BatchParameters { context, count, operations, flags } = given.get()?;
    context::find(context)?;
    let operations = operations.all(count as usize)?;
    if flags != 0 || count > 256 {
        return Err(Code::INVALID_VALUE);
    }
    let work = operations.iter().map(|words| crate::entry::values::work(*words)).collect::<Result<Vec<_>>>()?;
    Ok(Kind::Batch(Batch { context, operations: operations.into(), work: work.into_iter().flatten().collect() }))
}

entries! {
    fn cuGraphKernelNodeSetAttribute(hnode: Handle, attribute: u32, value: Input<[u32; 16]>) {
        let value = value.get()?;
        graph::find_node(hnode)?.attributes(|attributes| {
            attributes.insert(attribute, value);
        })
    }

    fn cuGraphKernelNodeGetAttribute(hnode: Handle, attribute: u32, value: Out<[u32; 16]>) {
        let mut found = [0; 16];
        graph::find_node(hnode)?.attributes(|attributes| found = attributes.get(&attribute).copied().unwrap_or(found))?;
        value.set(found)
    }

    fn cuGraphKernelNodeCopyAttributes(to: Handle, from: Handle) {
        let mut all = Default::default();
        graph::find_node(from)?.attributes(|attributes| all = attributes.clone())?;
        graph::find_node(to)?.attributes(|attributes| *attributes = all)
    }

    fn cuGraphAddBatchMemOpNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<BatchParameters>,
    ) {
        add(made, hgraph, after, count, batch(given)?)
    }

    /// The operations stay the node's.
    fn cuGraphBatchMemOpNodeGetParams(hnode: Handle, to: Out<BatchParameters>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Batch(Batch { context, operations, .. }) => to.set(BatchParameters {
                context, count: operations.len() as u32, operations: Input::from_raw(operations.as_ptr()), flags: 0,
            }),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphBatchMemOpNodeSetParams(hnode: Handle, given: Input<BatchParameters>) {
        graph::find_node(hnode)?.set_kind(batch(given)?)
    }

    fn cuGraphExecBatchMemOpNodeSetParams(hexec: Handle, hnode: Handle, given: Input<BatchParameters>) {
        graph::find_node(hnode)?;
        exec::find_exec(hexec)?.set(hnode, batch(given)?)
    }

    fn cuGraphGetId(hgraph: Handle, id: Out<u32>) {
        id.set(graph::find(hgraph)?.id.0)
    }

    fn cuGraphExecGetId(hexec: Handle, id: Out<u32>) {
        id.set(exec::find_exec(hexec)?.id.0)
    }

    fn cuGraphNodeGetContainingGraph(hnode: Handle, hgraph: Out<Handle>) {
        hgraph.set(graph::find_node(hnode)?.graph)
    }

    fn cuGraphNodeGetLocalId(hnode: Handle, id: Out<u32>) {
        id.set(graph::find_node(hnode)?.id.0)
    }

    fn cuGraphNodeGetToolsId(hnode: Handle, id: Out<u64>) {
        let node = graph::find_node(hnode)?;
        id.set(u64::from(graph::find(node.graph)?.id.0) << 32 | u64::from(node.id.0))
    }
}
