// The CPU sleeps between launches and asks for their ends in a loop: most of the time no thread is in the driver
#include "check.h"
#include <unistd.h>

enum { ROUNDS = 12, N = 256 };

int main(void)
{
    CUdeviceptr values;
    CUstream stream;
    CUevent event;
    unsigned n = N;

    start_driver();
    CUfunction add = find_kernel(load_module("faults"), "add_two");
    values = allocate(N * sizeof(int));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemsetD32Async(values, 0, N, stream));
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&values, &n}, NULL));
        CHECK(cuEventRecord(event, stream));
        usleep(20000);
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            ;
    }
    CHECK(cuEventDestroy(event));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemFree(values));
    return 0;
}
