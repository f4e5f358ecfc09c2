// Functions in the forms that older headers knew: the driver exports them still, and old programs call them.
#include "check.h"

#undef cuCtxCreate
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxSetFlags
#undef cuGraphAddDependencies
#undef cuGraphAddKernelNode
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphExecUpdate
#undef cuGraphGetEdges
#undef cuGraphInstantiate
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphRemoveDependencies
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuLinkCreate
#undef cuMemcpyBatchAsync
#undef cuStreamBatchMemOp
#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64

typedef CUgraphNode Node;
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned);
CUresult cuGraphAddDependencies(CUgraph, const Node *, const Node *, size_t);
CUresult cuGraphAddKernelNode(Node *, CUgraph, const Node *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, Node, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, Node *, CUgraphExecUpdateResult *);
CUresult cuGraphGetEdges(CUgraph, Node *, Node *, size_t *);
CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, Node *, char *, size_t);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, Node *, char *, size_t);
CUresult cuGraphKernelNodeGetParams(Node, CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphKernelNodeSetParams(Node, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphNodeGetDependencies(Node, Node *, size_t *);
CUresult cuGraphNodeGetDependentNodes(Node, Node *, size_t *);
CUresult cuGraphRemoveDependencies(CUgraph, const Node *, const Node *, size_t);
CUresult cuLinkAddData(CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, CUjit_option *, void **);
CUresult cuLinkAddFile(CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *, void **);
CUresult cuLinkAddFile_v2(CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *, void **);
CUresult cuLinkCreate(unsigned, CUjit_option *, void **, CUlinkState *);
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *,
    CUstream);
CUresult cuStreamBatchMemOp(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
CUresult cuStreamBeginCapture(CUstream);
CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus *, cuuint64_t *);
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const Node **, size_t *);
CUresult cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned);
CUresult cuStreamWaitValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned);
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned);
CUresult cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned);

enum { N = 32, BYTES = N * 4 };

static CUdeviceptr memory, other;
static int n = N;

static void contexts(CUdevice device)
{
    CUcontext context;

    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuCtxDestroy(context));
    CHECK(cuCtxCreate_v3(&context, NULL, 0, 0, device));
    CHECK(cuCtxDestroy(context));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuDevicePrimaryCtxRelease(device));
    CHECK(cuDevicePrimaryCtxSetFlags(device, 0));
}

static CUmodule linked(void)
{
    char *text = read_kernels("link_main"), path[4096];
    CUlinkState state;
    CUmodule module;
    void *image;
    size_t size;

    snprintf(path, sizeof path, "%s/link_part.ptx", getenv("KERNELS"));
    CHECK(cuLinkCreate(0, NULL, NULL, &state));
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "main", 0, NULL, NULL));
    CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
    CHECK(cuLinkComplete(state, &image, &size));
    CHECK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    CHECK(cuLinkDestroy(state));
    CHECK(cuLinkCreate(0, NULL, NULL, &state));
    CHECK(cuLinkAddFile_v2(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
    CHECK(cuLinkDestroy(state));
    return module;
}

static void operations(CUstream stream)
{
    CUstreamBatchMemOpParams write;
    CUdeviceptr from = memory, to = other;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t size = BYTES, first = 0, failed;

    memset(&write, 0, sizeof write);
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = other + 16;
    write.writeValue.value = 9;
    CHECK(cuMemcpyBatchAsync(&to, &from, &size, 1, &how, &first, 1, &failed, stream));
    // NVIDIA's driver has these only where it was loaded with NVreg_EnableStreamMemOPs.
    if (cuStreamWriteValue32(stream, other, 5, 0) == CUDA_ERROR_NOT_SUPPORTED)
        return;
    CHECK(cuStreamWaitValue32(stream, other, 5, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamWriteValue64(stream, other + 8, 7, 0));
    CHECK(cuStreamWaitValue64(stream, other + 8, 6, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuStreamBatchMemOp(stream, 1, &write, 0));
    CHECK(cuStreamSynchronize(stream));
}

static void graphs(CUstream stream, CUfunction add)
{
    void *arguments[] = {&memory, &n}, *others[] = {&other, &n};
    CUDA_KERNEL_NODE_PARAMS_v1 kernel = {.func = add, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N,
        .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments}, told;
    CUgraph graph, inside;
    CUgraphExec exec;
    CUgraphExecUpdateResult result;
    CUstreamCaptureStatus status;
    const Node *last;
    Node first, second, wrong, nodes[4], ends[4];
    char log[64];
    cuuint64_t id;
    size_t count = 4;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&first, graph, NULL, 0, &kernel));
    CHECK(cuGraphAddKernelNode(&second, graph, NULL, 0, &kernel));
    CHECK(cuGraphAddDependencies(graph, &first, &second, 1));
    CHECK(cuGraphGetEdges(graph, nodes, ends, &count));
    REQUIRE(count == 1 && nodes[0] == first && ends[0] == second);
    CHECK(cuGraphNodeGetDependencies(second, nodes, &count));
    REQUIRE(count == 1 && nodes[0] == first);
    count = 4;
    CHECK(cuGraphNodeGetDependentNodes(first, nodes, &count));
    REQUIRE(count == 1 && nodes[0] == second);
    CHECK(cuGraphKernelNodeGetParams(first, &told));
    REQUIRE(told.blockDimX == N);
    CHECK(cuGraphInstantiate(&exec, graph, &wrong, log, sizeof log));
    CHECK(cuGraphLaunch(exec, stream));
    kernel.kernelParams = others;
    CHECK(cuGraphExecKernelNodeSetParams(exec, second, &kernel));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuGraphKernelNodeSetParams(second, &kernel));
    CHECK(cuGraphExecUpdate(exec, graph, &wrong, &result));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphRemoveDependencies(graph, &first, &second, 1));
    CHECK(cuGraphDestroy(graph));

    CHECK(cuStreamBeginCapture(stream));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamGetCaptureInfo(stream, &status, &id));
    CHECK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &inside, &last, &count));
    REQUIRE(count == 1);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate_v2(&exec, graph, &wrong, log, sizeof log));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

int main(void)
{
    int numbers[N], i;
    CUstream stream;
    CUdevice device;

    start_driver();
    CHECK(cuDeviceGet(&device, 0));
    contexts(device);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(BYTES);
    other = allocate(BYTES);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    launch(find_kernel(linked(), "weigh_all"), 1, N, (void *[]){&memory, &n});
    CHECK(cuCtxSynchronize());
    operations(stream);
    graphs(stream, find_kernel(load_module("faults"), "add_two"));
    CHECK(cuMemcpyDtoH(numbers, memory, BYTES));
    printf("%d", numbers[N - 1]);
    CHECK(cuMemcpyDtoH(numbers, other, BYTES));
    printf(" %d %d %d\n", numbers[0], numbers[2], numbers[N - 1]);
    return 0;
}
