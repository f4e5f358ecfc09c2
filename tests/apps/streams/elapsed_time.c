// A copy that is told to be done by the time between two events, and by nothing else
#include "check.h"

enum { N = 1024, BYTES = N * sizeof(int) };

int main(void)
{
    CUstream copying;
    CUevent begun, done;
    CUdeviceptr memory;
    int *pinned, i;
    float milliseconds;

    start_driver();
    CHECK(cuStreamCreate(&copying, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&done, CU_EVENT_DEFAULT));
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memory = allocate(BYTES);
    CHECK(cuMemsetD32Async(memory, 7, N, copying));
    CHECK(cuEventRecord(begun, copying));
    CHECK(cuMemcpyDtoHAsync(pinned, memory, BYTES, copying));
    CHECK(cuEventRecord(done, copying));
    while (cuEventElapsedTime(&milliseconds, begun, done) == CUDA_ERROR_NOT_READY)
        ;
    REQUIRE(pinned[N - 1] == 7);
    // What the copy brought is not there any more when its stream is waited for
    for (i = 0; i < N; i++)
        pinned[i] = 0;
    CHECK(cuStreamSynchronize(copying));
    puts("done");
    return 0;
}
