// Memory allocated and freed while a stream is captured: part of a graph, launched three times. Copied by calls that do not say what it is, which the
// driver does not know either until then
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
    size_t nodes, bytes;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .WidthInBytes = 16, .Height = 4, .srcPitch = 32, .dstPitch = 32};

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(&memory, sizeof numbers, stream));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(NULL, &bytes, memory));
    CHECK(cuMemsetD32Async(memory, 21, N, stream));
    rows.srcDevice = memory;
    rows.dstDevice = kept;
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuMemcpyDtoDAsync(kept, memory, sizeof numbers, stream));
    CHECK(cuMemcpyAsync(kept, memory, sizeof numbers, stream));
    CHECK(cuMemcpyAsync(memory, kept, sizeof numbers, stream));
    CHECK(cuMemcpy2DAsync(&rows, stream));
    CHECK(cuMemFreeAsync(memory, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    REQUIRE(nodes == 8);
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
