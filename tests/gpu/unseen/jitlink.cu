// nvcc: DRIVER
// Code made at run time: PTX linked from several inputs, function pointer tables on the device, module globals that hold
// pointers, bad PTX whose log is read, libraries with lazily loaded kernels; NVRTC if it is there (the same results without).
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
// The operations, and a table of them.
static const char *ops_ptx = HEAD R"(
.visible .func (.param .b32 r) op_add(.param .b32 x, .param .b32 k) { .reg .b32 %a<4>; ld.param.u32 %a0, [x]; ld.param.u32 %a1, [k]; add.u32 %a2, %a0, %a1; st.param.b32 [r], %a2; ret; }
.visible .func (.param .b32 r) op_mul(.param .b32 x, .param .b32 k) { .reg .b32 %a<4>; ld.param.u32 %a0, [x]; ld.param.u32 %a1, [k]; mad.lo.u32 %a2, %a0, %a1, 17; st.param.b32 [r], %a2; ret; }
.visible .func (.param .b32 r) op_rot(.param .b32 x, .param .b32 k) { .reg .b32 %a<4>; ld.param.u32 %a0, [x]; ld.param.u32 %a1, [k]; shf.l.wrap.b32 %a2, %a0, %a0, %a1; st.param.b32 [r], %a2; ret; }
.visible .global .align 8 .u64 op_table[4] = { op_add, op_mul, op_rot, op_add };
.visible .const .align 4 .u32 op_key[4] = { 3, 5, 7, 11 };
)";
// The interpreter: a program of (operation, constant) for all elements, by indirect calls; its data by pointers in globals.
static const char *main_ptx = HEAD R"(
.extern .global .align 8 .u64 op_table[4];
.extern .const .align 4 .u32 op_key[4];
.visible .global .align 8 .u64 data_pointer = 0;
.visible .global .align 8 .u64 chain[2];
.visible .global .align 4 .u32 executed = 0;
.visible .entry interpret(.param .u64 program, .param .u32 length, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<16>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 bra done;
    ld.global.u64 %d0, [data_pointer]; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d0, %d1;
    ld.u32 %r5, [%d2];
    ld.param.u64 %d3, [program]; ld.param.u32 %r6, [length]; mov.u32 %r7, 0;
again:
    setp.ge.u32 %p1, %r7, %r6; @%p1 bra finish;
    mul.wide.u32 %d4, %r7, 4; add.u64 %d5, %d3, %d4; ld.global.u32 %r8, [%d5];
    and.b32 %r8, %r8, 3;
    mul.wide.u32 %d6, %r8, 8; mov.u64 %d7, op_table; add.u64 %d8, %d7, %d6; ld.global.u64 %d9, [%d8];
    mul.wide.u32 %d10, %r8, 4; mov.u64 %d11, op_key; add.u64 %d12, %d11, %d10; ld.const.u32 %r9, [%d12];
    {
    .param .b32 px; .param .b32 pk; .param .b32 pr;
    st.param.b32 [px], %r5; st.param.b32 [pk], %r9;
proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
    call (pr), %d9, (px, pk), proto;
    ld.param.b32 %r5, [pr];
    }
    add.u32 %r7, %r7, 1;
    bra again;
finish:
    st.u32 [%d2], %r5;
    atom.global.add.u32 %r10, [executed], 1;
done:
    ret;
}
.visible .entry follow(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [out]; ld.global.u64 %d1, [chain]; ld.u64 %d2, [%d1]; ld.u32 %r0, [%d2+8];
    ld.global.u64 %d3, [chain+8]; ld.u32 %r1, [%d3]; xor.b32 %r2, %r0, %r1; st.global.u32 [%d0], %r2;
    ret;
}
)";
static const char *library_ptx = HEAD R"(
.visible .global .align 4 .u32 seeds[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
.visible .entry spread(.param .u64 out, .param .u32 n) .maxntid 256, 1, 1
{
    .reg .pred %p0; .reg .b32 %r<12>; .reg .b64 %d<6>; .shared .align 4 .b32 buffer[256];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0; ld.param.u32 %r4, [n];
    and.b32 %r5, %r3, 7; mul.wide.u32 %d0, %r5, 4; mov.u64 %d1, seeds; add.u64 %d2, %d1, %d0; ld.global.u32 %r6, [%d2];
    mad.lo.u32 %r6, %r6, 2654435761, %r3;
    shl.b32 %r7, %r0, 2; mov.u32 %r8, buffer; add.u32 %r7, %r7, %r8; st.shared.u32 [%r7], %r6; bar.sync 0;
    sub.u32 %r9, %r2, %r0; sub.u32 %r9, %r9, 1; shl.b32 %r9, %r9, 2; add.u32 %r9, %r9, %r8; ld.shared.u32 %r10, [%r9];
    setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r3, 4; add.u64 %d3, %d3, %d4; st.global.u32 [%d3], %r10; ret;
}
.visible .entry never_loaded(.param .u64 out) { .reg .b64 %d<2>; ld.param.u64 %d0, [out]; st.global.u64 [%d0], 1; ret; }
.visible .entry squares(.param .u64 out, .param .u32 n)
{
    .reg .pred %p0; .reg .b32 %r<8>; .reg .b64 %d<4>;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0; ld.param.u32 %r4, [n];
    setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r5, [%d0]; mul.lo.u32 %r5, %r5, %r5; st.global.u32 [%d0], %r5; ret;
}
)";
static const char *fallback_ptx = HEAD R"(
.visible .entry collatz(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<4>;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0; ld.param.u32 %r4, [n];
    setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    add.u32 %r5, %r3, 1; mov.u32 %r6, 0;
loop: setp.le.u32 %p1, %r5, 1; @%p1 bra end;
    and.b32 %r7, %r5, 1; setp.eq.u32 %p2, %r7, 0; @%p2 shr.u32 %r5, %r5, 1; @!%p2 mad.lo.u32 %r5, %r5, 3, 1; add.u32 %r6, %r6, 1; bra loop;
end: ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r6; ret;
}
)";
static const char *collatz_source = "extern \"C\" __global__ void collatz(unsigned *out, unsigned n) { unsigned i = blockIdx.x * blockDim.x + threadIdx.x;"
    " if (i >= n) return; unsigned v = i + 1, steps = 0; while (v > 1) { v = v & 1 ? v * 3 + 1 : v / 2; steps++; } out[i] = steps; }";

