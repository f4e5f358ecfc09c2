// Graphs whose callbacks change what nodes before them have filled or computed, the same in every run, and what nodes behind them copy
// over, one of these in a graph within
#include "check.h"

enum { BYTES = 8192, CHANGED = 5000, HALF = BYTES / 2 };

static void CUDA_CB change(void *place)
{
    unsigned char *bytes = place;

    for (int i = 0; i < CHANGED; i++)
        bytes[i] = bytes[i] * 5 + 3;
}

static CUgraphExec made(CUgraph graph)
{
    CUgraphExec executable;

    CHECK(cuGraphInstantiate(&executable, graph, 0));
    return executable;
}

int main(void)
{
    unsigned char *filled, *covered, *computed, back[3][BYTES];
    int n = BYTES / sizeof(int), round, i;
    CUgraph first, within, second, third;
    CUgraphNode changes, covers, reads;
    CUstream stream;
    CUcontext context = start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&filled, BYTES));
    CHECK(cuMemAllocHost((void **)&covered, BYTES));
    memset(filled, 1, BYTES);
    memset(covered, 2, BYTES);
    CHECK(cuMemAllocHost((void **)&computed, BYTES));
    memset(computed, 3, BYTES);
    CUdeviceptr out[3] = {allocate(BYTES), allocate(BYTES), allocate(BYTES)}, same = allocate(BYTES);
    CHECK(cuMemsetD8(same, 7, BYTES));
    CHECK(cuCtxSynchronize());
    // Given to a kernel, so that it is watched.
    CHECK(cuLaunchKernel(take, n / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out[0], &filled, &n}, NULL));
    CHECK(cuLaunchKernel(take, n / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out[1], &covered, &n}, NULL));
    CHECK(cuLaunchKernel(take, n / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out[2], &computed, &n}, NULL));

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async((CUdeviceptr)filled, 0x01020304, n, stream));
    CHECK(cuLaunchHostFunc(stream, change, filled));
    CHECK(cuMemcpyHtoDAsync(out[0], filled, BYTES, stream));
    CHECK(cuStreamEndCapture(stream, &first));

    CUDA_HOST_NODE_PARAMS host = {.fn = change, .userData = covered};
    CUDA_MEMCPY3D half = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = out[0], .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = covered + HALF, .WidthInBytes = HALF, .Height = 1, .Depth = 1};
    CUDA_MEMCPY3D whole = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = covered, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = out[1], .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    CHECK(cuGraphCreate(&second, 0));
    CHECK(cuGraphAddHostNode(&changes, second, NULL, 0, &host));
    CHECK(cuGraphAddMemcpyNode(&reads, second, &changes, 1, &whole, context));
    CHECK(cuGraphCreate(&within, 0));
    CHECK(cuGraphAddMemcpyNode(&covers, within, NULL, 0, &half, context));
    CHECK(cuGraphAddChildGraphNode(&covers, second, &reads, 1, within));

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(take, n / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&computed, &same, &n}, NULL));
    CHECK(cuLaunchHostFunc(stream, change, computed));
    CHECK(cuMemcpyHtoDAsync(out[2], computed, BYTES, stream));
    CHECK(cuStreamEndCapture(stream, &third));

    CUgraphExec runs[3] = {made(first), made(second), made(third)};
    for (round = 0; round < 3; round++) {
        unsigned sums[3] = {0, 0, 0};
        for (i = 0; i < 3; i++)
            CHECK(cuGraphLaunch(runs[i], stream));
        CHECK(cuStreamSynchronize(stream));
        for (i = 0; i < 3; i++) {
            CHECK(cuMemcpyDtoH(back[i], out[i], BYTES));
            for (int at = 0; at < BYTES; at++)
                sums[i] = sums[i] * 31 + back[i][at];
        }
        printf("%08x %08x %08x\n", sums[0], sums[1], sums[2]);
    }
    return 0;
}
