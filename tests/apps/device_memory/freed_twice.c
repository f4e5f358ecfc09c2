// Memory is freed twice, a destroyed stream and an unloaded function are used; a launch is given freed memory, and gives its place back
#include "check.h"

enum { N = 64 };

int main(void)
{
    int n = 0;
    CUstream gone;

    start_driver();
    CUmodule code = load_module("faults"), unloaded = load_module("faults");
    CUfunction add = find_kernel(code, "add_two"), old = find_kernel(unloaded, "add_two");
    CUdeviceptr memory = allocate(N * sizeof(int));
    void *arguments[] = {&memory, &n};

    CHECK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamDestroy(gone));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(gone));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, gone, arguments, NULL));
    CHECK(cuMemFree(memory));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
    // It writes nothing.
    launch(add, 1, N, arguments);
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(unloaded));
    REQUIRE(cuLaunchKernel(old, 1, 1, 1, N, 1, 1, 0, NULL, arguments, NULL) != CUDA_SUCCESS);
    // The address is another's.
    REQUIRE(allocate(N * sizeof(int)) != 0);
    CHECK(cuMemsetD8(memory, 0, 1));
    return 0;
}