static std::string nvrtc_ptx() {            // empty if there is no NVRTC
    void *lib = nullptr;
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) if ((lib = dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
    if (!lib) return "";
    typedef void *Program;
    auto create = (int (*)(Program *, const char *, const char *, int, const char *const *, const char *const *))dlsym(lib, "nvrtcCreateProgram");
    auto compile = (int (*)(Program, int, const char *const *))dlsym(lib, "nvrtcCompileProgram");
    auto size = (int (*)(Program, size_t *))dlsym(lib, "nvrtcGetPTXSize");
    auto get = (int (*)(Program, char *))dlsym(lib, "nvrtcGetPTX");
    auto destroy = (int (*)(Program *))dlsym(lib, "nvrtcDestroyProgram");
    if (!create || !compile || !size || !get || !destroy) return "";
    Program p; const char *options[] = {"--gpu-architecture=compute_90"}; size_t n = 0; std::string ptx;
    if (create(&p, collatz_source, "collatz.cu", 0, nullptr, nullptr)) return "";
    if (!compile(p, 1, options) && !size(p, &n)) { ptx.resize(n); if (get(p, &ptx[0])) ptx.clear(); }
    destroy(&p);
    return ptx;
}

__global__ void runtime_kernel(unsigned *p, unsigned n) { unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] ^= i * 7; }

