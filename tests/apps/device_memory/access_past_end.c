// A kernel that writes a little past the end of what it was given
#include "check.h"

int main(void)
{
    unsigned n = 128;

    start_driver();
    CUfunction add = find_kernel(load_module("faults"), "add_two");
    CUdeviceptr memory = allocate(400);
    CHECK(cuLaunchKernel(add, 1, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&memory, &n}, NULL));
    REQUIRE(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}
