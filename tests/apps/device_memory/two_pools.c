// Two pools, of which one is destroyed: another one comes to have its addresses, for memory of another size
#include "check.h"

enum { N = 1000 };

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;

    CHECK(cuMemPoolCreate(&pool, &properties));
    return pool;
}

int main(void)
{
    int numbers[N], n = N, round, i;
    CUdeviceptr kept, memory, other;
    CUstream streams[2];
    CUmemoryPool pool;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUmemoryPool lasting = new_pool();
    for (i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocFromPoolAsync(&kept, sizeof numbers, lasting, streams[0]));
    CHECK(cuMemsetD32Async(kept, 1, N, streams[0]));
    for (round = 0; round < 3; round++) {
        pool = new_pool();
        CHECK(cuMemAllocFromPoolAsync(&memory, sizeof numbers << round, pool, streams[0]));
        CHECK(cuMemcpyDtoDAsync(memory, kept, sizeof numbers, streams[0]));
        CHECK(cuLaunchKernel(twice, 1, 1, 1, 1024, 1, 1, 0, streams[0], (void *[]){&memory, &n}, NULL));
        CHECK(cuMemcpyDtoDAsync(kept, memory, sizeof numbers, streams[0]));
        CHECK(cuMemFreeAsync(memory, streams[0]));
        CHECK(cuStreamSynchronize(streams[0]));
        // The default pool, whose memory another stream frees.
        CHECK(cuMemAllocAsync(&other, sizeof numbers, streams[1]));
        CHECK(cuMemsetD32Async(other, round, N, streams[1]));
        CHECK(cuMemcpyDtoHAsync(numbers, other, sizeof numbers, streams[1]));
        CHECK(cuStreamSynchronize(streams[1]));
        CHECK(cuMemFreeAsync(other, streams[0]));
        REQUIRE(numbers[N - 1] == round);
        CHECK(cuMemPoolDestroy(pool));
    }
    CHECK(cuMemcpyDtoHAsync(numbers, kept, sizeof numbers, streams[0]));
    CHECK(cuStreamSynchronize(streams[0]));
    CHECK(cuMemFreeAsync(kept, streams[0]));
    CHECK(cuMemPoolDestroy(lasting));
    printf("%d\n", numbers[N - 1]);
    REQUIRE(numbers[N - 1] == 8);
    return 0;
}
