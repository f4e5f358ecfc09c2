//! Instantiated graphs: launch and update.

use std::ffi::c_char;

use crate::abi::code::{Code, Result};
use crate::abi::structs::{
    HostNodeParameters, InstantiateParameters, KernelNodeParameters, KernelNodeParametersV1, Memcpy3d,
    MemsetNodeParameters, UpdateResult,
};
use crate::abi::{Handle, Input, Out, put_text};
use crate::entry::declare::entries;
use crate::entry::graphs::node::{host, kernel, kernel_v1};
use crate::graphs::exec;
use crate::graphs::graph;
use crate::graphs::node::Kind;
use crate::streams::{context, event, stream};

fn instantiate(made: Out<Handle>, hgraph: Handle, flags: u64) -> Result {
    context::usable()?;
    if made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(exec::instantiate(hgraph, flags)?)
}

fn set(hexec: Handle, hnode: Handle, kind: Kind) -> Result {
    graph::find_node(hnode)?;
    exec::find_exec(hexec)?.set(hnode, kind)
}

/// The outcome by the values of CUgraphExecUpdateResult, and the node that is in the way.
fn update(hexec: Handle, hgraph: Handle, tell: impl FnOnce(u32, Handle) -> Result) -> Result {
    match exec::find_exec(hexec)?.update(hgraph)? {
        Ok(()) => tell(0, 0),
        Err((result, node)) => {
            tell(result, node)?;
            Err(Code::GRAPH_EXEC_UPDATE_FAILURE)
        }
    }
}

entries! {
    fn cuGraphInstantiate(made: Out<Handle>, hgraph: Handle, error: Out<Handle>, log: Out<c_char>, size: usize) {
        error.set_if(0);
        let outcome = instantiate(made, hgraph, 0);
        let text = if outcome.is_err() { "no such graph" } else { "" };
        put_text(log, if log.is_null() { 0 } else { size }, text);
        outcome
    }

    fn cuGraphInstantiate_v2(made: Out<Handle>, hgraph: Handle, error: Out<Handle>, log: Out<c_char>, size: usize) {
        error.set_if(0);
        let outcome = instantiate(made, hgraph, 0);
        let text = if outcome.is_err() { "no such graph" } else { "" };
        put_text(log, if log.is_null() { 0 } else { size }, text);
        outcome
    }

    fn cuGraphInstantiateWithFlags(made: Out<Handle>, hgraph: Handle, flags: u64) {
        instantiate(made, hgraph, flags)
    }

    fn cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz [null] (
        made: Out<Handle>, hgraph: Handle, parameters: Out<InstantiateParameters>,
    ) {
        let given = parameters.get()?;
        if given.flags & 2 != 0 {
            stream::find(given.upload, null)?;
        }
        let outcome = instantiate(made, hgraph, given.flags);
        parameters.set(InstantiateParameters { error_node: 0, result: u32::from(outcome.is_err()), ..given })?;
        outcome
    }

    fn cuGraphExecDestroy(hexec: Handle) {
        exec::destroy(hexec)
    }

    fn cuGraphExecGetFlags(hexec: Handle, flags: Out<u64>) {
        flags.set(exec::find_exec(hexec)?.flags)
    }

    fn cuGraphLaunch / cuGraphLaunch_ptsz [null] (hexec: Handle, hstream: Handle) {
        let (exec, stream) = (exec::find_exec(hexec)?, stream::find(hstream, null)?);
        stream.context()?.check()?;
        exec.launch(&stream)
    }

    /// There is nothing to be sent ahead.
    fn cuGraphUpload / cuGraphUpload_ptsz [null] (hexec: Handle, hstream: Handle) {
        exec::find_exec(hexec)?;
        stream::find(hstream, null)?.context()?.check()
    }

    fn cuGraphExecKernelNodeSetParams(hexec: Handle, hnode: Handle, given: Input<KernelNodeParametersV1>) {
        set(hexec, hnode, kernel_v1(given)?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(hexec: Handle, hnode: Handle, given: Input<KernelNodeParameters>) {
        set(hexec, hnode, kernel(given)?)
    }

    fn cuGraphExecMemcpyNodeSetParams(hexec: Handle, hnode: Handle, given: Input<Memcpy3d>, ctx: Handle) {
        context::find(ctx)?;
        set(hexec, hnode, Kind::from_copy(given.get()?)?)
    }

    fn cuGraphExecMemsetNodeSetParams(hexec: Handle, hnode: Handle, given: Input<MemsetNodeParameters>, ctx: Handle) {
        context::find(ctx)?;
        set(hexec, hnode, Kind::from_fill(&given.get()?)?)
    }

    fn cuGraphExecHostNodeSetParams(hexec: Handle, hnode: Handle, given: Input<HostNodeParameters>) {
        set(hexec, hnode, host(given)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(hexec: Handle, hnode: Handle, child: Handle) {
        graph::find(child)?;
        set(hexec, hnode, Kind::Child(child))
    }

    fn cuGraphExecEventRecordNodeSetEvent(hexec: Handle, hnode: Handle, hevent: Handle) {
        event::find(hevent)?;
        set(hexec, hnode, Kind::RecordEvent(hevent))
    }

    fn cuGraphExecEventWaitNodeSetEvent(hexec: Handle, hnode: Handle, hevent: Handle) {
        event::find(hevent)?;
        set(hexec, hnode, Kind::WaitEvent(hevent))
    }

    fn cuGraphNodeSetEnabled(hexec: Handle, hnode: Handle, enabled: u32) {
        exec::find_exec(hexec)?.enable(hnode, enabled != 0)
    }

    fn cuGraphNodeGetEnabled(hexec: Handle, hnode: Handle, enabled: Out<u32>) {
        enabled.set(u32::from(exec::find_exec(hexec)?.enabled(hnode)?))
    }

    fn cuGraphExecUpdate(hexec: Handle, hgraph: Handle, error: Out<Handle>, result: Out<u32>) {
        update(hexec, hgraph, |found, node| {
            error.set_if(node);
            result.set(found)
        })
    }

    fn cuGraphExecUpdate_v2(hexec: Handle, hgraph: Handle, result: Out<UpdateResult>) {
        update(hexec, hgraph, |found, node| result.set(UpdateResult { result: found, error_node: node, error_from: 0 }))
    }
}
