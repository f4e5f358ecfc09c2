// What graphs leave allocated outlives them: three cycles of a graph, each with an array that stays, freed by a
// call, in a stream's order and by another graph; launches refused while the array is there
#include "check.h"

enum { N = 2 << 20, BYTES = N * 4 };

static unsigned long long attribute(CUgraphMem_attribute which)
{
    cuuint64_t value;

    CHECK(cuDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}

static CUgraphExec captured(CUstream stream, unsigned value, unsigned long long flags, CUdeviceptr *kept, CUgraph *graph)
{
    CUdeviceptr scratch;
    CUgraphExec instance;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(kept, BYTES, stream));
    CHECK(cuMemAllocAsync(&scratch, N, stream));
    CHECK(cuMemsetD32Async(scratch, value, N / 4, stream));
    CHECK(cuMemsetD32Async(*kept, 1000 + value, N, stream));
    CHECK(cuMemcpyDtoDAsync(*kept, scratch, N, stream));
    CHECK(cuMemFreeAsync(scratch, stream));
    CHECK(cuStreamEndCapture(stream, graph));
    CHECK(cuGraphInstantiate(&instance, *graph, flags));
    return instance;
}

static void destroy(CUgraphExec instance, CUgraph graph)
{
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(graph));
}

int main(void)
{
    unsigned *numbers = (unsigned *)malloc(BYTES), cycle;
    CUdeviceptr kept[3], other;
    CUgraphNode node;
    CUstream stream;
    CUgraphExec instance;
    CUgraph graph;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (cycle = 0; cycle < 3; cycle++) {
        instance = captured(stream, cycle, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, &kept[cycle], &graph);
        CHECK(cuGraphLaunch(instance, stream));
        // Its graph is gone before the device has got there.
        CHECK(cuGraphLaunch(instance, stream));
        destroy(instance, graph);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(numbers, kept[cycle], BYTES));
        REQUIRE(numbers[0] == cycle && numbers[N - 1] == 1000 + cycle);
        REQUIRE(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= (cycle + 1) * (unsigned long long)BYTES);
    }
    REQUIRE(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= 3ull * BYTES);
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, kept[2]));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    CHECK(cuGraphLaunch(instance, stream));
    CHECK(cuMemFreeAsync(kept[1], stream));
    CHECK(cuMemFree(kept[0]));
    CHECK(cuStreamSynchronize(stream));
    destroy(instance, graph);
    // Freed memory stays for later launches, and counts as used, until it is trimmed.
    REQUIRE(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= 3ull * BYTES);
    CHECK(cuDeviceGraphMemTrim(0));
    REQUIRE(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) < BYTES);
    REQUIRE(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) < BYTES);
    REQUIRE(cuMemFreeAsync(kept[1], stream) != CUDA_SUCCESS);

    instance = captured(stream, 7, 0, &other, &graph);
    CHECK(cuGraphLaunch(instance, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(instance, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(numbers, other, BYTES));
    CHECK(cuMemFree(other));
    CHECK(cuGraphLaunch(instance, stream));
    CHECK(cuMemFreeAsync(other, stream));
    CHECK(cuStreamSynchronize(stream));
    destroy(instance, graph);
    printf("%u %u\n", numbers[0], numbers[N - 1]);
    free(numbers);
    return 0;
}
