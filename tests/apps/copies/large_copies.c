// Megabytes copied again and again, of which a page changes; from pageable and pinned memory, as rows, and back
#include "check.h"

enum { MANY = (4 << 20) + 100, PAGE = 4096, PIECE = 256 << 10, TIMES = 3 };

static unsigned char *changed(unsigned char *bytes, int time)
{
    bytes[(time + 1) * PIECE + 5] = time + 1;
    return bytes;
}

int main(void)
{
    unsigned char *pageable = malloc(MANY), *back = malloc(MANY), *own = malloc(MANY);
    unsigned char *pinned, *result;
    CUDA_MEMCPY2D rows = {0};
    CUstream stream;
    int i;

    start_driver();
    CUdeviceptr memory = allocate(MANY);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, MANY));
    CHECK(cuMemAllocHost((void **)&result, MANY));
    // Every piece is another one.
    for (i = 0; i < MANY; i++)
        pageable[i] = pinned[i] = own[i] = i / PIECE + i % 251;
    for (i = 0; i < TIMES; i++)
        CHECK(cuMemcpyHtoD(memory, changed(pageable, i), MANY));
    CHECK(cuMemcpyDtoH(back, memory, MANY));
    REQUIRE(!memcmp(back, pageable, MANY));
    for (i = 0; i < TIMES; i++) {
        CHECK(cuMemcpyHtoDAsync(memory, changed(pinned, i + TIMES), MANY, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemcpyDtoHAsync(result, memory, MANY, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(!memcmp(result, pinned, MANY));
    CHECK(cuMemHostRegister(own, MANY, 0));
    CHECK(cuMemcpyHtoDAsync(memory, changed(own, 2 * TIMES), MANY, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemHostUnregister(own));
    rows.srcMemoryType = CU_MEMORYTYPE_HOST;
    rows.srcHost = pageable;
    rows.srcPitch = 2 * PAGE;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.dstDevice = memory;
    rows.dstPitch = PAGE;
    rows.WidthInBytes = PAGE;
    rows.Height = 500;
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemcpyDtoH(back, memory, MANY));
    for (i = 0; i < 500; i++)
        REQUIRE(!memcmp(back + i * PAGE, pageable + i * 2 * PAGE, PAGE));
    return 0;
}
