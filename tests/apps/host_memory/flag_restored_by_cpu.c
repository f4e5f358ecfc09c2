// The CPU waits for a flag that a kernel sets, and puts back what had been there: no call tells that the kernel has written it
#include "check.h"

int main(void)
{
    unsigned rounds = 100000, turn;
    volatile unsigned *flag;
    CUstream stream;

    start_driver();
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset((void *)flag, 0, 4096);
    for (turn = 0; turn < 3; turn++) {
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &flag}, NULL));
        while (!*flag)
            ;
        *flag = 0;
    }
    CHECK(cuStreamSynchronize(stream));
    printf("%u\n", *flag);
    return 0;
}
