// Memory that comes and goes in the order of a stream, in all twice what the device has
#include "check.h"

int main(void)
{
    size_t total;
    CUdeviceptr memory;
    CUstream stream;
    unsigned char bytes[64];
    int i;

    start_driver();
    CHECK(cuDeviceTotalMem(&total, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (i = 0; i < 8; i++) {
        CHECK(cuMemAllocAsync(&memory, total / 4, stream));
        CHECK(cuMemsetD8Async(memory, i, sizeof bytes, stream));
        CHECK(cuMemcpyDtoHAsync(bytes, memory, sizeof bytes, stream));
        CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(bytes[63] == i);
    }
    return 0;
}
