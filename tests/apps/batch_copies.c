// Batches of copies to and from neighbouring buffers, pageable and pinned
#include "check.h"

enum { N = 1024, COPIES = 4 };

static void batch(CUdeviceptr *to, CUdeviceptr *from, CUstream stream)
{
    size_t sizes[COPIES] = {N, N, N / 2, N}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    CHECK(cuMemcpyBatchAsync(to, from, sizes, COPIES, &attributes, &first, 1, stream));
}

int main(void)
{
    static unsigned char in[COPIES * N], pageable[COPIES * N];
    unsigned char *pinned;
    CUdeviceptr host[COPIES], device[COPIES], out[COPIES];
    unsigned i, sum = 0;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, COPIES * N));
    memset(pinned, 0, COPIES * N);
    CUdeviceptr memory = allocate(COPIES * N);
    CHECK(cuMemsetD8(memory, 9, COPIES * N));
    // The stream waits for nothing else, and the driver need not have waited either
    CHECK(cuCtxSynchronize());
    for (i = 0; i < COPIES * N; i++)
        in[i] = i / N * 50 + i % 7;
    for (i = 0; i < COPIES; i++) {
        host[i] = (CUdeviceptr)(in + i * N);
        device[i] = memory + i * N;
        out[i] = (CUdeviceptr)(i % 2 ? pinned + i * N : pageable + i * N);
    }
    batch(device, host, stream);
    batch(out, device, stream);
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < COPIES; i++) {
        REQUIRE(!memcmp((void *)out[i], in + i * N, N / 2));
        out[i] = (CUdeviceptr)(pageable + i * N);
    }
    batch(out, device, stream);
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < COPIES * N; i++)
        sum = sum * 3 + pageable[i];
    printf("%u\n", sum);
    return 0;
}
