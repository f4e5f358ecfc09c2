// A stream waits for a value that another one was given to write before, but that was taken back since: by a later value ("w"), a fill ("f") or the
// CPU itself ("c"), which now writes it again
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    volatile unsigned *flag;
    unsigned seen;
    CUdeviceptr data, at;
    CUstream a, b;
    char how = argc > 1 ? *argv[1] : 'w';

    start_driver();
    data = allocate(4);
    CHECK(cuMemsetD8(data, 0, 4));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    at = (CUdeviceptr)flag;
    *flag = 0;
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWriteValue32(a, at, 1, 0));
    CHECK(cuStreamWaitValue32(b, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamSynchronize(b));
    if (how == 'w')
        CHECK(cuStreamWriteValue32(a, at, 0, 0));
    else if (how == 'f')
        CHECK(cuMemsetD32Async(at, 0, 1, a));
    else
        *flag = 0, CHECK(cuStreamWriteValue32(a, at, 1, 0));
    if (how != 'c')
        CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamWaitValue32(b, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuMemsetD8Async(data, 5, 4, b));
    if (how != 'c')
        *flag = 1;
    CHECK(cuStreamSynchronize(b));
    CHECK(cuMemcpyDtoH(&seen, data, 4));
    printf("%x\n", seen);
    return 0;
}
