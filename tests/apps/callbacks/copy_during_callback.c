// While a callback runs that has nothing to do with it, a kernel and a copy that the driver may have the CPU make write one page
#include "check.h"
#include <stdatomic.h>

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
    CUstream beside, stream;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(sizeof back), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&from, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < WORDS; i++)
        memory[i] = from[i] = i;
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuLaunchHostFunc(beside, until_stopped, NULL));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
    CHECK(cuMemcpyAsync((CUdeviceptr)(memory + 2000), (CUdeviceptr)from, 400, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    stop = 1;
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(beside));
    printf("%u %u\n", back[1999], back[2000]);
    return 0;
}
