// A batch of copies of all directions in one call
#include "check.h"

enum { N = 4096, COPIES = 3 };

int main(void)
{
    unsigned char in[N], out[N];
    unsigned i, sum = 0;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr a = allocate(N), b = allocate(N);
    CUdeviceptr to[COPIES] = {a, b, (CUdeviceptr)out}, from[COPIES] = {(CUdeviceptr)in, a, b};
    size_t sizes[COPIES] = {N, N, N}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    for (i = 0; i < N; i++)
        in[i] = i * 5 + 1;
    // Copies of one batch are not ordered among each other: one a batch.
    for (i = 0; i < COPIES; i++)
        CHECK(cuMemcpyBatchAsync(&to[i], &from[i], &sizes[i], 1, &attributes, &first, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < N; i++) {
        REQUIRE(out[i] == (unsigned char)(i * 5 + 1));
        sum += out[i];
    }
    printf("%u\n", sum);
    return 0;
}
