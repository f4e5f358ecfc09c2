// Allocates blocks until there is no more memory, and touches next to none of it
#include "check.h"

enum { BLOCK = 300 << 20 };

int main(void)
{
    CUdeviceptr blocks[64];
    CUresult result;
    int n = 0, value = 7;

    start_driver();
    while (!(result = cuMemAlloc(&blocks[n], BLOCK)))
        n++;
    REQUIRE(result == CUDA_ERROR_OUT_OF_MEMORY && n > 0);
    CHECK(cuMemcpyHtoD(blocks[n - 1], &value, sizeof value));
    value = 0;
    CHECK(cuMemcpyDtoH(&value, blocks[n - 1], sizeof value));
    REQUIRE(value == 7);
    while (n--)
        CHECK(cuMemFree(blocks[n]));
    return 0;
}
