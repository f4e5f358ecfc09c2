// A graph's callback writes what a fill behind the capture has filled; another call finds that, and that the fill is done, while it runs
#include "check.h"
#include <stdatomic.h>

enum { WORDS = 1024 };

static unsigned *shared;
static atomic_int written, seen;

static void CUDA_CB change(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS; i++)
        shared[i] += i;
    written = 1;
    while (!seen)
        ;
}

int main(void)
{
    unsigned back[WORDS];
    CUstream streams[2];
    CUgraphExec executable;
    CUgraph graph;
    CUevent event;

    start_driver();
    CUdeviceptr to = allocate(sizeof back);
    CHECK(cuMemHostAlloc((void **)&shared, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchHostFunc(streams[0], change, NULL));
    CHECK(cuMemcpyHtoDAsync(to, shared, sizeof back, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    CHECK(cuMemsetD32Async((CUdeviceptr)shared, 5, WORDS, streams[1]));
    CHECK(cuEventRecord(event, streams[1]));
    CHECK(cuStreamWaitEvent(streams[0], event, 0));
    CHECK(cuGraphLaunch(executable, streams[0]));
    while (!written)
        ;
    CHECK(cuEventQuery(event));
    seen = 1;
    CHECK(cuStreamSynchronize(streams[0]));
    CHECK(cuMemcpyDtoH(back, to, sizeof back));
    printf("%u %u\n", back[1], back[WORDS - 1]);
    return 0;
}
