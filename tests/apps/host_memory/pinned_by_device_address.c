// Pinned memory that the device is given otherwise than by a launch's pointers: by its device address, by a node's packed arguments
#include "check.h"

enum { N = 512, BYTES = N * sizeof(int) };

int main(void)
{
    int *copied, *packed, results[N], round, i;
    CUdeviceptr one, two, from;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    struct {
        CUdeviceptr to, from;
        int n;
    } buffer;
    // Up to the last argument: with padding behind it the node is refused.
    size_t size = (char *)(&buffer.n + 1) - (char *)&buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemAllocHost((void **)&copied, BYTES));
    CHECK(cuMemAllocHost((void **)&packed, BYTES));
    one = allocate(BYTES);
    two = allocate(BYTES);
    CHECK(cuMemHostGetDevicePointer(&from, packed, 0));
    buffer.to = two;
    buffer.from = from;
    buffer.n = N;
    CUDA_KERNEL_NODE_PARAMS params = {.func = take, .gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N / 4,
        .blockDimY = 1, .blockDimZ = 1, .extra = extra};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = 64, .WidthInBytes = 64, .Height = BYTES / 64};
    CUdeviceptr three = allocate(BYTES);
    int *pitched;
    CHECK(cuMemAllocHost((void **)&pitched, BYTES));
    CHECK(cuMemHostGetDevicePointer(&rows.srcDevice, pitched, 0));
    rows.dstDevice = three;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuMemHostGetDevicePointer(&from, copied, 0));
    for (round = 0; round < 3; round++) {
        for (i = 0; i < N; i++) {
            copied[i] = 100 * round + i;
            packed[i] = 200 * round + i;
            pitched[i] = 300 * round + i;
        }
        CHECK(cuMemcpy2D(&rows));
        CHECK(cuMemcpyDtoH(results, three, BYTES));
        for (i = 0; i < N; i++)
            REQUIRE(results[i] == 300 * round + i);
        CHECK(cuMemcpyDtoD(one, from, BYTES));
        CHECK(cuGraphLaunch(exec, NULL));
        CHECK(cuMemcpyDtoH(results, one, BYTES));
        for (i = 0; i < N; i++)
            REQUIRE(results[i] == 100 * round + i);
        CHECK(cuMemcpyDtoH(results, two, BYTES));
        for (i = 0; i < N; i++)
            REQUIRE(results[i] == 200 * round + i);
    }
    printf("%d\n", results[N - 1]);
    return 0;
}
