// Another context is waited for while a copy of this one is still to come; then this one, by its handle
#include "check.h"

enum { WORDS = 1024, ROUNDS = 4 };

int main(void)
{
    unsigned rounds = 300000, *pinned, sum = 0;
    CUcontext here, other, popped;
    CUstream stream;
    int round;

    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
    CHECK(cuCtxPopCurrent(&popped));
    CHECK(cuCtxCreate(&here, NULL, 0, 0));
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr data = allocate(WORDS * sizeof *pinned);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, WORDS * sizeof *pinned, 0));
    memset(pinned, 0, WORDS * sizeof *pinned);
    for (round = 0; round < ROUNDS; round++) {
        CHECK(cuMemsetD32Async(data, round + 100, WORDS, stream));
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &data}, NULL));
        CHECK(cuMemcpyDtoHAsync(pinned, data, WORDS * sizeof *pinned, stream));
        CHECK(cuCtxSynchronize_v2(other));
        CHECK(cuCtxSynchronize_v2(round % 2 ? here : NULL));
        REQUIRE(pinned[WORDS - 1] == (unsigned)round + 100);
        sum = sum * 31 + pinned[0] + pinned[1];
        memset(pinned, 0, WORDS * sizeof *pinned);
    }
    printf("%u\n", sum);
    return 0;
}
