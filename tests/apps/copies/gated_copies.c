// A kernel waits for a flag in pinned memory; behind it stands a copy of pinned memory that the CPU fills, after the call, before it sets the flag
#include "check.h"

enum { WORDS = 2000, TURNS = 6 };

int main(void)
{
    unsigned *flag, *source, *seen;
    CUstream stream;
    CUdeviceptr data, out;
    int i;

    start_driver();
    CUfunction gate = find_kernel(load_module("faults"), "wait_for_host");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&source, WORDS * sizeof *source, 0));
    CHECK(cuMemHostAlloc((void **)&seen, WORDS * sizeof *seen, 0));
    memset(flag, 0, 4096), memset(source, 0, WORDS * sizeof *source);
    data = allocate(WORDS * sizeof *source), out = allocate(4);
    for (i = 1; i <= TURNS; i++) {
        CHECK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
        CHECK(cuMemcpyHtoDAsync(data, source, WORDS * sizeof *source, stream));
        CHECK(cuMemcpyDtoHAsync(seen, data, WORDS * sizeof *seen, stream));
        for (int word = 0; word < WORDS; word++)
            source[word] = word * 7 + i;
        *(volatile unsigned *)flag = i;
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(seen[WORDS - 1] == (WORDS - 1) * 7u + i);
        *(volatile unsigned *)flag = 0;
    }
    CHECK(cuMemcpyDtoH(&i, out, sizeof i));
    printf("%u %d\n", seen[1], i);
    REQUIRE(i == TURNS + 1);
    return 0;
}
