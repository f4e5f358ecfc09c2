// A graph built by hand out of every kind of node that needs no callback, asked about, changed, and run again
#include "check.h"

enum { N = 32, BYTES = N * 4 };

static CUdeviceptr from, to;
static CUfunction add, twice;
static CUcontext context;
static int n = N;

static void show(const char *what)
{
    int numbers[N], i;
    unsigned sum = 0;

    CHECK(cuMemcpyDtoH(numbers, to, BYTES));
    for (i = 0; i < N; i++)
        sum = sum * 3 + numbers[i];
    printf("%s %08x\n", what, sum);
}

static void run(CUgraphExec exec, const char *what)
{
    CHECK(cuGraphUpload(exec, NULL));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    show(what);
}

int main(void)
{
    CUgraph graph, inner, copy, found;
    CUgraphNode copied, filled, added, waited, recorded, child, empty, allocated, freed, node, nodes[16], ends[16];
    CUgraphEdgeData edges[16];
    CUgraphExec exec, second;
    CUgraphExecUpdateResultInfo result;
    CUevent event, another, told;
    CUgraphNodeType type;
    CUstream stream;
    CUdeviceptr address;
    size_t count;
    unsigned enabled;
    cuuint64_t flags;
    int numbers[N], i;
    CUDA_MEMCPY3D move = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = BYTES,
        .Height = 1, .Depth = 1}, moved;
    CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 4, .value = 3, .width = 4, .height = 1}, fills;
    CUDA_MEM_ALLOC_NODE_PARAMS room = {.bytesize = 4096}, rooms;

    context = start_driver();
    CUmodule module = load_module("faults");
    add = find_kernel(module, "add_two");
    twice = find_kernel(module, "twice");
    from = allocate(BYTES);
    to = allocate(BYTES);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(from, numbers, BYTES));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&another, CU_EVENT_DEFAULT));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *arguments[] = {&to, &n}, *others[] = {&from, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = add, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N,
        .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments}, kernels;

    move.srcDevice = from;
    move.dstDevice = to;
    fill.dst = to;
    room.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    room.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &move, context));
    CHECK(cuGraphAddMemsetNode(&filled, graph, &copied, 1, &fill, context));
    CHECK(cuGraphAddKernelNode(&added, graph, &filled, 1, &kernel));
    CHECK(cuGraphAddEventRecordNode(&recorded, graph, &added, 1, event));
    CHECK(cuGraphAddEventWaitNode(&waited, graph, &recorded, 1, event));
    CHECK(cuGraphAddEmptyNode(&empty, graph, &waited, 1));
    CHECK(cuGraphCreate(&inner, 0));
    CHECK(cuGraphAddKernelNode(&node, inner, NULL, 0, &kernel));
    CHECK(cuGraphAddChildGraphNode(&child, graph, &empty, 1, inner));

    // What it is made of
    CHECK(cuGraphMemcpyNodeGetParams(copied, &moved));
    REQUIRE(moved.WidthInBytes == BYTES);
    CHECK(cuGraphMemsetNodeGetParams(filled, &fills));
    REQUIRE(fills.value == 3);
    CHECK(cuGraphKernelNodeGetParams(added, &kernels));
    REQUIRE(kernels.blockDimX == N);
    CHECK(cuGraphEventRecordNodeGetEvent(recorded, &told));
    CHECK(cuGraphEventWaitNodeGetEvent(waited, &told));
    REQUIRE(told == event);
    CHECK(cuGraphChildGraphNodeGetGraph(child, &found));
    CHECK(cuGraphNodeGetType(empty, &type));
    count = 16;
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    REQUIRE(count == 7);
    count = 16;
    CHECK(cuGraphGetRootNodes(graph, nodes, &count));
    REQUIRE(count == 1 && nodes[0] == copied);
    count = 16;
    CHECK(cuGraphGetEdges(graph, nodes, ends, edges, &count));
    REQUIRE(count == 6);
    count = 16;
    CHECK(cuGraphNodeGetDependencies(added, nodes, edges, &count));
    REQUIRE(count == 1 && nodes[0] == filled);
    count = 16;
    CHECK(cuGraphNodeGetDependentNodes(added, nodes, edges, &count));
    REQUIRE(count == 1 && nodes[0] == recorded);
    CHECK(cuGraphClone(&copy, graph));
    CHECK(cuGraphNodeFindInClone(&node, added, copy));

    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphExecGetFlags(exec, &flags));
    run(exec, "first");

    // Changed in the executable
    fill.value = 5;
    CHECK(cuGraphExecMemsetNodeSetParams(exec, filled, &fill, context));
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, copied, &move, context));
    kernel.func = twice;
    CHECK(cuGraphExecKernelNodeSetParams(exec, added, &kernel));
    CHECK(cuGraphExecEventRecordNodeSetEvent(exec, recorded, another));
    CHECK(cuGraphExecEventWaitNodeSetEvent(exec, waited, another));
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, child, inner));
    run(exec, "executable changed");
    CHECK(cuGraphNodeSetEnabled(exec, filled, 0));
    CHECK(cuGraphNodeGetEnabled(exec, filled, &enabled));
    REQUIRE(!enabled);
    run(exec, "without a node");

    // Changed in the graph
    kernel.kernelParams = others;
    CHECK(cuGraphKernelNodeSetParams(added, &kernel));
    fill.value = 7;
    CHECK(cuGraphMemsetNodeSetParams(filled, &fill));
    CHECK(cuGraphMemcpyNodeSetParams(copied, &move));
    CHECK(cuGraphEventRecordNodeSetEvent(recorded, another));
    CHECK(cuGraphEventWaitNodeSetEvent(waited, another));
    CHECK(cuGraphRemoveDependencies(graph, &added, &recorded, NULL, 1));
    CHECK(cuGraphAddDependencies(graph, &added, &recorded, NULL, 1));
    CHECK(cuGraphExecUpdate(exec, graph, &result));
    CHECK(cuGraphNodeSetEnabled(exec, filled, 1));
    run(exec, "graph changed");

    CHECK(cuGraphDestroyNode(child));
    CHECK(cuGraphInstantiate(&second, graph, 0));
    run(second, "node destroyed");
    CHECK(cuGraphExecDestroy(second));

    // Memory of the graph's own
    CHECK(cuGraphDestroy(inner));
    CHECK(cuGraphCreate(&inner, 0));
    CHECK(cuGraphAddMemAllocNode(&allocated, inner, NULL, 0, &room));
    CHECK(cuGraphMemAllocNodeGetParams(allocated, &rooms));
    REQUIRE(rooms.dptr == room.dptr);
    fill.dst = room.dptr;
    CHECK(cuGraphAddMemsetNode(&filled, inner, &allocated, 1, &fill, context));
    move.srcDevice = room.dptr;
    move.WidthInBytes = 16;
    CHECK(cuGraphAddMemcpyNode(&copied, inner, &filled, 1, &move, context));
    CHECK(cuGraphAddMemFreeNode(&freed, inner, &copied, 1, room.dptr));
    CHECK(cuGraphMemFreeNodeGetParams(freed, &address));
    REQUIRE(address == room.dptr);
    CHECK(cuGraphInstantiate(&second, inner, 0));
    run(second, "own memory");
    CHECK(cuDeviceGraphMemTrim(0));
    CHECK(cuGraphExecDestroy(second));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(copy));
    CHECK(cuGraphDestroy(inner));
    CHECK(cuGraphDestroy(graph));
    return 0;
}
