// Batches of copies whose attributes do not fit them are refused; two sets of attributes for one batch
#include "check.h"

enum { N = 512, COPIES = 4 };

int main(void)
{
    CUmemcpyAttributes how[COPIES + 1] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                          {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
    CUmemcpyAttributes wrong = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID};
    size_t sizes[COPIES] = {N, N, N, N}, firsts[COPIES + 1] = {0, 2, 3, 4, 5}, one = 1, two[2] = {0, 0}, far[2] = {0, COPIES};
    static unsigned char out[COPIES * N];
    CUdeviceptr to[COPIES], from[COPIES];
    CUdeviceptr source, target;
    CUstream stream;
    int i;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    source = allocate(COPIES * N);
    target = allocate(COPIES * N);
    CHECK(cuMemsetD8(target, 1, COPIES * N));
    for (i = 0; i < COPIES; i++) {
        CHECK(cuMemsetD8(source + i * N, 10 + i, N));
        from[i] = source + i * N;
        to[i] = target + (COPIES - 1 - i) * N;
        how[i + 1] = how[1];
    }
    CHECK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, how, firsts, 0, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, how, &one, 1, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, how, two, 2, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, how, far, 2, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, how, firsts, COPIES + 1, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, COPIES, &wrong, firsts, 1, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, 0, how, firsts, 1, stream));
    CHECK(cuMemcpyDtoH(out, target, sizeof out));
    REQUIRE(out[0] == 1 && out[sizeof out - 1] == 1);
    CHECK(cuMemcpyBatchAsync(to, from, sizes, COPIES, how, firsts, 2, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(out, target, sizeof out));
    printf("%d %d\n", out[0], out[sizeof out - 1]);
    return 0;
}
