// Copies told to be done by a stream whose context waited for them, and by the time between two events
#include "check.h"

enum { N = 1024, BYTES = N * sizeof(int) };

int main(void)
{
    CUstream copying, other;
    CUevent begun, done;
    CUdeviceptr memory;
    int *pinned, round, i;
    float milliseconds;
    CUcontext context = start_driver();

    CHECK(cuStreamCreate(&copying, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&done, CU_EVENT_DEFAULT));
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memory = allocate(BYTES);
    for (round = 0; round < 2; round++) {
        CHECK(cuMemsetD32Async(memory, 7 + round, N, copying));
        CHECK(cuEventRecord(begun, copying));
        CHECK(cuMemcpyDtoHAsync(pinned, memory, BYTES, copying));
        CHECK(cuEventRecord(done, copying));
        if (round) {
            while (cuEventElapsedTime(&milliseconds, begun, done) == CUDA_ERROR_NOT_READY)
                ;
        } else {
            CHECK(cuCtxWaitEvent(context, done));
            CHECK(cuStreamSynchronize(other));
        }
        REQUIRE(pinned[N - 1] == 7 + round);
        // What the copy brought is not there any more when its own stream is waited for
        for (i = 0; i < N; i++)
            pinned[i] = 0;
        CHECK(cuStreamSynchronize(copying));
    }
    puts("done");
    return 0;
}
