// Batches of many copies from pageable memory, whose bytes stand within the record of one call: records of megabytes, and short ones
// behind them
#include "check.h"

enum { N = 2048, COPIES = 3000, ROUNDS = 2 };

int main(void)
{
    static unsigned char in[COPIES][N], back[COPIES][N];
    static CUdeviceptr from[COPIES], to[COPIES];
    static size_t sizes[COPIES];
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    unsigned round, count, i, k, sum = 0;
    size_t first = 0;
    CUstream stream;
    CUcontext current;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr memory = allocate(sizeof in);
    for (i = 0; i < COPIES; i++) {
        from[i] = (CUdeviceptr)in[i];
        to[i] = memory + i * N;
        sizes[i] = N;
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < COPIES; i++)
            for (k = 0; k < N; k++)
                in[i][k] = (unsigned char)(i * 31 + i / 256 + k * 7 + round);
        count = round ? COPIES / 5 : COPIES;
        CHECK(cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream));
        CHECK(cuStreamSynchronize(stream));
        for (i = 0; i < 10; i++)
            CHECK(cuCtxGetCurrent(&current));
        CHECK(cuMemcpyDtoH(back, memory, sizeof back));
        REQUIRE(!memcmp(in, back, count * sizeof in[0]));
        for (i = 0; i < count; i++)
            sum = sum * 3 + back[i][i % N];
    }
    printf("%u\n", sum);
    return 0;
}
