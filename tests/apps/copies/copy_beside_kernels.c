// A copy between two places in pinned memory, which the driver may have the CPU make, onto a page that kernels before and behind it write
#include "check.h"

int main(void)
{
    enum { WORDS = 4096 };
    unsigned words = WORDS, *memory, *from;
    CUdeviceptr open;
    CUstream streams[3];
    CUfunction pass;
    CUevent event;

    start_driver();
    pass = find_kernel(load_module("memory"), "pass");
    open = allocate(4);
    CHECK(cuMemsetD32(open, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemHostAlloc((void **)&memory, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&from, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < WORDS; i++)
        memory[i] = from[i] = i;
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

    void *arguments[] = {&memory, &words};
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[0], arguments, NULL));
    CHECK(cuMemcpyAsync((CUdeviceptr)(memory + 2000), (CUdeviceptr)from, 400, streams[0]));
    CHECK(cuEventRecord(event, streams[0]));
    CHECK(cuStreamWaitEvent(streams[1], event, 0));
    CHECK(cuStreamWaitValue32(streams[1], open, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[1], arguments, NULL));
    // The copy is done now, and the launch behind it not begun.
    CHECK(cuStreamSynchronize(streams[0]));
    CHECK(cuStreamWriteValue32(streams[2], open, 1, 0));
    CHECK(cuStreamSynchronize(streams[1]));
    printf("%u %u\n", memory[1999], memory[2000]);
    return 0;
}
