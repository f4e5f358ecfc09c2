// What the CPU writes over a fill while a callback runs that has nothing to do with it, and that was put before the fill
#include "check.h"
#include <stdatomic.h>

enum { WORDS = 1024 };

static atomic_int may_end[2], running;

static void CUDA_CB wait_for_it(void *until)
{
    running++;
    while (!*(atomic_int *)until)
        ;
}

int main(void)
{
    unsigned rounds = 200000, words = WORDS, back[WORDS], *memory;
    CUstream beside, stream;

    start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(sizeof back), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(memory, 0, sizeof back);
    // From here on what the CPU writes there is followed.
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
    CHECK(cuStreamSynchronize(stream));

    CHECK(cuLaunchHostFunc(beside, wait_for_it, &may_end[0]));
    CHECK(cuLaunchHostFunc(beside, wait_for_it, &may_end[1]));
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuMemsetD32Async((CUdeviceptr)memory, 5, WORDS, stream));
    CHECK(cuStreamSynchronize(stream));
    may_end[0] = 1;
    while (running < 2)
        ;
    for (int i = 0; i < WORDS; i++)
        memory[i] += i;
    CHECK(cuMemcpyHtoDAsync(to, memory, sizeof back, stream));
    may_end[1] = 1;
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &words}, NULL));
    CHECK(cuStreamSynchronize(beside));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(back, to, sizeof back));
    printf("%u %u\n", back[1], back[WORDS - 1]);
    return 0;
}
