// Graphs that copy results to ordinary memory: made by capture, node by node, within another graph, and changed afterwards
#include "check.h"

enum { N = 64, BYTES = N * sizeof(int) };

static int captured[N], made[N], other[N];

int main(void)
{
    int *numbers = malloc(BYTES), n = N, i;
    CUcontext context = start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUdeviceptr memory = allocate(BYTES);
    CUstream stream;
    CUgraph graph, inner;
    CUgraphExec exec;
    CUgraphNode nodes[2];
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = made, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};

    for (i = 0; i < N; i++)
        numbers[i] = i + 1;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    CHECK(cuCtxSynchronize());

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuMemcpyDtoHAsync(captured, memory, BYTES, stream));
    CHECK(cuStreamEndCapture(stream, &inner));
    CHECK(cuGraphInstantiate(&exec, inner, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(captured[N - 1] == 2 * N);
    CHECK(cuGraphExecDestroy(exec));

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddChildGraphNode(&nodes[0], graph, NULL, 0, inner));
    CHECK(cuGraphAddMemcpyNode(&nodes[1], graph, nodes, 1, &copy, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(captured[N - 1] == 4 * N && made[N - 1] == 4 * N);

    copy.dstHost = other;
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, context));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(captured[N - 1] == 8 * N && made[N - 1] == 4 * N && other[N - 1] == 8 * N);
    printf("%d\n", other[N - 1]);
    return 0;
}
