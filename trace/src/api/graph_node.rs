//! Graph nodes, by the kind of their work.

#[macro_export]
macro_rules! graph_node {
    ($($with:tt)+) => {
        $($with)+! {
            "graph_node";
            // Kernels.
            cuGraphAddKernelNode_v2(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_KERNEL_NODE_PARAMS = In(One)) graph;
            cuGraphAddKernelNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1 = In(One)) graph;
            cuGraphKernelNodeGetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUDA_KERNEL_NODE_PARAMS = Out(One))
                query;
            cuGraphKernelNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_KERNEL_NODE_PARAMS_v1 = Out(One))
                query;
            cuGraphKernelNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS = In(One))
                graph;
            cuGraphKernelNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1 = In(One))
                graph;
            cuGraphKernelNodeCopyAttributes(dst: CUgraphNode, src: CUgraphNode) graph;
            cuGraphKernelNodeGetAttribute(hNode: CUgraphNode, attr: CUkernelNodeAttrID,
                value_out: *mut CUkernelNodeAttrValue = AttributeOut(attr, LAUNCH_ATTRIBUTES)) query;
            cuGraphKernelNodeSetAttribute(hNode: CUgraphNode, attr: CUkernelNodeAttrID,
                value: *const CUkernelNodeAttrValue = AttributeIn(attr, LAUNCH_ATTRIBUTES)) graph;

            // Copies and memsets.
            cuGraphAddMemcpyNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                copyParams: *const CUDA_MEMCPY3D = In(One), ctx: CUcontext) graph;
            cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D = Out(One)) query;
            cuGraphMemcpyNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMCPY3D = In(One)) graph;
            cuGraphAddMemsetNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                memsetParams: *const CUDA_MEMSET_NODE_PARAMS = In(One), ctx: CUcontext) graph;
            cuGraphMemsetNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMSET_NODE_PARAMS = Out(One)) query;
            cuGraphMemsetNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMSET_NODE_PARAMS = In(One)) graph;

            // Host functions.
            cuGraphAddHostNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_HOST_NODE_PARAMS = In(One)) graph;
            cuGraphHostNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_HOST_NODE_PARAMS = Out(One)) query;
            cuGraphHostNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_HOST_NODE_PARAMS = In(One))
                graph;

            // Child graphs, and nodes that only order others.
            cuGraphAddChildGraphNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                childGraph: CUgraph) graph;
            cuGraphChildGraphNodeGetGraph(hNode: CUgraphNode, phGraph: *mut CUgraph = Out(One)) query => ChildGraph;
            cuGraphAddEmptyNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize) graph;

            // Events.
            cuGraphAddEventRecordNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize, event: CUevent)
                graph;
            cuGraphEventRecordNodeGetEvent(hNode: CUgraphNode, event_out: *mut CUevent = Out(One)) query;
            cuGraphEventRecordNodeSetEvent(hNode: CUgraphNode, event: CUevent) graph;
            cuGraphAddEventWaitNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize, event: CUevent)
                graph;
            cuGraphEventWaitNodeGetEvent(hNode: CUgraphNode, event_out: *mut CUevent = Out(One)) query;
            cuGraphEventWaitNodeSetEvent(hNode: CUgraphNode, event: CUevent) graph;

            // External semaphores.
            cuGraphAddExternalSemaphoresSignalNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = In(One)) graph refuse;
            cuGraphExternalSemaphoresSignalNodeGetParams(hNode: CUgraphNode,
                params_out: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = Out(One)) query refuse;
            cuGraphExternalSemaphoresSignalNodeSetParams(hNode: CUgraphNode,
                nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = In(One)) graph refuse;
            cuGraphAddExternalSemaphoresWaitNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS = In(One)) graph refuse;
            cuGraphExternalSemaphoresWaitNodeGetParams(hNode: CUgraphNode,
                params_out: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS = Out(One)) query refuse;
            cuGraphExternalSemaphoresWaitNodeSetParams(hNode: CUgraphNode,
                nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS = In(One)) graph refuse;

            // Memory operations.
            cuGraphAddBatchMemOpNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS = In(One)) graph;
            cuGraphBatchMemOpNodeGetParams(hNode: CUgraphNode,
                nodeParams_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS = Out(One)) query;
            cuGraphBatchMemOpNodeSetParams(hNode: CUgraphNode,
                nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS = In(One)) graph;

            // Memory of the graph's own: the address is given when the node is made, the memory when the
            // graph runs.
            cuGraphAddMemAllocNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS = InOut(One)) graph;
            cuGraphMemAllocNodeGetParams(hNode: CUgraphNode, params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS = Out(One))
                query;
            cuGraphAddMemFreeNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize, dptr: CUdeviceptr)
                graph;
            cuGraphMemFreeNodeGetParams(hNode: CUgraphNode, dptr_out: *mut CUdeviceptr = Out(One)) query;

            // Any kind of node.
            cuGraphAddNode_v3(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)),
                dependencyData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *mut CUgraphNodeParams = InOut(One)) graph;
            cuGraphAddNode_v2(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)),
                dependencyData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *mut CUgraphNodeParams = InOut(One)) graph;
            cuGraphAddNode(phGraphNode: *mut CUgraphNode = Create(One), hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                nodeParams: *mut CUgraphNodeParams = InOut(One)) graph;
            cuGraphNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams = In(One)) graph;
            cuGraphNodeSetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams = In(One)) graph;
            // Much of it is addresses in the driver.
            cuGraphNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams = Volatile(One)) query;
            cuGraphConditionalHandleCreate(pHandle_out: *mut CUgraphConditionalHandle = Create(One), hGraph: CUgraph,
                ctx: CUcontext, defaultLaunchValue: u32, flags: u32) create;
            cuGraphNodeGetType(hNode: CUgraphNode, r#type: *mut CUgraphNodeType = Out(One)) query;
            cuGraphNodeGetContainingGraph(hNode: CUgraphNode, phGraph: *mut CUgraph = Out(One)) query;
            cuGraphNodeGetLocalId(hNode: CUgraphNode, nodeId: *mut u32 = Volatile(One)) query;
            cuGraphNodeGetToolsId(hNode: CUgraphNode, toolsNodeId: *mut u64 = Volatile(One)) query;
            cuGraphNodeFindInClone(phNode: *mut CUgraphNode = Out(One), hOriginalNode: CUgraphNode,
                hClonedGraph: CUgraph) query => FindInClone;
            cuGraphNodeGetDependencies_v2(hNode: CUgraphNode,
                dependencies: *mut CUgraphNode = Out(LenAt(numDependencies)),
                edgeData: *mut CUgraphEdgeData = Out(LenAt(numDependencies)), numDependencies: *mut usize = InOut(One))
                query;
            cuGraphNodeGetDependencies(hNode: CUgraphNode, dependencies: *mut CUgraphNode = Out(LenAt(numDependencies)),
                numDependencies: *mut usize = InOut(One)) query;
            cuGraphNodeGetDependentNodes_v2(hNode: CUgraphNode,
                dependentNodes: *mut CUgraphNode = Out(LenAt(numDependentNodes)),
                edgeData: *mut CUgraphEdgeData = Out(LenAt(numDependentNodes)),
                numDependentNodes: *mut usize = InOut(One)) query;
            cuGraphNodeGetDependentNodes(hNode: CUgraphNode,
                dependentNodes: *mut CUgraphNode = Out(LenAt(numDependentNodes)),
                numDependentNodes: *mut usize = InOut(One)) query;
        }
    };
}

describe_family!(graph_node);
