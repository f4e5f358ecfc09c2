// Kernel arguments whose bits look like another type: NaN, negative zero, denormals, large unsigned numbers, half floats,
// booleans, vectors, structures; declared by PTX, by C++ names, by two modules that declare one name otherwise
#include "check.h"

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

static const char module_text[] = HEAD
    ".visible .entry plain(.param .f32 a, .param .f32 b, .param .u32 c, .param .s32 d, .param .f64 e, .param .f16 f,\n"
    "    .param .b32 g, .param .u64 .ptr .global .align 4 h, .param .align 4 .b8 i[12], .param .s8 j, .param .u64 k)\n"
    "{ ret; }\n"
    // mixed(float*, unsigned, int, float, long, bool, __half, float4, Color, float const*), as nvcc declares it
    ".visible .entry _Z5mixedPfjiflb6__half6float45ColorPKf(.param .u64 a, .param .u32 b, .param .u32 c, .param .f32 d,\n"
    "    .param .u64 e, .param .u8 f, .param .align 2 .b8 g[2], .param .align 16 .b8 h[16], .param .u32 i, .param .u64 j)\n"
    "{ ret; }\n";
static const char first_text[] = HEAD ".visible .entry which(.param .f32 x) { ret; }\n";
static const char second_text[] = HEAD ".visible .entry which(.param .u32 x) { ret; }\n";

static void launch_with(void *function, void **arguments)
{
    CHECK(cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0));
}

static float float_of(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int main(void)
{
    CUmodule module, first, second;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUgraph graph;
    CUgraphNode node;
    CUdeviceptr memory;
    unsigned one = 0x3f800000, i;

    start_driver();
    CHECK(cuMemAlloc(&memory, 1000));
    CHECK(cuModuleLoadData(&module, module_text));
    CHECK(cuModuleLoadData(&first, first_text));
    CHECK(cuModuleLoadData(&second, second_text));
    CHECK(cuLibraryLoadData(&library, module_text, 0, 0, 0, 0, 0, 0));

    float nan = float_of(0x7fc00000), denormal = float_of(714);
    unsigned large = 1u << 30, bits = 0x40000000;
    int negative = -3;
    double infinite = -1.0 / 0.0;
    unsigned short half = 0xc000;
    struct { int x, y, z; } point = {1, 2, 3};
    signed char small = -1;
    unsigned long long size = 5000000000;
    void *plain[] = {&nan, &denormal, &large, &negative, &infinite, &half, &bits, &memory, &point, &small, &size};

    unsigned many = 3000000000u;
    long distance = -5000000000;
    unsigned char is = 1;
    float minus_zero = -0.0f, quad[4] = {1, -2, 0.5f, nan};
    unsigned color = 7;
    CUdeviceptr nothing = 0;
    void *mixed[] = {&memory, &many, &negative, &minus_zero, &distance, &is, &half, quad, &color, &nothing};

    launch_with(find_kernel(module, "plain"), plain);
    launch_with(find_kernel(module, "_Z5mixedPfjiflb6__half6float45ColorPKf"), mixed);
    launch_with(find_kernel(first, "which"), (void *[]){&one});
    launch_with(find_kernel(second, "which"), (void *[]){&one});
    // Handles of modules that are gone are used again.
    for (i = 0; i < 2; i++) {
        CHECK(cuModuleUnload(first));
        CHECK(cuModuleLoadData(&first, i ? first_text : second_text));
        launch_with(find_kernel(first, "which"), (void *[]){&one});
    }
    CHECK(cuLibraryGetKernel(&kernel, library, "plain"));
    launch_with(kernel, plain);
    CHECK(cuKernelGetFunction(&function, kernel));
    launch_with(function, plain);

    CUDA_KERNEL_NODE_PARAMS params = {.kern = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
        .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = plain};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&node, graph, 0, 0, &params));
    CHECK(cuCtxSynchronize());
    return 0;
}
