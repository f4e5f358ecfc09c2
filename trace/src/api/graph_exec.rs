//! Executable graphs: instantiation, update, upload and launch.

#[macro_export]
macro_rules! graph_exec {
    ($($with:tt)+) => {
        $($with)+! {
            "graph_exec";
            cuGraphInstantiateWithParams(phGraphExec: *mut CUgraphExec = Create(One), hGraph: CUgraph,
                instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS = InOut(One))
                create | cuGraphInstantiateWithParams_ptsz;
            cuGraphInstantiateWithFlags(phGraphExec: *mut CUgraphExec = Create(One), hGraph: CUgraph,
                flags: u64 = CUgraphInstantiate_flags::BITS) create;
            cuGraphInstantiate_v2(phGraphExec: *mut CUgraphExec = Create(One), hGraph: CUgraph,
                phErrorNode: *mut CUgraphNode = Out(One), logBuffer: *mut c_char = Volatile(TextUpTo(bufferSize)),
                bufferSize: usize) create;
            cuGraphInstantiate(phGraphExec: *mut CUgraphExec = Create(One), hGraph: CUgraph,
                phErrorNode: *mut CUgraphNode = Out(One), logBuffer: *mut c_char = Volatile(TextUpTo(bufferSize)),
                bufferSize: usize) create;
            cuGraphExecGetId(hGraphExec: CUgraphExec, graphId: *mut u32 = Volatile(One)) query;
            cuGraphExecGetFlags(hGraphExec: CUgraphExec, flags: *mut u64 = Out(One)) query;
            cuGraphExecDestroy(hGraphExec: CUgraphExec = Destroy) destroy;

            cuGraphUpload(hGraphExec: CUgraphExec, hStream: CUstream) submit | cuGraphUpload_ptsz => Submit(Upload);
            cuGraphLaunch(hGraphExec: CUgraphExec, hStream: CUstream) launch | cuGraphLaunch_ptsz => Submit(Graph);

            // Changing the whole: an update that fails tells why, in its results.
            cuGraphExecUpdate_v2(hGraphExec: CUgraphExec, hGraph: CUgraph,
                resultInfo: *mut CUgraphExecUpdateResultInfo = Out(One)) graph => UpdateGraph;
            cuGraphExecUpdate(hGraphExec: CUgraphExec, hGraph: CUgraph, hErrorNode_out: *mut CUgraphNode = Out(One),
                updateResult_out: *mut CUgraphExecUpdateResult = Out(One)) graph => UpdateGraph;

            // Changing one node, in the executable graph only.
            cuGraphExecKernelNodeSetParams_v2(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_KERNEL_NODE_PARAMS = In(One)) graph => SetNode(Kernel);
            cuGraphExecKernelNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1 = In(One)) graph => SetNode(Kernel);
            cuGraphExecMemcpyNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                copyParams: *const CUDA_MEMCPY3D = In(One), ctx: CUcontext) graph => SetNode(Copy);
            cuGraphExecMemsetNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                memsetParams: *const CUDA_MEMSET_NODE_PARAMS = In(One), ctx: CUcontext) graph => SetNode(Fill);
            cuGraphExecHostNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_HOST_NODE_PARAMS = In(One)) graph => SetNode(HostFunction);
            cuGraphExecChildGraphNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode, childGraph: CUgraph) graph
                => SetNode(Graph);
            cuGraphExecEventRecordNodeSetEvent(hGraphExec: CUgraphExec, hNode: CUgraphNode, event: CUevent) graph
                => SetNode(RecordEvent);
            cuGraphExecEventWaitNodeSetEvent(hGraphExec: CUgraphExec, hNode: CUgraphNode, event: CUevent) graph
                => SetNode(AwaitEvent);
            cuGraphExecExternalSemaphoresSignalNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = In(One)) graph refuse => SetNode(Semaphore);
            cuGraphExecExternalSemaphoresWaitNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS = In(One)) graph refuse => SetNode(Semaphore);
            cuGraphExecBatchMemOpNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS = In(One)) graph => SetNode(Value);
            cuGraphExecNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode,
                nodeParams: *mut CUgraphNodeParams = In(One)) graph => SetNode(Described);
            cuGraphNodeSetEnabled(hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: u32) graph => EnableNode;
            cuGraphNodeGetEnabled(hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: *mut u32 = Out(One)) query;
        }
    };
}

describe_family!(graph_exec);
