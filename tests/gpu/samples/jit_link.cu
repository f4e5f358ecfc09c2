// Two sources compiled to LTO code and linked while the program runs; the driver's own linker and JIT options
// nvcc: -lnvrtc -lnvJitLink DRIVER
#include "sample.h"
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>

static const char *kernel_source = R"(
extern __device__ float shape(float value);
extern "C" __global__ void apply(float *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = shape(values[i]);
}
)";
static const char *shape_source = "__device__ float factor = 3; __device__ float shape(float value) { return value * factor + 1; }";

static std::vector<char> compile(const char *source, bool lto)
{
    nvrtcProgram program;
    ZERO(nvrtcCreateProgram(&program, source, "part.cu", 0, nullptr, nullptr));
    const char *options[] = {lto ? "--gpu-architecture=compute_90" : "--gpu-architecture=compute_90", "--relocatable-device-code=true", "-dlto"};
    ZERO(nvrtcCompileProgram(program, lto ? 3 : 2, options));
    size_t size;
    ZERO(lto ? nvrtcGetLTOIRSize(program, &size) : nvrtcGetPTXSize(program, &size));
    std::vector<char> code(size);
    ZERO(lto ? nvrtcGetLTOIR(program, code.data()) : nvrtcGetPTX(program, code.data()));
    ZERO(nvrtcDestroyProgram(&program));
    return code;
}

static void run(CUmodule module, const char *what)
{
    const int n = 2000;
    CUfunction function;
    ZERO(cuModuleGetFunction(&function, module, "apply"));
    std::vector<float> values = numbers(n);
    float *device = upload(values);
    int count = n;
    void *arguments[] = {&device, &count};
    ZERO(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
    std::vector<float> results = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[i] * 3 + 1);
    print(what, results);
    ZERO(cuModuleUnload(module));
}

int main()
{
    CHECK(cudaFree(nullptr));
    CUmodule module;
    nvJitLinkHandle link;
    const char *options[] = {"-arch=sm_90", "-lto"};
    ZERO(nvJitLinkCreate(&link, 2, options));
    for (const char *source : {kernel_source, shape_source}) {
        std::vector<char> code = compile(source, true);
        ZERO(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, code.data(), code.size(), "part"));
    }
    ZERO(nvJitLinkComplete(link));
    size_t size;
    ZERO(nvJitLinkGetLinkedCubinSize(link, &size));
    std::vector<char> linked(size);
    ZERO(nvJitLinkGetLinkedCubin(link, linked.data()));
    ZERO(nvJitLinkDestroy(&link));
    ZERO(cuModuleLoadData(&module, linked.data()));
    run(module, "nvJitLink");

    CUlinkState state;
    float time = 0;
    char log[4096] = "";
    CUjit_option codes[] = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void *values[] = {&time, log, reinterpret_cast<void *>(sizeof log), reinterpret_cast<void *>(1)};
    ZERO(cuLinkCreate(4, codes, values, &state));
    for (const char *source : {kernel_source, shape_source}) {
        std::vector<char> text = compile(source, false);
        ZERO(cuLinkAddData(state, CU_JIT_INPUT_PTX, text.data(), text.size(), "part.ptx", 0, nullptr, nullptr));
    }
    void *image;
    ZERO(cuLinkComplete(state, &image, &size));
    ZERO(cuModuleLoadData(&module, image));
    ZERO(cuLinkDestroy(state));
    run(module, "driver");
    return 0;
}
