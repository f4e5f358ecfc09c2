// Launches that the driver refuses for what they ask: too many threads, too much shared memory, no arguments; others for what is not seen
#include "check.h"

enum { N = 64 };

static CUresult with(CUfunction function, unsigned threads, unsigned shared, void **arguments)
{
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, NULL, arguments, NULL);
}

int main(void)
{
    CUdevice device;
    int most, n = N;

    start_driver();
    CUfunction add = find_kernel(load_module("faults"), "add_two");
    CUdeviceptr memory = allocate(N * sizeof(int));
    void *arguments[] = {&memory, &n};

    CHECK(cuMemsetD32(memory, 0, N));
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, 2048, 0, arguments));
    // Nobody has asked how much there is.
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, N, 100000, arguments));
    CHECK(cuCtxGetDevice(&device));
    CHECK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device));
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, N, 100000, arguments));
    CHECK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
    CHECK(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
    // More than the kernel is allowed, less than the device has.
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, N, 100000, arguments));
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, N, most + 1, arguments));
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(add, 0, 0, arguments));
    CHECK(with(add, N, 0, arguments));
    REQUIRE(with(add, N, 0, NULL) != CUDA_SUCCESS);
    CHECK(cuCtxSynchronize());
    return 0;
}
