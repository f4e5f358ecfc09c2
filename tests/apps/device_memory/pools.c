// Stream-ordered memory, from the default pool and from one of its own
#include "check.h"

enum { N = 300 };

int main(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    int numbers[N], n = N, round, i;
    cuuint64_t threshold = 1 << 20, used;
    CUmemoryPool standard, own;
    CUdeviceptr a, b;
    CUstream stream;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cuMemPoolSetAttribute(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(cuMemPoolCreate(&own, &properties));
    for (round = 0; round < 3; round++) {
        CHECK(cuMemAllocAsync(&a, sizeof numbers, stream));
        CHECK(cuMemAllocFromPoolAsync(&b, sizeof numbers, own, stream));
        for (i = 0; i < N; i++)
            numbers[i] = i + round;
        CHECK(cuMemcpyHtoDAsync(a, numbers, sizeof numbers, stream));
        CHECK(cuLaunchKernel(twice, 2, 1, 1, 256, 1, 1, 0, stream, (void *[]){&a, &n}, NULL));
        CHECK(cuMemcpyDtoDAsync(b, a, sizeof numbers, stream));
        CHECK(cuMemFreeAsync(a, stream));
        CHECK(cuMemcpyDtoHAsync(numbers, b, sizeof numbers, stream));
        CHECK(cuMemFreeAsync(b, stream));
        CHECK(cuStreamSynchronize(stream));
        for (i = 0; i < N; i++)
            REQUIRE(numbers[i] == 2 * (i + round));
    }
    CHECK(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    REQUIRE(used == 0);
    CHECK(cuMemPoolTrimTo(own, 0));
    CHECK(cuMemPoolDestroy(own));
    CHECK(cuStreamDestroy(stream));
    printf("%d\n", numbers[N - 1]);
    return 0;
}
