// Copies that begin inside an allocation and end beyond it, and from memory that was freed: refused, and refused again when replayed
#include "check.h"

int main(void)
{
    unsigned char bytes[8];

    start_driver();
    CUdeviceptr memory = allocate(1 << 20);
    CHECK(cuMemsetD8(memory, 3, 1 << 20));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, memory + (1 << 20) - 4, 8));
    CHECK(cuMemcpyDtoH(bytes, memory + (1 << 20) - 8, 8));
    printf("%d\n", bytes[7]);
    CHECK(cuMemFree(memory));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, memory, 8));
    return 0;
}
