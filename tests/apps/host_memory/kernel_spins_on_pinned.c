// A kernel spins on pinned memory until the CPU writes there
#include "check.h"

int main(void)
{
    CUstream stream;
    CUdeviceptr out;
    int *flag, result;

    start_driver();
    CUfunction kernel = find_kernel(load_module("faults"), "wait_for_host");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    out = allocate(4);
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    *(volatile int *)flag = 41;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&result, out, 4));
    printf("%d\n", result);
    REQUIRE(result == 42);
    return 0;
}