int main() {
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    CU(cuInit(0));
    CUdevice device; CUcontext context; CUstream stream;
    CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxPushCurrent(context));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    int wrong = 0; uint64_t sum = 14695981039346656037ull;
    auto fold = [&](const std::vector<uint32_t> &v) { for (uint32_t x : v) sum = (sum ^ x) * 1099511628211ull; };
    const uint32_t n = 10000;
    CUdeviceptr data, program; std::vector<uint32_t> host(n), reference(n);
    CU(cuMemAlloc(&data, n * 4)); CU(cuMemAlloc(&program, 64 * 4));

    // Linked from two texts (and once more in the other order, for which another module with its own globals results).
    for (int turn = 0; turn < 2; turn++) {
        CUlinkState link; char info[4096] = "", error[4096] = ""; float wall = 0; void *cubin; size_t size;
        CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_LOG_VERBOSE, CU_JIT_WALL_TIME};
        void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)1, &wall};
        CU(cuLinkCreate(6, options, values, &link));
        CUjit_option one[] = {CU_JIT_MAX_REGISTERS}; void *limit[] = {(void *)40};
        const char *first = turn ? ops_ptx : main_ptx, *second = turn ? main_ptx : ops_ptx;
        CUresult r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)first, strlen(first) + 1, "first.ptx", turn, one, limit);
        if (r == CUDA_SUCCESS) r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)second, strlen(second) + 1, "second.ptx", 0, nullptr, nullptr);
        if (r == CUDA_SUCCESS) r = cuLinkComplete(link, &cubin, &size);
        if (r != CUDA_SUCCESS) { printf("link: %d %s\n", (int)r, error); return 1; }
        CUmodule module; CUfunction interpret, follow; CUdeviceptr pointer, executed, chain, key; size_t bytes;
        CU(cuModuleLoadData(&module, cubin));
        CU(cuLinkDestroy(link));                            // the cubin goes, the module stays
        CU(cuModuleGetFunction(&interpret, module, "interpret")); CU(cuModuleGetFunction(&follow, module, "follow"));
        CU(cuModuleGetGlobal(&pointer, &bytes, module, "data_pointer")); wrong += bytes != 8;
        CU(cuModuleGetGlobal(&executed, &bytes, module, "executed")); CU(cuModuleGetGlobal(&chain, &bytes, module, "chain")); wrong += bytes != 16;
        CU(cuModuleGetGlobal(&key, &bytes, module, "op_key")); wrong += bytes != 16;
        uint32_t keys[4] = {3, 5, 7, 11};
        if (turn) { keys[1] = 77; CU(cuMemcpyHtoD(key + 4, &keys[1], 4)); CU(cuCtxSynchronize()); }
        CU(cuMemcpyHtoDAsync(pointer, &data, sizeof data, stream));
        for (uint32_t i = 0; i < n; i++) reference[i] = host[i] = i * 12345 + turn;
        CU(cuMemcpyHtoDAsync(data, host.data(), n * 4, stream));
        uint32_t code[20]; for (int i = 0; i < 20; i++) code[i] = (i * 7 + i / 3 + turn) % 4;
        CU(cuMemcpyHtoDAsync(program, code, sizeof code, stream));
        uint32_t length = 20, count = n; void *args[] = {&program, &length, &count};
        CU(cuLaunchKernel(interpret, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, args, nullptr));
        struct { CUdeviceptr p; uint32_t length, n; } packed = {program, 7, n}; size_t packed_size = sizeof packed;     // and as one block of bytes
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size, CU_LAUNCH_PARAM_END};
        CU(cuLaunchKernel(interpret, (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
        for (uint32_t &v : reference)
            for (int pass = 0; pass < 2; pass++) for (int i = 0; i < (pass ? 7 : 20); i++) {
                uint32_t k = keys[code[i]];
                v = code[i] == 1 ? v * k + 17 : code[i] == 2 ? v << (k & 31) | v >> (32 - (k & 31)) : v + k;
            }
        uint32_t executed_host = 0;
        CU(cuMemcpyDtoHAsync(host.data(), data, n * 4, stream)); CU(cuMemcpyDtoHAsync(&executed_host, executed, 4, stream)); CU(cuStreamSynchronize(stream));
        wrong += host != reference; wrong += executed_host != 2 * n; fold(host);
        // A pointer to a pointer: chain[0] -> data_pointer's place + 0 -> data; chain[1] -> the counter.
        CUdeviceptr links[2] = {pointer, executed}; uint32_t out;
        CU(cuMemcpyHtoD(chain, links, sizeof links)); CU(cuCtxSynchronize());
        void *fargs[] = {&program};
        CU(cuLaunchKernel(follow, 1, 1, 1, 1, 1, 1, 0, stream, fargs, nullptr));
        CU(cuMemcpyDtoHAsync(&out, program, 4, stream)); CU(cuStreamSynchronize(stream));
        wrong += out != (host[2] ^ (2 * n));
        CU(cuModuleUnload(module));
    }

    // What cannot be loaded or linked, and says why.
    char log[4096]; CUmodule none = nullptr;
    auto refused = [&](const std::string &text) {
        memset(log, 0, sizeof log);
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_OPTIMIZATION_LEVEL};
        void *values[] = {(void *)(uintptr_t)(sizeof log - 1), log, (void *)(uintptr_t)1};
        return cuModuleLoadDataEx(&none, text.c_str(), 3, options, values);
    };
    CUresult bad = refused(std::string(HEAD) + ".visible .entry broken() { .reg .b32 %r<2>; add.u32 %r0, %r1, %undeclared; ret; }\n");
    wrong += bad != CUDA_ERROR_INVALID_PTX || !strstr(log, "undeclared");
    bad = refused(".version 99.9\n.target sm_90\n.address_size 64\n.visible .entry future() { ret; }\n");
    wrong += bad == CUDA_SUCCESS;
    { CUlinkState link; CU(cuLinkCreate(0, nullptr, nullptr, &link)); void *cubin; size_t size;
      CUresult r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)main_ptx, strlen(main_ptx) + 1, nullptr, 0, nullptr, nullptr);
      if (r == CUDA_SUCCESS) r = cuLinkComplete(link, &cubin, &size);       // op_table is missing, which driver 580 does not mind
      CU(cuLinkDestroy(link)); }

    // A library of the driver's new kind: kernels are handles, loaded when needed.
    CUlibrary library; CUkernel spread, squares, found; CUfunction function; CUdeviceptr seeds; size_t bytes; unsigned kernels = 0;
    CUjit_option jit[] = {CU_JIT_OPTIMIZATION_LEVEL}; void *level[] = {(void *)(uintptr_t)3};
    CUlibraryOption option[] = {CU_LIBRARY_BINARY_IS_PRESERVED}; void *yes[] = {(void *)(uintptr_t)1};
    CU(cuLibraryLoadData(&library, library_ptx, jit, level, 1, option, yes, 1));
    CU(cuLibraryGetKernelCount(&kernels, library)); wrong += kernels != 3;
    CU(cuLibraryGetKernel(&spread, library, "spread")); CU(cuLibraryGetKernel(&squares, library, "squares"));
    wrong += cuLibraryGetKernel(&found, library, "absent") != CUDA_ERROR_NOT_FOUND;
    CU(cuLibraryGetGlobal(&seeds, &bytes, library, "seeds")); wrong += bytes != 32;
    uint32_t changed = 1000; CU(cuMemcpyHtoD(seeds + 8, &changed, 4)); CU(cuCtxSynchronize());
    CU(cuKernelGetFunction(&function, squares));
    size_t offset, length; CU(cuKernelGetParamInfo(spread, 1, &offset, &length)); wrong += offset != 8 || length != 4;
    int most = 0; CU(cuKernelGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, spread, device)); wrong += most != 256;
    uint32_t count = n; void *args[] = {&data, &count};
    CU(cuLaunchKernel((CUfunction)spread, (n + 199) / 200, 1, 1, 200, 1, 1, 0, stream, args, nullptr));      // the handle itself
    CU(cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, args, nullptr));
    CU(cuMemcpyDtoHAsync(host.data(), data, n * 4, stream)); CU(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t block = i / 200, j = block * 200 + 199 - i % 200, seed = j % 8 == 2 ? 1000 : j % 8 + 1, v = seed * 2654435761u + j;
        wrong += host[i] != v * v;
    }
    fold(host);
    CU(cuLibraryUnload(library));

    // NVRTC's or ours: the same answer; then the runtime goes on with the driver's memory and stream.
    std::string text = nvrtc_ptx(); CUmodule module; CUfunction collatz;
    bool compiled = !text.empty() && cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr) == CUDA_SUCCESS;
    if (!compiled) CU(cuModuleLoadDataEx(&module, fallback_ptx, 0, nullptr, nullptr));
    CU(cuModuleGetFunction(&collatz, module, "collatz"));
    CU(cuLaunchKernel(collatz, (n + 95) / 96, 1, 1, 96, 1, 1, 0, stream, args, nullptr));
    runtime_kernel<<<(n + 127) / 128, 128, 0, (cudaStream_t)stream>>>((unsigned *)data, n);
    CK(cudaGetLastError());
    CK(cudaMemcpyAsync(host.data(), (void *)data, n * 4, cudaMemcpyDeviceToHost, (cudaStream_t)stream));
    CU(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < n; i++) { uint32_t v = i + 1, steps = 0; while (v > 1) { v = v & 1 ? v * 3 + 1 : v / 2; steps++; } wrong += host[i] != (steps ^ (i * 7)); }
    fold(host);
    CU(cuModuleUnload(module)); CU(cuMemFree(data)); CU(cuMemFree(program)); CU(cuStreamDestroy(stream));
    CUcontext popped; CU(cuCtxPopCurrent(&popped)); wrong += popped != context; CU(cuDevicePrimaryCtxRelease(device));
    printf("jitlink: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
