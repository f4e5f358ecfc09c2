// Memory of the driver's that a question shows goes back into a call that frees it: the arguments of a node, in which
// one pointer is replaced, and the nodes that a capture goes on behind
#include "check.h"

enum { N = 32, ROUNDS = 6 };

int main(void)
{
    int n = N, seen[N];
    CUdeviceptr data = (start_driver(), allocate(ROUNDS * sizeof seen)), given[ROUNDS];
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUstreamCaptureStatus status;
    const CUgraphNode *behind;
    CUgraphExec executable;
    CUgraph graph;
    CUgraphNode nodes[2];
    CUstream stream;
    size_t count;

    CHECK(cuMemsetD32(data, 1, ROUNDS * N));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&data, &n}, NULL));
    CHECK(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &behind, NULL, &count));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    CHECK(cuStreamUpdateCaptureDependencies(stream, (CUgraphNode *)behind, NULL, count, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&data, &n}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    count = 2;
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    REQUIRE(count == 2);
    for (int round = 0; round < ROUNDS; round++) {
        given[round] = data + round * sizeof seen;
        for (int i = 0; i < 2; i++) {
            CUDA_KERNEL_NODE_PARAMS params;
            CHECK(cuGraphKernelNodeGetParams(nodes[i], &params));
            params.kernelParams[0] = &given[round];
            if (i)
                CHECK(cuGraphExecKernelNodeSetParams(executable, nodes[i], &params));
            CHECK(cuGraphKernelNodeSetParams(nodes[i], &params));
        }
        CUgraphExecUpdateResultInfo info;
        CHECK(cuGraphExecUpdate(executable, graph, &info));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(seen, given[round], sizeof seen));
        REQUIRE(seen[0] == 4 && seen[N - 1] == 4);
    }
    // What is not there the driver refuses, and nobody else reads it.
    CUDA_KERNEL_NODE_PARAMS none = {0};
    REQUIRE(cuGraphKernelNodeSetParams(nodes[0], &none));
    printf("%d\n", seen[N - 1]);
    return 0;
}
