// A call that frees memory waits for a host function of another stream
#include "check.h"
#include <unistd.h>

static void CUDA_CB take_time(void *unused)
{
    (void)unused;
    usleep(300000);
}

int main(void)
{
    CUdeviceptr scratch, result;
    CUstream stream;
    unsigned word;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    scratch = allocate(1 << 20);
    result = allocate(sizeof word);
    // Nothing is under way: no wait.
    CHECK(cuMemFree(allocate(4096)));
    CHECK(cuLaunchHostFunc(stream, take_time, NULL));
    CHECK(cuMemsetD32Async(result, 5, 1, stream));
    CHECK(cuMemFree(scratch));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&word, result, sizeof word));
    printf("%u\n", word);
    return 0;
}
