// Makes argv[2] calls that differ: "queries", or "launches" of a kernel with five arguments on two streams
#include "check.h"

static const char *const CODE = ".version 7.0\n.target sm_50\n.address_size 64\n"
                                ".visible .entry five(.param .u64 a, .param .u64 b, .param .u64 c, .param .f32 f, .param .u32 n) { ret; }\n";

// More kinds in turn than are counted
static void queries(int count)
{
    CUcontext context;
    CUdevice device;
    int value;

    CHECK(cuCtxGetDevice(&device));
    for (int i = 0; i < count; i++)
        switch (i % 6) {
        case 0:
            CHECK(cuCtxGetCurrent(&context));
            break;
        case 1:
            CHECK(cuCtxGetDevice(&device));
            break;
        case 2:
            CHECK(cuDriverGetVersion(&value));
            break;
        case 3:
            CHECK(cuDeviceGetCount(&value));
            break;
        default:
            CHECK(cuDeviceGetAttribute(&value, (CUdevice_attribute)(1 + i % 80), device));
        }
}

static void launches(int count)
{
    CUdeviceptr buffers[3];
    CUfunction function;
    CUmodule module;
    CUstream streams[2];
    float factor = 1;

    CHECK(cuModuleLoadData(&module, CODE));
    CHECK(cuModuleGetFunction(&function, module, "five"));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemAlloc(&buffers[i], 1 << 20));
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < count; i++) {
        void *arguments[] = {&buffers[i % 3], &buffers[(i + 1) % 3], &buffers[(i + 2) % 3], &factor, &i};

        factor *= 1.0001f;
        CHECK(cuLaunchKernel(function, 1 + i % 7, 1, 1, 32, 1, 1, 0, streams[i % 2], arguments, NULL));
    }
    CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    start_driver();
    (strcmp(argv[1], "queries") ? launches : queries)(atoi(argv[2]));
    return 0;
}
