//! Graphs as a whole: their creation, nodes and edges, and the memory and user objects they own.

#[macro_export]
macro_rules! graph {
    ($($with:tt)+) => {
        $($with)+! {
            "graph";
            cuGraphCreate(phGraph: *mut CUgraph = Create(One), flags: u32) create;
            cuGraphGetId(hGraph: CUgraph, graphId: *mut u32 = Volatile(One)) query;
            cuGraphClone(phGraphClone: *mut CUgraph = Create(One), originalGraph: CUgraph) create;
            cuGraphDestroy(hGraph: CUgraph = Destroy) destroy;
            // Writes a file.
            cuGraphDebugDotPrint(hGraph: CUgraph, path: *const c_char = Text, flags: u32 = CUgraphDebugDot_flags::BITS)
                query skip => WriteFile(path);

            // Nodes and edges. The count is the room in the arrays, then how much of it was filled.
            cuGraphGetNodes(hGraph: CUgraph, nodes: *mut CUgraphNode = Out(LenAt(numNodes)),
                numNodes: *mut usize = InOut(One)) query => ListNodes;
            cuGraphGetRootNodes(hGraph: CUgraph, rootNodes: *mut CUgraphNode = Out(LenAt(numRootNodes)),
                numRootNodes: *mut usize = InOut(One)) query;
            cuGraphGetEdges_v2(hGraph: CUgraph, from: *mut CUgraphNode = Out(LenAt(numEdges)),
                to: *mut CUgraphNode = Out(LenAt(numEdges)), edgeData: *mut CUgraphEdgeData = Out(LenAt(numEdges)),
                numEdges: *mut usize = InOut(One)) query;
            cuGraphGetEdges(hGraph: CUgraph, from: *mut CUgraphNode = Out(LenAt(numEdges)),
                to: *mut CUgraphNode = Out(LenAt(numEdges)), numEdges: *mut usize = InOut(One)) query;
            cuGraphAddDependencies_v2(hGraph: CUgraph, from: *const CUgraphNode = In(Len(numDependencies)),
                to: *const CUgraphNode = In(Len(numDependencies)),
                edgeData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize) graph;
            cuGraphAddDependencies(hGraph: CUgraph, from: *const CUgraphNode = In(Len(numDependencies)),
                to: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize) graph;
            cuGraphRemoveDependencies_v2(hGraph: CUgraph, from: *const CUgraphNode = In(Len(numDependencies)),
                to: *const CUgraphNode = In(Len(numDependencies)),
                edgeData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize) graph;
            cuGraphRemoveDependencies(hGraph: CUgraph, from: *const CUgraphNode = In(Len(numDependencies)),
                to: *const CUgraphNode = In(Len(numDependencies)), numDependencies: usize) graph;
            cuGraphDestroyNode(hNode: CUgraphNode = Destroy) graph;

            // Memory that graphs of a device hold: every attribute is 8 bytes.
            cuDeviceGraphMemTrim(device: CUdevice) state;
            cuDeviceGetGraphMemAttribute(device: CUdevice, attr: CUgraphMem_attribute,
                value: *mut c_void = Volatile(Fixed(8))) query;
            cuDeviceSetGraphMemAttribute(device: CUdevice, attr: CUgraphMem_attribute,
                value: *mut c_void = AttributeIn(attr, GRAPH_MEM_ATTRIBUTES)) state;

            // Objects of the application whose life graphs prolong.
            cuUserObjectCreate(object_out: *mut CUuserObject = Create(One), ptr: *mut c_void = UserData,
                destroy: CUhostFn = Callback, initialRefcount: u32, flags: u32 = CUuserObject_flags::BITS)
                create;
            cuUserObjectRetain(object: CUuserObject, count: u32) state;
            cuUserObjectRelease(object: CUuserObject, count: u32) state;
            cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32,
                flags: u32 = CUuserObjectRetain_flags::BITS) graph;
            cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) graph;
        }
    };
}

describe_family!(graph);
