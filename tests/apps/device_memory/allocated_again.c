// Reads memory that was allocated again and that nothing has written since: fresh, or with what it held when something lives beside it
#include "check.h"

static unsigned char bytes[3 << 20];

static unsigned sum_of(CUdeviceptr memory, size_t size)
{
    unsigned sum = 0;

    CHECK(cuMemcpyDtoH(bytes, memory, size));
    for (size_t i = 0; i < size; i++)
        sum += bytes[i];
    return sum;
}

int main(void)
{
    static const size_t sizes[] = {1000, 1 << 20, (1 << 20) + 1, 3 << 20};

    start_driver();
    // What was freed in the order of a stream is in use no longer when the context has been waited for.
    CUdeviceptr pooled;
    CHECK(cuMemAllocAsync(&pooled, 1000, NULL));
    CHECK(cuMemFreeAsync(pooled, NULL));
    for (int i = 0; i < 4; i++)
        for (int beside = 0; beside < 2; beside++) {
            CUdeviceptr first = allocate(sizes[i]), second = allocate(sizes[i]);
            CHECK(cuMemsetD8(first, 5, sizes[i]));
            CHECK(cuMemsetD8(second, 7, sizes[i]));
            CHECK(cuMemFree(first));
            if (!beside)
                CHECK(cuMemFree(second));
            CUdeviceptr again = allocate(sizes[i]);
            printf("%zu bytes%s: %u\n", sizes[i], beside ? ", one lives beside" : "", sum_of(again, sizes[i]));
            CHECK(cuMemFree(again));
            if (beside)
                CHECK(cuMemFree(second));
        }
    return 0;
}
