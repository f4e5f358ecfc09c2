// Memory that is set and copied to the host, beside some that is copied to the device for nothing
#include "check.h"

enum { SIZE = 1 << 16 };

int main(void)
{
    static char bytes[SIZE];

    start_driver();
    CUdeviceptr memory = allocate(SIZE), unused = allocate(SIZE);
    CHECK(cuMemcpyHtoD(unused, bytes, SIZE));
    CHECK(cuMemsetD8(memory, 5, SIZE));
    CHECK(cuMemcpyDtoH(bytes, memory, SIZE));
    return 0;
}
