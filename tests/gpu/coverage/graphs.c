// Graphs: attributes and parameters of nodes, in the graph and in what was made of it; objects and memory that graphs hold
#include "tell.h"

enum { N = 64 };

static CUdeviceptr memory, flags;
static CUfunction add, twice;
static CUcontext context;
static CUstream stream;
static int n = N, ended;

static void see(const char *what)
{
    int numbers[N];

    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(numbers, memory, sizeof numbers));
    printf("%s %d %d\n", what, numbers[0], numbers[N - 1]);
}

static void first(void *data)
{
    *(int *)data += 1;
}

static void second(void *data)
{
    *(int *)data += 100;
}

static void gone(void *data)
{
    ++*(int *)data;
}

static CUDA_KERNEL_NODE_PARAMS kernel(CUfunction function, void **arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1,
        .blockDimZ = 1, .kernelParams = arguments};
}

static void attributes(void)
{
    void *arguments[] = {&memory, &n};
    CUDA_KERNEL_NODE_PARAMS params = kernel(twice, arguments);
    CUkernelNodeAttrValue value, told;
    CUgraphNode one, other;
    CUgraphExec exec;
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode_v2(&one, graph, NULL, 0, &params));
    CHECK(cuGraphAddKernelNode_v2(&other, graph, &one, 1, &params));
    memset(&value, 0, sizeof value);
    memset(&told, 0, sizeof told);
    value.priority = -1;
    TELL(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    TELL(cuGraphKernelNodeCopyAttributes(other, one));
    if (TELL(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told)) == CUDA_SUCCESS)
        printf("priority %d\n", told.priority);
    memset(&value, 0, sizeof value);
    value.cooperative = 1;
    TELL(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    TELL(cuGraphKernelNodeGetAttribute(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &told));
    printf("cooperative %d\n", told.cooperative);
    memset(&value, 0, sizeof value);
    value.accessPolicyWindow.base_ptr = (void *)memory;
    value.accessPolicyWindow.num_bytes = N * 4;
    value.accessPolicyWindow.hitRatio = 1;
    value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    TELL(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    memset(&told, 0, sizeof told);
    if (TELL(cuGraphKernelNodeGetAttribute(one, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &told)) == CUDA_SUCCESS)
        printf("window %d %zu\n", told.accessPolicyWindow.base_ptr == (void *)memory, told.accessPolicyWindow.num_bytes);
    TELL(cuGraphDebugDotPrint(graph, "/dev/null", CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    CHECK(cuGraphLaunch(exec, stream));
    see("attributes");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static void host_nodes(void)
{
    static int count;
    CUDA_HOST_NODE_PARAMS params = {.fn = first, .userData = &count}, told;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    params.fn = second;
    TELL(cuGraphExecHostNodeSetParams(exec, node, &params));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    TELL(cuGraphHostNodeSetParams(node, &params));
    TELL(cuGraphHostNodeGetParams(node, &told));
    printf("%d %d\n", count, told.fn == second);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static void batches(void)
{
    CUstreamBatchMemOpParams writes[2], others[2];
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = context, .count = 2, .paramArray = writes}, told;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;
    unsigned seen[4], i;

    memset(writes, 0, sizeof writes);
    for (i = 0; i < 2; i++) {
        writes[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        writes[i].writeValue.address = flags + 4 * i;
        writes[i].writeValue.value = 3 + i;
    }
    memcpy(others, writes, sizeof writes);
    others[0].writeValue.address = flags + 8;
    others[1].writeValue.address = flags + 12;
    CHECK(cuMemsetD32_v2(flags, 0, 4));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphCreate(&graph, 0));
    if (TELL(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params)) == CUDA_SUCCESS) {
        TELL(cuGraphBatchMemOpNodeGetParams(node, &told));
        printf("%u %d %u\n", told.count, told.paramArray[0].writeValue.address == flags, (unsigned)told.paramArray[1].writeValue.value);
        CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, stream));
        params.paramArray = others;
        TELL(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH_v2(seen, flags, sizeof seen));
        printf("%u %u %u %u\n", seen[0], seen[1], seen[2], seen[3]);
        CHECK(cuGraphExecDestroy(exec));
        others[0].writeValue.value = 8;
        TELL(cuGraphBatchMemOpNodeSetParams(node, &params));
        CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH_v2(seen, flags, sizeof seen));
        printf("%u %u %u %u\n", seen[0], seen[1], seen[2], seen[3]);
        CHECK(cuGraphExecDestroy(exec));
    }
    CHECK(cuGraphDestroy(graph));
}

static void any_kind(void)
{
    void *arguments[] = {&memory, &n};
    CUgraphNodeParams params;
    CUDA_GRAPH_INSTANTIATE_PARAMS how;
    CUgraphExec exec;
    CUgraphNode node, fill;
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = memory;
    params.memset.value = 5;
    params.memset.elementSize = 4;
    params.memset.width = N;
    params.memset.height = 1;
    params.memset.ctx = context;
    TELL(cuGraphAddNode(&fill, graph, NULL, 0, &params));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = twice;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = N;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = arguments;
    TELL(cuGraphAddNode_v2(&node, graph, &fill, NULL, 1, &params));
    params.kernel.func = add;
    TELL(cuGraphNodeSetParams(node, &params));
    memset(&how, 0, sizeof how);
    how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    how.hUploadStream = stream;
    if (TELL(cuGraphInstantiateWithParams(&exec, graph, &how)) == CUDA_SUCCESS) {
        printf("%d\n", how.result_out);
        CHECK(cuGraphLaunch(exec, stream));
        see("any kind");
        CHECK(cuGraphExecDestroy(exec));
    }
    memset(&how, 0, sizeof how);
    if (TELL(cuGraphInstantiateWithParams_ptsz(&exec, graph, &how)) == CUDA_SUCCESS) {
        CHECK(cuGraphLaunch(exec, stream));
        see("as well");
        CHECK(cuGraphExecDestroy(exec));
    }
    CHECK(cuGraphDestroy(graph));
}

static void objects(void)
{
    CUuserObject object;
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    TELL(cuUserObjectCreate(&object, &ended, gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TELL(cuUserObjectRetain(object, 2));
    TELL(cuGraphRetainUserObject(graph, object, 1, 0));
    TELL(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    TELL(cuGraphReleaseUserObject(graph, object, 1));
    TELL(cuUserObjectRelease(object, 2));
    printf("ended %d\n", ended);
    CHECK(cuGraphDestroy(graph));
    CHECK(cuCtxSynchronize());
}

static void held_memory(CUdevice d)
{
    cuuint64_t bytes = 77;

    TELL(cuDeviceGetGraphMemAttribute(d, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes));
    printf("%llu\n", (unsigned long long)bytes);
    bytes = 0;
    TELL(cuDeviceSetGraphMemAttribute(d, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes));
    TELL(cuDeviceGraphMemTrim(d));
}

int main(void)
{
    CUmodule module;
    int numbers[N], i;
    CUdevice d;

    context = start_driver();
    CHECK(cuDeviceGet(&d, 0));
    module = load_module("faults");
    add = find_kernel(module, "add_two");
    twice = find_kernel(module, "twice");
    memory = allocate(sizeof numbers);
    flags = allocate(16);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD_v2(memory, numbers, sizeof numbers));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    attributes();
    host_nodes();
    batches();
    any_kind();
    objects();
    held_memory(d);
    return 0;
}
