//! Nodes by kind: adding them, reading and changing their parameters.

use crate::abi::code::{Code, Result};
use crate::abi::structs::{
    HostNodeParameters, KernelNodeParameters, KernelNodeParametersV1, Memcpy3d, MemsetNodeParameters,
};
use crate::abi::{Handle, Input, Out};
use crate::entry::declare::entries;
use crate::graphs::graph;
use crate::graphs::node::Kind;
use crate::streams::{context, event};

pub(crate) fn add(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, kind: Kind) -> Result {
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(graph::find(hgraph)?.add(hgraph, kind, after.all(count)?)?)
}

/// The first form of a kernel node's parameters as the second.
pub(crate) fn kernel_v1(given: Input<KernelNodeParametersV1>) -> Result<Kind> {
    let KernelNodeParametersV1 { function, blocks, threads, dynamic_shared, values, extra } = given.get()?;
    let context = context::current_handle();
    Kind::from_kernel(&KernelNodeParameters {
        function,
        blocks,
        threads,
        dynamic_shared,
        values,
        extra,
        kernel: 0,
        context,
    })
}

pub(crate) fn kernel(given: Input<KernelNodeParameters>) -> Result<Kind> {
    Kind::from_kernel(&given.get()?)
}

pub(crate) fn host(given: Input<HostNodeParameters>) -> Result<Kind> {
    let HostNodeParameters { function, data } = given.get()?;
    Ok(Kind::Host(function.ok_or(Code::INVALID_VALUE)?, data))
}

fn set(hnode: Handle, kind: Kind) -> Result {
    graph::find_node(hnode)?.set_kind(kind)
}

entries! {
    fn cuGraphAddKernelNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<KernelNodeParametersV1>,
    ) {
        add(made, hgraph, after, count, kernel_v1(given)?)
    }

    fn cuGraphAddKernelNode_v2(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<KernelNodeParameters>,
    ) {
        add(made, hgraph, after, count, kernel(given)?)
    }

    fn cuGraphKernelNodeGetParams(hnode: Handle, to: Out<KernelNodeParametersV1>) {
        let KernelNodeParameters { function, blocks, threads, dynamic_shared, values, extra, .. } =
            graph::find_node(hnode)?.kernel()?;
        to.set(KernelNodeParametersV1 { function, blocks, threads, dynamic_shared, values, extra })
    }

    fn cuGraphKernelNodeGetParams_v2(hnode: Handle, to: Out<KernelNodeParameters>) {
        to.set(graph::find_node(hnode)?.kernel()?)
    }

    fn cuGraphKernelNodeSetParams(hnode: Handle, given: Input<KernelNodeParametersV1>) {
        set(hnode, kernel_v1(given)?)
    }

    fn cuGraphKernelNodeSetParams_v2(hnode: Handle, given: Input<KernelNodeParameters>) {
        set(hnode, kernel(given)?)
    }

    fn cuGraphAddMemcpyNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<Memcpy3d>, ctx: Handle,
    ) {
        context::find(ctx)?;
        add(made, hgraph, after, count, Kind::from_copy(given.get()?)?)
    }

    fn cuGraphMemcpyNodeGetParams(hnode: Handle, to: Out<Memcpy3d>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Copy(raw, _) => to.set(*raw),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphMemcpyNodeSetParams(hnode: Handle, given: Input<Memcpy3d>) {
        set(hnode, Kind::from_copy(given.get()?)?)
    }

    fn cuGraphAddMemsetNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<MemsetNodeParameters>,
        ctx: Handle,
    ) {
        context::find(ctx)?;
        add(made, hgraph, after, count, Kind::from_fill(&given.get()?)?)
    }

    fn cuGraphMemsetNodeGetParams(hnode: Handle, to: Out<MemsetNodeParameters>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Fill(fill) => to.set(MemsetNodeParameters::new(&fill)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphMemsetNodeSetParams(hnode: Handle, given: Input<MemsetNodeParameters>) {
        set(hnode, Kind::from_fill(&given.get()?)?)
    }

    fn cuGraphAddHostNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Input<HostNodeParameters>,
    ) {
        add(made, hgraph, after, count, host(given)?)
    }

    fn cuGraphHostNodeGetParams(hnode: Handle, to: Out<HostNodeParameters>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Host(f, data) => to.set(HostNodeParameters { function: Some(f), data }),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphHostNodeSetParams(hnode: Handle, given: Input<HostNodeParameters>) {
        set(hnode, host(given)?)
    }

    /// The node has a copy of the child.
    fn cuGraphAddChildGraphNode(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, child: Handle) {
        graph::find(hgraph)?;
        add(made, hgraph, after, count, Kind::Child(graph::copy(child, true)?))
    }

    fn cuGraphChildGraphNodeGetGraph(hnode: Handle, child: Out<Handle>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Child(found) => child.set(found),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphAddEmptyNode(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize) {
        add(made, hgraph, after, count, Kind::Empty)
    }

    fn cuGraphAddEventRecordNode(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, hevent: Handle) {
        event::find(hevent)?;
        add(made, hgraph, after, count, Kind::RecordEvent(hevent))
    }

    fn cuGraphEventRecordNodeGetEvent(hnode: Handle, hevent: Out<Handle>) {
        match graph::find_node(hnode)?.kind() {
            Kind::RecordEvent(found) => hevent.set(found),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeSetEvent(hnode: Handle, hevent: Handle) {
        event::find(hevent)?;
        set(hnode, Kind::RecordEvent(hevent))
    }

    fn cuGraphAddEventWaitNode(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, hevent: Handle) {
        event::find(hevent)?;
        add(made, hgraph, after, count, Kind::WaitEvent(hevent))
    }

    fn cuGraphEventWaitNodeGetEvent(hnode: Handle, hevent: Out<Handle>) {
        match graph::find_node(hnode)?.kind() {
            Kind::WaitEvent(found) => hevent.set(found),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphEventWaitNodeSetEvent(hnode: Handle, hevent: Handle) {
        event::find(hevent)?;
        set(hnode, Kind::WaitEvent(hevent))
    }
}
