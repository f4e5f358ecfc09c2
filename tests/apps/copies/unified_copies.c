// Copies between unified addresses: which side is the host's, only the addresses tell
#include "check.h"

enum { N = 3000 };

int main(void)
{
    unsigned char pageable[N], back[N], *pinned;
    unsigned i, sum = 0;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, N));
    CUdeviceptr a = allocate(N), b = allocate(N);

    for (i = 0; i < N; i++)
        pageable[i] = i * 7 + 3;
    CHECK(cuMemcpy(a, (CUdeviceptr)pageable, N));
    CHECK(cuMemcpy(b, a, N));
    // Between two addresses of the device it does not wait, nor does the stream for it.
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpyAsync((CUdeviceptr)pinned, b, N, stream));
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < N; i++)
        pinned[i] ^= 0x55;
    CHECK(cuMemcpyAsync(a, (CUdeviceptr)pinned, N, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpy((CUdeviceptr)back, a, N));
    for (i = 0; i < N; i++) {
        REQUIRE(back[i] == (unsigned char)((i * 7 + 3) ^ 0x55));
        sum += back[i];
    }
    printf("%u\n", sum);

    CHECK(cuMemFree(a));
    CHECK(cuMemFree(b));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuStreamDestroy(stream));
    return 0;
}
