// A graph copies to pageable memory, and a copy behind it replaces a part of that before a callback begins that waits for the graph alone
#include "check.h"
#include <stdatomic.h>

enum { SIZE = 8192 };

static char results[SIZE];
static atomic_int replaced;

static void CUDA_CB until_replaced(void *unused)
{
    (void)unused;
    while (!replaced)
        ;
}

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

int main(void)
{
    CUstream streams[3];
    CUgraphExec executable;
    CUgraph graph;
    CUevent event;
    unsigned rounds = 200000;

    start_driver();
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr slot = allocate(sizeof(int));
    CUdeviceptr from = allocate(SIZE);
    CHECK(cuMemsetD8(from, 1, SIZE));
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoHAsync(results, from, SIZE, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));

    CHECK(cuLaunchHostFunc(streams[1], until_replaced, NULL));
    CHECK(cuGraphLaunch(executable, streams[0]));
    CHECK(cuEventRecord(event, streams[0]));
    CHECK(cuStreamWaitEvent(streams[1], event, 0));
    CHECK(cuLaunchHostFunc(streams[1], nothing, NULL));
    CHECK(cuStreamWaitEvent(streams[2], event, 0));
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, streams[2], (void *[]){&rounds, &slot}, NULL));
    CHECK(cuMemsetD8Async(from, 2, SIZE, streams[2]));
    CHECK(cuMemcpyDtoHAsync(results + 1000, from, 100, streams[2]));
    // It is to pageable memory, and done.
    replaced = 1;
    CHECK(cuStreamSynchronize(streams[1]));
    CHECK(cuStreamSynchronize(streams[2]));
    printf("%d %d\n", results[999], results[1000]);
    return 0;
}
