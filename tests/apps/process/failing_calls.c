// Calls that fail, each in its way, and go on
#include "check.h"

int main(void)
{
    CUdeviceptr memory;
    CUfunction function;
    CUmodule module;
    CUcontext context;
    int count;

    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    CHECK(cuInit(0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 64));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&count, 99));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "no image"));
    module = load_module("vector_add");
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "no_such_kernel"));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)&count));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(12345));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere/at/all.ptx"));
    CHECK(cuMemAlloc(&memory, 64));
    CHECK(cuMemsetD32(memory, 1234, 16));
    CHECK(cuMemcpyDtoH(&count, memory, sizeof count));
    printf("went on to %d\n", count);
    return 0;
}
