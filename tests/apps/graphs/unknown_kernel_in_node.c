// A context ends, after which no function's parameters are known, and then arguments that belong to the driver go back into a
// call that frees them
#include "check.h"

enum { N = 32 };

int main(void)
{
    int n = N, seen[N];
    CUcontext first = start_driver(), other;
    CUdeviceptr data = allocate(sizeof seen);
    CUDA_KERNEL_NODE_PARAMS params = {
        .func = find_kernel(load_module("faults"), "twice"),
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1,
        .kernelParams = (void *[]){&data, &n},
    };
    CUgraphExec executable;
    CUgraphNode node;
    CUgraph graph;

    CHECK(cuMemsetD32(data, 1, N));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuGraphKernelNodeGetParams(node, &params));
    CHECK(cuGraphKernelNodeSetParams(node, &params));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, NULL));
    CHECK(cuMemcpyDtoH(seen, data, sizeof seen));
    REQUIRE(seen[0] == 2 && seen[N - 1] == 2);
    printf("%d\n", seen[N - 1]);
    return 0;
}
