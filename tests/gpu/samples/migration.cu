// A context of the driver's API that threads hand on to each other: each pushes it, works in it and pops it; two contexts in turns
// nvcc: DRIVER -Xcompiler -pthread
#include "sample.h"
#include <cuda.h>
#include <thread>

static const char *code = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry next(.param .u64 at, .param .u32 by)
{
    .reg .b64 %a<3>;
    .reg .b32 %r<5>;
    ld.param.u64 %a1, [at];
    ld.param.u32 %r1, [by];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %a2, %r2, 4;
    add.s64 %a1, %a1, %a2;
    ld.u32 %r3, [%a1];
    mad.lo.u32 %r4, %r3, 3, %r1;
    st.u32 [%a1], %r4;
    ret;
}
)";

struct Place {
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
};

static void work(Place *place, unsigned by)
{
    CUcontext popped;
    ZERO(cuCtxPushCurrent(place->context));
    void *arguments[] = {&place->memory, &by};
    ZERO(cuLaunchKernel(place->function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    if (by % 4 == 0)
        ZERO(cuCtxSynchronize());
    ZERO(cuCtxPopCurrent(&popped));
    REQUIRE(popped == place->context);
}

int main()
{
    Place places[2];
    CUdevice device;
    CUcontext popped;
    ZERO(cuInit(0));
    ZERO(cuDeviceGet(&device, 0));
    for (Place &place : places) {
#if CUDA_VERSION >= 13000
        ZERO(cuCtxCreate(&place.context, nullptr, 0, device));
#else
        ZERO(cuCtxCreate(&place.context, 0, device));
#endif
        ZERO(cuModuleLoadData(&place.module, code));
        ZERO(cuModuleGetFunction(&place.function, place.module, "next"));
        ZERO(cuMemAlloc(&place.memory, 64 * 4));
        ZERO(cuMemsetD32(place.memory, unsigned(&place - places) + 1, 64));
        ZERO(cuCtxPopCurrent(&popped));
    }
    for (unsigned i = 0; i < 24; i++)
        std::thread(work, &places[i % 2], i).join();
    for (Place &place : places) {
        std::vector<unsigned> results(64);
        unsigned value = unsigned(&place - places) + 1;
        ZERO(cuCtxPushCurrent(place.context));
        ZERO(cuMemcpyDtoH(results.data(), place.memory, 64 * 4));
        for (unsigned i = unsigned(&place - places); i < 24; i += 2)
            value = value * 3 + i;
        REQUIRE(results[63] == value);
        print("values", results);
        ZERO(cuMemFree(place.memory));
        ZERO(cuCtxDestroy(place.context));
    }
    return 0;
}
