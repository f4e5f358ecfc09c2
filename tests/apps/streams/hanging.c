// A kernel waits for ever for a word that the CPU does not write; another one is behind it, and the program waits for both
#include "check.h"

int main(void)
{
    CUstream stream;
    CUdeviceptr out, values;
    int *flag, n = 64;

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction waiting = find_kernel(module, "wait_for_host"), add = find_kernel(module, "add_two");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    out = allocate(4);
    values = allocate(n * sizeof(int));
    CHECK(cuMemsetD32(values, 0, n));
    CHECK(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    CHECK(cuLaunchKernel(add, 1, 1, 1, n, 1, 1, 0, stream, (void *[]){&values, &n}, NULL));
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
