// The CPU writes pinned memory that a fill was to go to which the driver has refused
#include "check.h"

enum { N = 1024, BYTES = N * sizeof(int) };

int main(void)
{
    int *pinned, results[N], n = N, round, k;
    CUdeviceptr from, device;
    CUstream stream;

    start_driver();
    CUfunction copy = find_kernel(load_module("memory"), "take");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&from, pinned, 0));
    device = allocate(BYTES);
    for (round = 0; round < 3; round++) {
        for (k = 0; k < N; k++)
            pinned[k] = 1000 * round + k;
        launch(copy, N / 128, 128, (void *[]){&device, &from, &n});
        CHECK(cuMemcpyDtoH(results, device, BYTES));
        REQUIRE(!memcmp(results, pinned, BYTES));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(from, 0, (size_t)1 << 40, stream));
    }
    printf("%d\n", results[N - 1]);
    return 0;
}
