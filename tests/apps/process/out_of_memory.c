// Asks for too much, and then for half as much until it gets it
#include "check.h"

int main(void)
{
    size_t free, total, size;
    CUdeviceptr memory;
    CUresult result;
    int refused = 0;
    char seven;

    start_driver();
    CHECK(cuMemGetInfo(&free, &total));
    for (size = 4 * total; (result = cuMemAlloc(&memory, size)) == CUDA_ERROR_OUT_OF_MEMORY; size /= 2)
        refused++;
    CHECK(result);
    CHECK(cuMemsetD8(memory, 7, 1000));
    CHECK(cuMemcpyDtoH(&seven, memory + 999, 1));
    CHECK(cuMemFree(memory));
    printf("refused %d times, then %d\n", refused, seven);
    return 0;
}
