// Pinned memory written anew when a host function has told that the copy from it is done; another stream is waited for
#include "check.h"
#include <stdatomic.h>

enum { SIZE = 1 << 20, BEFORE = 1 << 24, MORE = 40 };

static atomic_int done;

static void CUDA_CB tell(void *unused)
{
    (void)unused;
    done = 1;
}

int main(void)
{
    static char first[SIZE], second[SIZE];
    CUstream stream, other;
    char *host;

    start_driver();
    CUdeviceptr big = allocate(BEFORE), to[] = {allocate(SIZE), allocate(SIZE)};
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&host, SIZE));
    memset(host, 1, SIZE);
    for (int i = 0; i < MORE; i++)
        CHECK(cuMemsetD8Async(big, i, BEFORE, stream));
    CHECK(cuMemcpyHtoDAsync(to[0], host, SIZE, stream));
    CHECK(cuLaunchHostFunc(stream, tell, NULL));
    CHECK(cuStreamSynchronize(other));
    while (!done)
        ;
    memset(host, 2, SIZE);
    CHECK(cuMemcpyHtoDAsync(to[1], host, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(first, to[0], SIZE));
    CHECK(cuMemcpyDtoH(second, to[1], SIZE));
    printf("%d %d\n", first[SIZE / 2], second[SIZE / 2]);
    return 0;
}
