// Beside a callback a kernel writes a page to which the driver may have had the CPU copy; another that was given it waits for the callback
#include "check.h"
#include <stdatomic.h>
#include <unistd.h>

enum { WORDS = 4096 };

static atomic_int stop;

static void CUDA_CB until_stopped(void *unused)
{
    (void)unused;
    while (!stop)
        ;
}

int main(void)
{
    unsigned words = WORDS, rounds = 200000, back[WORDS], *memory, *from;
    CUstream stream, beside;
    CUevent copied, called;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(sizeof back), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&from, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < WORDS; i++)
        memory[i] = from[i] = i;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&called, CU_EVENT_DISABLE_TIMING));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuStreamSynchronize(stream));

    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuMemcpyDtoHAsync(memory + 2000, (CUdeviceptr)from, 400, stream));
    CHECK(cuEventRecord(copied, stream));
    CHECK(cuStreamWaitEvent(beside, copied, 0));
    CHECK(cuLaunchHostFunc(beside, until_stopped, NULL));
    CHECK(cuEventRecord(called, beside));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
    CHECK(cuStreamWaitEvent(stream, called, 0));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    // The kernel is done, and nobody is told.
    usleep(20000);
    REQUIRE(cuStreamQuery(beside) == CUDA_ERROR_NOT_READY);
    stop = 1;
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%u %u\n", back[1999], back[2000]);
    return 0;
}
