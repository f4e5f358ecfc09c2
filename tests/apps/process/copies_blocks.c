// Copies argv[1] blocks of 64 KiB, each of other bytes, to the device and back
#include "check.h"

enum { SIZE = 64 << 10 };

int main(int argc, char **argv)
{
    int blocks = argc == 2 ? atoi(argv[1]) : 0, block;
    unsigned char *here = malloc(SIZE), *back = malloc(SIZE);
    CUdeviceptr memory;

    start_driver();
    CHECK(cuMemAlloc(&memory, SIZE));
    for (block = 0; block < blocks; block++) {
        memset(here, block, SIZE);
        memcpy(here, &block, sizeof block);
        CHECK(cuMemcpyHtoD(memory, here, SIZE));
        CHECK(cuMemcpyDtoH(back, memory, SIZE));
        REQUIRE(!memcmp(here, back, SIZE));
    }
    CHECK(cuMemFree(memory));
    printf("%d blocks\n", blocks);
    return 0;
}
