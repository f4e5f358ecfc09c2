// Memory allocated and freed while a stream is captured: part of a graph, launched three times
#include "check.h"

enum { N = 64 };

int main(void)
{
    int numbers[N], n = N, round;
    CUdeviceptr kept = (start_driver(), allocate(sizeof numbers)), memory;
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUgraphExec instance;
    CUgraph graph;
    CUstream stream;
    size_t nodes;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(&memory, sizeof numbers, stream));
    CHECK(cuMemsetD32Async(memory, 21, N, stream));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuMemcpyDtoDAsync(kept, memory, sizeof numbers, stream));
    CHECK(cuMemFreeAsync(memory, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    REQUIRE(nodes == 5);
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    for (round = 0; round < 3; round++) {
        CHECK(cuMemsetD8Async(kept, 0, sizeof numbers, stream));
        CHECK(cuGraphLaunch(instance, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(numbers, kept, sizeof numbers));
        REQUIRE(numbers[N - 1] == 42);
    }
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(graph));
    printf("%d\n", numbers[0]);
    return 0;
}
