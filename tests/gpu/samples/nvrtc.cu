// A kernel compiled while the program runs, to PTX and to machine code, loaded as library and as module
// nvcc: -lnvrtc DRIVER
#include "sample.h"
#include <cuda.h>
#include <nvrtc.h>
#include <string>

static const char *source = R"(
__constant__ int offset;
__device__ int launches;
template <typename T> __global__ void combine(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        launches++;
    if (i < n)
        out[i] = a[i] * FACTOR + b[i] + T(offset);
}
)";

int main()
{
    const int n = 3000;
    std::vector<float> a = numbers(n), b = numbers(n, 77);
    float *device_a = upload(a), *device_b = upload(b), *out = allocate<float>(n);
    for (bool machine : {false, true}) {
        nvrtcProgram program;
        ZERO(nvrtcCreateProgram(&program, source, "combine.cu", 0, nullptr, nullptr));
        ZERO(nvrtcAddNameExpression(program, "combine<float>"));
        const char *options[] = {machine ? "--gpu-architecture=sm_90" : "--gpu-architecture=compute_90", "-DFACTOR=4", "-lineinfo", "--std=c++17"};
        ZERO(nvrtcCompileProgram(program, 4, options));
        const char *lowered;
        ZERO(nvrtcGetLoweredName(program, "combine<float>", &lowered));
        size_t size;
        ZERO(machine ? nvrtcGetCUBINSize(program, &size) : nvrtcGetPTXSize(program, &size));
        std::vector<char> image(size);
        ZERO(machine ? nvrtcGetCUBIN(program, image.data()) : nvrtcGetPTX(program, image.data()));
        CUmodule module;
        CUfunction function;
        char log[2000] = "";
        CUjit_option codes[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
        void *values[] = {log, reinterpret_cast<void *>(sizeof log), reinterpret_cast<void *>(40)};
        ZERO(cuModuleLoadDataEx(&module, image.data(), 3, codes, values));
        ZERO(cuModuleGetFunction(&function, module, lowered));
        CUdeviceptr offset, launches;
        size_t length;
        int shift = machine ? 100 : 7, count = n, launched;
        ZERO(cuModuleGetGlobal(&offset, &length, module, "offset"));
        ZERO(cuModuleGetGlobal(&launches, nullptr, module, "launches"));
        ZERO(cuMemcpyHtoD(offset, &shift, sizeof shift));
        void *arguments[] = {&device_a, &device_b, &out, &count};
        for (int turn = 0; turn < 2; turn++)
            ZERO(cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
        std::vector<float> results = download(out, n);
        for (int i = 0; i < n; i++)
            REQUIRE(results[i] == a[i] * 4 + b[i] + shift);
        ZERO(cuMemcpyDtoH(&launched, launches, sizeof launched));
        REQUIRE(launched == 2);
        print(machine ? "machine code" : "PTX", results);
        ZERO(cuModuleUnload(module));

        cudaLibrary_t library;
        cudaKernel_t kernel;
        CHECK(cudaLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        CHECK(cudaLibraryGetKernel(&kernel, library, lowered));
        void *global;
        CHECK(cudaLibraryGetGlobal(&global, &length, library, "offset"));
        CHECK(cudaMemset(global, 0, length));
        CHECK(cudaLaunchKernel(reinterpret_cast<void *>(kernel), dim3((n + 127) / 128), dim3(128), arguments, 0, nullptr));
        print("library", download(out, n));
        CHECK(cudaLibraryUnload(library));
        ZERO(nvrtcDestroyProgram(&program));
    }
    return 0;
}
