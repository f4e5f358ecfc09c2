// Waits for a kernel that waits for the host, which never comes: until it is killed
#include "check.h"
#include <unistd.h>

int main(void)
{
    CUstream stream;
    CUdeviceptr out;
    int *flag;

    start_driver();
    CUfunction kernel = find_kernel(load_module("faults"), "wait_for_host");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    out = allocate(4);
    CHECK(cuMemsetD8Async(out, 0, 4, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    CHECK(cuMemsetD8Async(out, 0, 4, stream));
    puts("hanging");
    fflush(stdout);
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
