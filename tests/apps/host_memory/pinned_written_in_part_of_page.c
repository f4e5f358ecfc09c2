// Kernels work in one part of a page of pinned memory, one after the other; meanwhile the CPU writes another part of the same page ("1") or of one of
// its own ("2")
#include "check.h"

enum { PART = 64 };

int main(int argc, char **argv)
{
    unsigned *memory, *own, words = PART, rounds = 200000;
    CUstream stream, beside;

    int is_own = argc > 1 && argv[1][0] == '2';

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(PART * 4), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&own, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    memset(memory, 0, 4096);
    unsigned *written = is_own ? own : memory + PART;
    for (int i = 0; i < 2; i++) {
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, beside, (void *[]){&rounds, &slot}, NULL));
        CHECK(cuLaunchKernel(pass, 1, 1, 1, PART, 1, 1, 0, beside, (void *[]){&memory, &words}, NULL));
    }
    // No call, which would look at what is there.
    while (!*(volatile unsigned *)&memory[PART - 1])
        ;
    for (int i = 0; i < PART; i++)
        written[i] = i * 5;
    CHECK(cuLaunchKernel(take, 1, 1, 1, PART, 1, 1, 0, stream, (void *[]){&to, &written, &words}, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(beside));
    unsigned passed, last;
    CHECK(cuMemcpyDtoH(&passed, (CUdeviceptr)&memory[5], sizeof passed));
    CHECK(cuMemcpyDtoH(&last, to + (PART - 1) * 4, sizeof last));
    printf("%u %u\n", passed, last);
    return 0;
}
