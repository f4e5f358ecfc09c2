// Contexts of the driver's under the runtime: created, carried from thread to thread, with a module of PTX text each
// nvcc: DRIVER
#include "sample.h"
#include <cuda.h>
#include <thread>

static const char *text = R"(
.version 7.5
.target sm_75
.address_size 64
.global .align 4 .u32 counter = 3;
.visible .entry count(.param .u64 out)
{
    .reg .u64 %a;
    .reg .u32 %i, %c, %t;
    ld.param.u64 %a, [out];
    mov.u32 %i, %tid.x;
    mad.wide.u32 %a, %i, 4, %a;
    ld.global.u32 %c, [counter];
    ld.global.u32 %t, [%a];
    add.u32 %c, %c, %t;
    st.global.u32 [%a], %c;
    ret;
}
)";

__global__ void add(int *values) { values[threadIdx.x] += threadIdx.x; }

static CUdevice device;

static void use(CUcontext context, CUfunction function, CUdeviceptr memory)
{
    ZERO(cuCtxPushCurrent(context));
    void *arguments[] = {&memory};
    ZERO(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    // The runtime uses the context that is current
    add<<<1, 64>>>(reinterpret_cast<int *>(memory));
    CHECK(cudaDeviceSynchronize());
    ZERO(cuCtxPopCurrent(&context));
}

int main()
{
    ZERO(cuInit(0));
    ZERO(cuDeviceGet(&device, 0));
    CUcontext contexts[2], popped;
    CUmodule modules[2];
    CUfunction functions[2];
    CUdeviceptr memory[2];
    for (int i = 0; i < 2; i++) {
        CUctxCreateParams parameters = {};
        ZERO(cuCtxCreate(&contexts[i], &parameters, i ? CU_CTX_SCHED_BLOCKING_SYNC : CU_CTX_SCHED_AUTO, device));
        ZERO(cuModuleLoadData(&modules[i], text));
        ZERO(cuModuleGetFunction(&functions[i], modules[i], "count"));
        ZERO(cuMemAlloc(&memory[i], 256));
        ZERO(cuMemsetD32(memory[i], i * 1000, 64));
        CUdeviceptr counter;
        ZERO(cuModuleGetGlobal(&counter, nullptr, modules[i], "counter"));
        if (i)
            ZERO(cuMemsetD32(counter, 50, 1));
        ZERO(cuCtxPopCurrent(&popped));
        REQUIRE(popped == contexts[i]);
    }
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < 2; i++)
            std::thread(use, contexts[i], functions[i], memory[i]).join();
    for (int i = 0; i < 2; i++) {
        std::vector<int> results(64);
        ZERO(cuCtxSetCurrent(contexts[i]));
        ZERO(cuMemcpyDtoH(results.data(), memory[i], 256));
        for (int k = 0; k < 64; k++)
            REQUIRE(results[k] == (i ? 1150 : 9) + 3 * k);
        print("context", results);
        ZERO(cuModuleUnload(modules[i]));
        ZERO(cuCtxDestroy(contexts[i]));
    }
    CHECK(cudaSetDevice(0));
    int *last = allocate<int>(64);
    CHECK(cudaMemset(last, 0, 256));
    add<<<1, 64>>>(last);
    print("runtime", download(last, 64));
    return 0;
}
