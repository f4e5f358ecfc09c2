// Parts of one piece of pinned memory, smaller than a page: kernels under way use some, one is copied to another, the CPU writes a third
#include "check.h"

enum { PART = 64, PARTS = 5, ROUNDS = 8 };

int main(void)
{
    unsigned *memory, *part[PARTS], sum = 0, words = PART, rounds = 200000;
    CUstream stream, beside;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(PART * 4), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, PARTS * PART * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0, PARTS * PART * 4);
    for (int i = 0; i < PARTS; i++)
        part[i] = memory + i * PART;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, beside, (void *[]){&rounds, &slot}, NULL));
        CHECK(cuLaunchKernel(pass, 1, 1, 1, PART, 1, 1, 0, beside, (void *[]){&part[1], &words}, NULL));
        for (int i = 0; i < PART; i++)
            part[2][i] = i * round;
        CHECK(cuLaunchKernel(take, 1, 1, 1, PART, 1, 1, 0, stream, (void *[]){&to, &part[2], &words}, NULL));
        CHECK(cuMemcpyDtoHAsync(part[3], to, PART * 4, stream));
        CHECK(cuMemcpyAsync((CUdeviceptr)part[4], (CUdeviceptr)part[3], PART * 4, stream));
        CHECK(cuStreamSynchronize(stream));
        sum = sum * 31 + part[4][round];
    }
    CHECK(cuStreamSynchronize(beside));
    printf("%u %u\n", sum, part[1][5]);
    return 0;
}
