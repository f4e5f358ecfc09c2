// Copies in rows whose destination is the struct that describes them: what lies there afterwards describes a copy from
// an address that is nobody's
#include "check.h"

enum { PITCH = 64, ROWS = 16, BYTES = PITCH * ROWS };

int main(void)
{
    static union {
        CUDA_MEMCPY2D copy;
        unsigned char bytes[BYTES];
    } own, other;
    CUdeviceptr memory;

    start_driver();
    memory = allocate(BYTES);
    other.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    other.copy.srcHost = (void *)0x1000;
    other.copy.srcPitch = PITCH;
    other.copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    other.copy.dstDevice = memory;
    other.copy.WidthInBytes = PITCH;
    other.copy.Height = ROWS;
    CHECK(cuMemcpyHtoD(memory, &other, BYTES));
    own.copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    own.copy.srcDevice = memory;
    own.copy.srcPitch = PITCH;
    own.copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    own.copy.dstHost = &own;
    own.copy.dstPitch = PITCH;
    own.copy.WidthInBytes = PITCH;
    own.copy.Height = ROWS;
    CHECK(cuMemcpy2D(&own.copy));
    printf("%d\n", !memcmp(&own, &other, BYTES));
    return 0;
}
