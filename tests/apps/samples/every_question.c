// Questions that the replay asks again: of the device, the context, code, streams; and settings that they tell about
#include "check.h"
#include <cudaProfiler.h>

static void device(CUdevice d)
{
    int number, major, minor;
    char text[64];
    CUuuid id;
    CUdevprop properties;

    CHECK(cuDriverGetVersion(&number));
    CHECK(cuDeviceGetCount(&number));
    CHECK(cuDeviceGetName(text, sizeof text, d));
    CHECK(cuDeviceGetPCIBusId(text, sizeof text, d));
    CHECK(cuDeviceGetUuid(&id, d));
    CHECK(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, d));
    CHECK(cuDeviceGetProperties(&properties, d));
    CHECK(cuDeviceComputeCapability(&major, &minor, d));
    CHECK(cuDeviceCanAccessPeer(&number, d, d));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, d, d));
    CHECK(cuProfilerStart());
    CHECK(cuProfilerStop());
}

static void context(CUcontext c, CUdevice d)
{
    CUcontext current;
    CUdevice found;
    unsigned flags, version;
    unsigned long long id;
    size_t limit;
    CUfunc_cache cache;
    int active, least, greatest;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    CHECK(cuDevicePrimaryCtxGetState(d, &flags, &active));
    REQUIRE(active);
    CHECK(cuDevicePrimaryCtxSetFlags(d, flags));
    CHECK(cuCtxGetCurrent(&current));
    REQUIRE(current == c);
    CHECK(cuCtxGetDevice(&found));
    CHECK(cuCtxGetFlags(&flags));
    CHECK(cuCtxGetId(c, &id));
    CHECK(cuCtxGetApiVersion(c, &version));
    CHECK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, limit));
    CHECK(cuCtxGetCacheConfig(&cache));
    CHECK(cuCtxSetCacheConfig(cache));
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(cuCtxSetFlags(flags));
    CHECK(cuCtxResetPersistingL2Cache());
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuCtxSynchronize());
}

static void code(void)
{
    CUmodule module, same;
    CUfunction function, all[16];
    CUmoduleLoadingMode mode;
    CUfunctionLoadingState state;
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
    const char *name;
    size_t offset, size;
    unsigned count;
    int value;

    CHECK(cuModuleGetLoadingMode(&mode));
    module = load_module("faults");
    CHECK(cuModuleGetFunctionCount(&count, module));
    REQUIRE(count <= 16);
    CHECK(cuModuleEnumerateFunctions(all, count, module));
    function = find_kernel(module, "add_two");
    CHECK(cuFuncGetModule(&same, function));
    REQUIRE(same == module);
    CHECK(cuFuncGetName(&name, function));
    REQUIRE(!strcmp(name, "add_two"));
    CHECK(cuFuncGetParamInfo(function, 1, &offset, &size));
    REQUIRE(offset == 8 && size == 4);
    CHECK(cuFuncIsLoaded(&state, function));
    CHECK(cuFuncLoad(function));
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
    CHECK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 64, 0));
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function, 64, 0, 0));
    CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&size, function, 1, 64));
    config.hStream = NULL;
    CHECK(cuOccupancyMaxPotentialClusterSize(&value, function, &config));
    CHECK(cuOccupancyMaxActiveClusters(&value, function, &config));
    CHECK(cuModuleUnload(module));
}

static void library(CUdevice d)
{
    char *text = read_kernels("globals");
    CUlibrary library, same;
    CUkernel kernel, all[4];
    CUdeviceptr address;
    const char *name;
    size_t offset, size;
    unsigned count;
    int value;

    CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernelCount(&count, library));
    REQUIRE(count == 1);
    CHECK(cuLibraryEnumerateKernels(all, count, library));
    CHECK(cuLibraryGetKernel(&kernel, library, "use_globals"));
    REQUIRE(all[0] == kernel);
    CHECK(cuKernelGetLibrary(&same, kernel));
    CHECK(cuKernelGetName(&name, kernel));
    CHECK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
    CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, d));
    CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, d));
    CHECK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, d));
    CHECK(cuLibraryGetGlobal(&address, &size, library, "launches"));
    REQUIRE(size == 4);
    CHECK(cuLibraryUnload(library));
}

static void stream(CUcontext c)
{
    CUstream stream;
    CUcontext of;
    CUdevice device;
    CUstreamCaptureStatus status;
    CUstreamAttrValue value;
    unsigned flags;
    unsigned long long id;
    int priority;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamGetPriority(stream, &priority));
    CHECK(cuStreamGetDevice(stream, &device));
    CHECK(cuStreamGetFlags(stream, &flags));
    REQUIRE(flags == CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamGetId(stream, &id));
    CHECK(cuStreamGetCtx(stream, &of));
    REQUIRE(of == c);
    CHECK(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECK(cuStreamCopyAttributes(stream, stream));
    CHECK(cuStreamIsCapturing(stream, &status));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(cuStreamQuery(stream));
    CHECK(cuStreamDestroy(stream));
}

int main(void)
{
    CUcontext c = start_driver();
    CUdeviceptr memory = allocate(64);
    unsigned back[16];
    CUdevice d;

    CHECK(cuDeviceGet(&d, 0));
    device(d);
    context(c, d);
    code();
    library(d);
    stream(c);
    // Something to compare
    CHECK(cuMemsetD32(memory, 0x01020304, 16));
    CHECK(cuMemcpyDtoH(back, memory, 64));
    printf("%08x\n", back[15]);
    return 0;
}
