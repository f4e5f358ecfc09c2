// Thousands of copies from pinned memory into which other copies still bring bytes: what the CPU has put there goes into the trace
// behind each call's entry, now and then as the first of a chunk
#include "check.h"

enum { N = 1024, HALF = N / 2, ROUNDS = 1000 };

int main(void)
{
    unsigned char *pinned, results[N];
    CUdeviceptr from, to;
    CUstream stream;
    int round, i;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, N, CU_MEMHOSTALLOC_PORTABLE));
    from = allocate(N);
    to = allocate(N);
    CHECK(cuMemsetD8(from, 7, N));
    // Of another stream, which this one does not wait for
    CHECK(cuCtxSynchronize());
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < HALF; i++)
            pinned[i] = (unsigned char)(round + i);
        CHECK(cuMemcpyDtoHAsync(pinned + HALF, from, HALF, stream));
        CHECK(cuMemcpyHtoDAsync(to, pinned, N, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemcpyDtoH(results, to, N));
    REQUIRE(results[1] == (unsigned char)ROUNDS && results[HALF] == 7);
    printf("%d %d\n", results[1], results[HALF]);
    return 0;
}
