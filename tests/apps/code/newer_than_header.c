// Functions that came after CUDA 13.0, whose header has no prototypes of them
#include "check.h"

enum { N = 64 };

CUresult cuFuncGetParamCount(CUfunction, size_t *);
CUresult cuKernelGetParamCount(CUkernel, size_t *);
CUresult cuLaunchHostFunc_v2(CUstream, CUhostFn, void *, unsigned);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream, CUhostFn, void *, unsigned);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
CUresult cuGraphGetId(CUgraph, unsigned *);
CUresult cuGraphExecGetId(CUgraphExec, unsigned *);
CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUgraphNodeParams *);
CUresult cuGraphNodeSetParams_v2(CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphNodeGetParams(CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode, CUgraph *);
CUresult cuGraphNodeGetLocalId(CUgraphNode, unsigned *);
CUresult cuGraphNodeGetToolsId(CUgraphNode, unsigned long long *);
CUresult cuMemGetLocationInfo(CUdeviceptr, size_t, size_t, size_t, CUmemLocation *);
CUresult cuCoredumpRegisterStartCallback(void (*)(void *, int, CUdevice), void *, void **);
CUresult cuCoredumpRegisterCompleteCallback(void (*)(void *, int, CUdevice), void *, void **);
CUresult cuCoredumpDeregisterStartCallback(void *);
CUresult cuCoredumpDeregisterCompleteCallback(void *);
CUresult cuDevSmResourceSplit(CUdevResource *, unsigned, const CUdevResource *, CUdevResource *, unsigned, unsigned (*)[16]);
CUresult cuStreamGetDevResource(CUstream, CUdevResource *, CUdevResourceType);
CUresult cuStreamGetDevResource_ptsz(CUstream, CUdevResource *, CUdevResourceType);
CUresult cuTensorMapSetAllocationClass(CUtensorMap *, unsigned, unsigned *);

static CUdeviceptr memory, other;
static CUstream stream;
static CUfunction twice;
static int n = N;

static void code(void)
{
    char *text = read_kernels("faults");
    CUlibrary library;
    CUkernel kernel;
    size_t count;

    CHECK(cuFuncGetParamCount(twice, &count));
    REQUIRE(count == 2);
    CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "twice"));
    CHECK(cuKernelGetParamCount(kernel, &count));
    REQUIRE(count == 2);
    CHECK(cuLibraryUnload(library));
    free(text);
}

static void copies(void)
{
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP box;

    memset(&box, 0, sizeof box);
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = memory;
    box.dst.op.ptr.ptr = other + N;
    box.extent = (CUextent3D){.width = N, .height = 1, .depth = 1};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CHECK(cuMemcpyWithAttributesAsync(other, memory, N, &how, stream));
    CHECK(cuMemcpy3DWithAttributesAsync(&box, 0, stream));
    box.dst.op.ptr.ptr = other + 2 * N;
    CHECK(cuMemcpy3DWithAttributesAsync_ptsz(&box, 0, stream));
    CHECK(cuMemcpyWithAttributesAsync_ptsz(other + 3 * N, memory, N, &how, stream));
}

static void counted(void *data)
{
    ++*(int *)data;
}

static void called_back(void)
{
    static int count;

    CHECK(cuLaunchHostFunc_v2(stream, counted, &count, 0));
    CHECK(cuLaunchHostFunc_v2_ptsz(stream, counted, &count, 1));
    CHECK(cuStreamSynchronize(stream));
    printf("%d\n", count);
}

static void graphs(void)
{
    void *arguments[] = {&other, &n}, *others[] = {&memory, &n};
    CUgraphNodeParams params, told;
    unsigned long long tools;
    CUgraph graph, same;
    CUgraphExec exec;
    CUgraphNode node;
    unsigned id;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphGetId(graph, &id));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = twice;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = N;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = arguments;
    CHECK(cuGraphAddNode_v3(&node, graph, NULL, NULL, 0, &params));
    params.kernel.kernelParams = others;
    CHECK(cuGraphNodeSetParams_v2(node, &params));
    CHECK(cuGraphNodeGetParams(node, &told));
    REQUIRE(told.type == CU_GRAPH_NODE_TYPE_KERNEL && told.kernel.blockDimX == N);
    CHECK(cuGraphNodeGetContainingGraph(node, &same));
    REQUIRE(same == graph);
    CHECK(cuGraphNodeGetLocalId(node, &id));
    CHECK(cuGraphNodeGetToolsId(node, &tools));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphExecGetId(exec, &id));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static void dumped(void *data, int pid, CUdevice device)
{
    (void)data, (void)pid, (void)device;
}

static void surroundings(void)
{
    CUmemLocation location;
    void *handle;

    CHECK(cuMemGetLocationInfo(memory, N, 0, 0, &location));
    REQUIRE(location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK(cuCoredumpRegisterStartCallback(dumped, NULL, &handle));
    CHECK(cuCoredumpDeregisterStartCallback(handle));
    CHECK(cuCoredumpRegisterCompleteCallback(dumped, NULL, &handle));
    CHECK(cuCoredumpDeregisterCompleteCallback(handle));
}

static void resources(void)
{
    CUdevResource all, parts[2], rest;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUdevice device;
    unsigned groups[2][16] = {{4}, {2}};

    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuStreamGetDevResource(stream, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuStreamGetDevResource_ptsz(stream, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplit(parts, 2, &all, &rest, 0, groups));
    printf("%u %u %d\n", parts[0].sm.smCount, parts[1].sm.smCount, rest.sm.smCount == all.sm.smCount - 6);
    CHECK(cuDevResourceGenerateDesc(&description, &parts[1], 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuGreenCtxDestroy(green));
}

static void tensor_map(void)
{
    cuuint64_t sizes[2] = {8, 8}, strides[1] = {32};
    cuuint32_t box[2] = {8, 8}, steps[2] = {1, 1};
    CUtensorMap map;
    unsigned class;

    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)memory, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CHECK(cuTensorMapSetAllocationClass(&map, 1, &class));
    printf("class %u\n", class);
}

int main(void)
{
    int numbers[N], i;

    start_driver();
    twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(sizeof numbers);
    other = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers));
    code();
    copies();
    called_back();
    graphs();
    tensor_map();
    resources();
    surroundings();
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[N - 1]);
    CHECK(cuMemcpyDtoH(numbers, other, sizeof numbers));
    printf("%d %d\n", numbers[N / 4 - 1], numbers[N - 1]);
    return 0;
}
