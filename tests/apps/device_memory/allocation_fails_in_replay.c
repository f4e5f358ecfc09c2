// Copies and fills of memory whose allocation fails in the replay: a smaller device, or a forged size
#include "check.h"

enum { N = 4096 };

int main(void)
{
    unsigned char bytes[N], back[N];
    CUdeviceptr small, large;
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode node;
    CUstream stream;
    CUcontext context = start_driver();

    memset(bytes, 7, sizeof bytes);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    small = allocate(N);
    large = allocate(16 << 20);
    CHECK(cuMemcpy(small, (CUdeviceptr)bytes, N));
    // Addresses of either side.
    CHECK(cuMemcpy(large, (CUdeviceptr)bytes, N));
    CHECK(cuMemcpy(large + N, small, N));
    CHECK(cuMemcpyAsync(large + 2 * N, small, N, stream));
    CHECK(cuMemcpyAsync(small, large + 2 * N, N, stream));
    // Addresses that can only be the device's.
    CHECK(cuMemcpyDtoDAsync(large + 3 * N, small, N, stream));
    CHECK(cuMemsetD8Async(large + 4 * N, 5, N, stream));
    CHECK(cuMemsetD2D32Async(large + 5 * N, 64, 5, 8, 16, stream));
    CHECK(cuStreamWriteValue32(stream, large + 6 * N, 5, 0));
    // Those of a struct, of an array, of a graph.
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = small, .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = large + 7 * N, .dstPitch = 64,
                          .WidthInBytes = 32, .Height = 16};
    CHECK(cuMemcpy2DAsync(&copy, stream));
    CUdeviceptr to[] = {large + 8 * N}, from[] = {small};
    size_t sizes[] = {N}, first[] = {0};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 1, &attributes, first, 1, stream));
    CHECK(cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = large + 9 * N, .pitch = 64, .value = 5, .elementSize = 4, .width = 8,
                                    .height = 16};
    CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(back, small, N));
    REQUIRE(back[0] == 7 && back[N - 1] == 7);
    printf("%d\n", back[0]);
    return 0;
}
