// A copy that begins inside an allocation and ends beyond it: refused, and refused again when replayed
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
    return 0;
}
