// Calls that write their results where their inputs stand: the variable of a node is the dependency of the next one and becomes that one,
// an element of the array of dependencies is overwritten, a kernel's argument is the new node's variable, the number of the copy of a
// batch that failed replaces a destination
#include "check.h"

#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream);
CUresult cuMemcpy3DBatchAsync(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);

enum { N = 32, BYTES = N * 4, STEPS = 6 };

static CUdeviceptr numbers, copies;
static CUcontext context;
static CUfunction add, twice;
static int n = N, called;

static void count(void *data)
{
    ++*(int *)data;
}

static void show(const char *what, CUdeviceptr from)
{
    int values[N], i;
    unsigned sum = 0;

    CHECK(cuMemcpyDtoH(values, from, BYTES));
    for (i = 0; i < N; i++)
        sum = sum * 3 + values[i];
    printf("%s %08x\n", what, sum);
}

static void run(CUgraph graph, const char *what)
{
    CUgraphExec exec;

    CHECK(cuMemsetD32(numbers, 1, N));
    CHECK(cuMemsetD32(copies, 0, N));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    show(what, numbers);
    show("copied", copies);
    CHECK(cuGraphExecDestroy(exec));
}

// The kernels do not commute: what comes of them says in which order they ran.
static void chain(CUgraph graph)
{
    void *arguments[] = {&numbers, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1,
        .blockDimZ = 1, .kernelParams = arguments};
    CUgraphNode node = NULL;

    for (int i = 0; i < STEPS; i++) {
        kernel.func = i % 2 ? twice : add;
        CHECK(cuGraphAddKernelNode(&node, graph, i ? &node : NULL, i ? 1 : 0, &kernel));
    }
}

static void every_kind(CUgraph graph, CUgraph inner)
{
    CUevent event;
    CUgraphNode node;
    CUgraphEdgeData edge = {0};
    CUDA_MEMCPY3D move = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = numbers, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = copies, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = numbers, .elementSize = 4, .value = 3, .width = 4, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = count, .userData = &called};
    CUDA_MEM_ALLOC_NODE_PARAMS room = {.bytesize = 4096, .poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    void *arguments[] = {&numbers, &n};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {.func = twice, .gridDimX = 1, .gridDimY = 1,
        .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments}};

    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    CHECK(cuGraphAddMemsetNode(&node, graph, &node, 1, &fill, context));
    CHECK(cuGraphAddChildGraphNode(&node, graph, &node, 1, inner));
    CHECK(cuGraphAddHostNode(&node, graph, &node, 1, &host));
    CHECK(cuGraphAddEventRecordNode(&node, graph, &node, 1, event));
    CHECK(cuGraphAddEventWaitNode(&node, graph, &node, 1, event));
    CHECK(cuGraphAddNode(&node, graph, &node, &edge, 1, &any));
    CHECK(cuGraphAddMemAllocNode(&node, graph, &node, 1, &room));
    CHECK(cuGraphAddMemcpyNode(&node, graph, &node, 1, &move, context));
    CHECK(cuGraphAddMemFreeNode(&node, graph, &node, 1, room.dptr));
    CHECK(cuGraphAddEmptyNode(&node, graph, &node, 1));
}

// Two nodes without an order, and one behind both, whose handle takes the place of the second.
static void joined(CUgraph graph)
{
    CUgraphNode nodes[2];
    CUDA_MEMSET_NODE_PARAMS low = {.dst = numbers, .elementSize = 4, .value = 5, .width = N / 2, .height = 1};
    CUDA_MEMSET_NODE_PARAMS high = {.dst = numbers + BYTES / 2, .elementSize = 4, .value = 9, .width = N / 2, .height = 1};
    // The variable of the new node is also where the kernel's first argument stands.
    union {
        CUgraphNode node;
        CUdeviceptr address;
    } both = {.address = numbers};
    void *arguments[] = {&both.address, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = twice, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N,
        .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments};

    CHECK(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &low, context));
    CHECK(cuGraphAddMemsetNode(&nodes[1], graph, NULL, 0, &high, context));
    CHECK(cuGraphAddEmptyNode(&nodes[1], graph, nodes, 2));
    CHECK(cuGraphAddKernelNode(&both.node, graph, &nodes[1], 1, &kernel));
}

static CUmemcpy3DOperand operand(CUdeviceptr at)
{
    CUmemcpy3DOperand operand = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

    operand.op.ptr.ptr = at;
    operand.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return operand;
}

// To ordinary and to pinned memory.
static void batches(void)
{
    static int ordinary[2][N];
    int *pinned, i;
    size_t sizes[2] = {BYTES, BYTES}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP boxes[2] = {0};
    CUdeviceptr from[2] = {numbers, numbers}, to[2];
    CUstream stream;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, 2 * BYTES));
    CHECK(cuMemsetD32(numbers, 5, N));
    CHECK(cuCtxSynchronize());
    to[0] = (CUdeviceptr)ordinary[0];
    to[1] = (CUdeviceptr)pinned;
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, (size_t *)to, stream));
    for (i = 0; i < 2; i++) {
        boxes[i].src = operand(numbers);
        boxes[i].dst = operand((CUdeviceptr)(i ? pinned + N : ordinary[1]));
        boxes[i].extent.width = BYTES;
        boxes[i].extent.height = boxes[i].extent.depth = 1;
        boxes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    CHECK(cuMemcpy3DBatchAsync(2, boxes, (size_t *)&boxes[0].dst.op.ptr.ptr, 0, stream));
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < 2 * N; i++)
        REQUIRE(ordinary[i / N][i % N] == 5 && pinned[i] == 5);
}

int main(void)
{
    CUgraph graph, inner, third;
    CUgraphNode node;

    context = start_driver();
    CUmodule module = load_module("faults");
    add = find_kernel(module, "add_two");
    twice = find_kernel(module, "twice");
    numbers = allocate(BYTES);
    copies = allocate(BYTES);

    CHECK(cuGraphCreate(&inner, 0));
    chain(inner);
    run(inner, "chain");
    CHECK(cuGraphCreate(&graph, 0));
    every_kind(graph, inner);
    run(graph, "every kind");
    printf("called %d\n", called);
    CHECK(cuGraphCreate(&third, 0));
    joined(third);
    run(third, "joined");
    batches();

    // Refused, the dependency stays where it was: a node of another graph.
    CHECK(cuGraphAddEmptyNode(&node, inner, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, &node, 1));
    CHECK(cuGraphDestroyNode(node));

    CHECK(cuGraphDestroy(third));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphDestroy(inner));
    return 0;
}
