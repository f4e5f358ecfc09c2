// The CPU writes pinned memory that a kernel under way writes, too, and a flag that the kernel only reads; "near": on the same page
#include "check.h"

int main(int argc, char **argv)
{
    CUstream stream;
    int *flag, *both;

    start_driver();
    CUfunction kernel = find_kernel(load_module("faults"), "wait_for_host");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&flag, argc > 1 && *argv[1] == 'n' ? sizeof *flag : 4096));
    CHECK(cuMemAllocHost((void **)&both, 1024 * sizeof *both));
    *flag = 0;
    memset(both, 0, 1024 * sizeof *both);
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &both}, NULL));
    *(volatile int *)both = 7;
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    *(volatile int *)flag = 41;
    CHECK(cuStreamSynchronize(stream));
    printf("%d\n", *both);
    REQUIRE(*both == 42);
    return 0;
}
