// Copies and fills that are longer than the memory that they name, of every form; the driver refuses each without a word
#include "check.h"

#define REFUSED(call) EXPECT(CUDA_ERROR_INVALID_VALUE, call)

int main(void)
{
    static char host[4000];
    CUdeviceptr short_one, long_one;

    start_driver();
    CHECK(cuMemAlloc(&short_one, 1000));
    CHECK(cuMemAlloc(&long_one, 8000));
    REFUSED(cuMemcpyHtoD(short_one, host, 4000));
    REFUSED(cuMemcpyDtoH(host, short_one + 256, 4000));
    REFUSED(cuMemcpyDtoD(short_one, long_one, 2000));
    REFUSED(cuMemsetD32(short_one, 7, 1000));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 100,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = short_one, .dstPitch = 100, .WidthInBytes = 100, .Height = 40};
    REFUSED(cuMemcpy2D(&rows));
    CHECK(cuMemcpyHtoD(long_one, host, 4000));
    return 0;
}
