// A pool of limited size: what goes beyond it is refused, until something is freed
#include "check.h"

enum { PIECE = 4 << 20 };

int main(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                 .maxSize = 64 << 20};
    CUdeviceptr pieces[16], more = 0;
    CUmemoryPool pool;
    CUstream stream;
    unsigned value;
    int i;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemPoolCreate(&pool, &properties));
    for (i = 0; i < 16; i++)
        CHECK(cuMemAllocFromPoolAsync(&pieces[i], PIECE, pool, stream));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, PIECE, pool, stream));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, 65 << 20, pool, stream));
    CHECK(cuMemFreeAsync(pieces[3], stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemAllocFromPoolAsync(&pieces[3], PIECE, pool, stream));
    CHECK(cuMemsetD32Async(pieces[3], 33, PIECE / 4, stream));
    CHECK(cuMemcpyDtoHAsync(&value, pieces[3] + PIECE - 4, 4, stream));
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < 16; i++)
        CHECK(cuMemFreeAsync(pieces[i], stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolDestroy(pool));
    printf("%u\n", value);
    return 0;
}
