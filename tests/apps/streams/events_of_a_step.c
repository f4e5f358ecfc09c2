// Steps of which each makes events of its own, as frameworks do, and ends those of the step before
#include "check.h"

enum { N = 32, BYTES = N * 4, STEPS = 3 };

int main(void)
{
    CUevent event, before = NULL;
    CUstream one, other;
    CUdeviceptr memory;
    CUfunction add;
    int numbers[N] = {0}, n = N;
    void *arguments[] = {&memory, &n};

    start_driver();
    add = find_kernel(load_module("faults"), "add_two");
    CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    memory = allocate(BYTES);
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    for (int step = 0; step < STEPS; step++) {
        CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, one, arguments, NULL));
        CHECK(cuEventRecord(event, one));
        CHECK(cuStreamWaitEvent(other, event, 0));
        if (before)
            CHECK(cuEventDestroy(before));
        before = event;
        CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, other, arguments, NULL));
        CHECK(cuStreamSynchronize(other));
    }
    CHECK(cuMemcpyDtoH(numbers, memory, BYTES));
    printf("%d\n", numbers[N - 1]);
    return 0;
}
