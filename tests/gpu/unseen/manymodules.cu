// nvcc: DRIVER
// Modules and libraries loaded, used and unloaded in a loop by several threads: text made anew each time, module globals set
// from the CPU, structs by value, forty parameters, almost 4 KB of parameters, and parameters packed into one buffer.
#include <cuda.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

static std::atomic<int> wrong{0};
constexpr uint32_t N = 5000, MANY = 40, BIG = 1000;       // BIG: words of the struct in the large parameter list
struct Shape { CUdeviceptr in; uint32_t n; uint16_t scale; uint8_t shift, pad; double weight; float bias[3]; uint32_t last; };
static_assert(sizeof(Shape) == 40, "as in the text below");
struct Large { uint32_t words[BIG]; };

// The text of module number k: a constant of its own is in it, so that no two are the same.
static std::string text(uint32_t k) {
    std::string s = ".version 7.0\n.target sm_70\n.address_size 64\n";
    s += ".visible .global .align 8 .u64 target;\n.visible .global .align 4 .u32 table[4] = { 1, 2, 3, " + std::to_string(k) + " };\n";
    s += ".visible .const .align 4 .u32 factor = " + std::to_string(k + 1) + ";\n";
    const std::string index = "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2; ";
    // shaped(Shape): target[i] = in[i] * scale + (uint)weight + (uint)bias[2] + table[i & 3] >> shift ^ last
    s += ".visible .entry shaped(.param .align 8 .b8 shape[40])\n{\n.reg .pred %p0; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %d<10>; .reg .f64 %f<2>; .reg .f32 %g<2>;\n" + index +
        "ld.param.u32 %r4, [shape+8]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;\n"
        "ld.param.u64 %d0, [shape]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r5, [%d0];\n"
        "ld.param.u16 %h0, [shape+12]; cvt.u32.u16 %r6, %h0; ld.param.u8 %h1, [shape+14]; cvt.u32.u16 %r7, %h1;\n"
        "ld.param.f64 %f0, [shape+16]; cvt.rzi.u32.f64 %r8, %f0; ld.param.f32 %g0, [shape+32]; cvt.rzi.u32.f32 %r9, %g0; ld.param.u32 %r10, [shape+36];\n"
        "and.b32 %r11, %r3, 3; mov.u64 %d2, table; mul.wide.u32 %d3, %r11, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r12, [%d2];\n"
        "mad.lo.u32 %r13, %r5, %r6, %r8; add.u32 %r13, %r13, %r9; add.u32 %r13, %r13, %r12; shr.u32 %r13, %r13, %r7; xor.b32 %r13, %r13, %r10;\n"
        "ld.global.u64 %d4, [target]; add.u64 %d4, %d4, %d1; st.global.u32 [%d4], %r13; ret;\n}\n";
    // many(p, a0 ... a39): p[i] = p[i] * factor + sum of a_j * (j + 1), for i < a39
    s += ".visible .entry many(.param .u64 p";
    for (uint32_t j = 0; j < MANY; j++) s += ", .param .u32 a" + std::to_string(j);
    s += ")\n{\n.reg .pred %p0; .reg .b32 %r<10>; .reg .b64 %d<3>;\n" + index + "ld.param.u32 %r4, [a39]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;\nmov.u32 %r5, 0;\n";
    for (uint32_t j = 0; j < MANY; j++) s += "ld.param.u32 %r6, [a" + std::to_string(j) + "]; mad.lo.u32 %r5, %r6, " + std::to_string(j + 1) + ", %r5;\n";
    s += "ld.const.u32 %r7, [factor]; ld.param.u64 %d0, [p]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r8, [%d0]; mad.lo.u32 %r8, %r8, %r7, %r5; st.global.u32 [%d0], %r8; ret;\n}\n";
    // large(p, Large, n, q): p[i] += words[i % BIG] ^ q[i]; 8 + 4000 + 4 + 4 (a hole) + 8 = 4024 bytes
    s += ".visible .entry large(.param .u64 p, .param .align 4 .b8 big[4000], .param .u32 n, .param .u64 q)\n{\n.reg .pred %p0; .reg .b32 %r<10>; .reg .b64 %d<8>;\n" + index +
        "ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;\nrem.u32 %r5, %r3, 1000; mul.wide.u32 %d0, %r5, 4; mov.b64 %d1, big; add.u64 %d1, %d1, %d0; ld.param.u32 %r6, [%d1];\n"
        "ld.param.u64 %d2, [q]; mul.wide.u32 %d3, %r3, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r7, [%d2]; xor.b32 %r6, %r6, %r7;\n"
        "ld.param.u64 %d4, [p]; add.u64 %d4, %d4, %d3; ld.global.u32 %r8, [%d4]; add.u32 %r8, %r8, %r6; st.global.u32 [%d4], %r8; ret;\n}\n";
    return s;
}

static uint64_t loader(int id, CUcontext context) {
    CU(cuCtxSetCurrent(context));
    CUstream s; CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUdeviceptr in, out; CU(cuMemAlloc(&in, N * 4)); CU(cuMemAlloc(&out, N * 4));
    std::vector<uint32_t> input(N), ref(N), back(N);
    for (uint32_t i = 0; i < N; i++) input[i] = i * 2654435761u + id;
    CU(cuMemcpyHtoDAsync(in, input.data(), N * 4, s));
    uint64_t hash = 14695981039346656037ull;
    for (int round = 0; round < 8; round++) {
        uint32_t k = id * 1000 + round;
        std::string ptx = text(k);
        CUmodule module = nullptr; CUlibrary library = nullptr; CUfunction shaped, many, large; CUdeviceptr target, table; size_t bytes;
        int way = (round + id) % 3;
        if (way == 0) CU(cuModuleLoadData(&module, ptx.c_str()));
        if (way == 1) {
            char info[2000] = "", error[2000] = "";
            CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_GENERATE_LINE_INFO};
            void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)(uintptr_t)(round % 5), (void *)1};
            CU(cuModuleLoadDataEx(&module, ptx.c_str(), 6, options, values));
        }
        if (way == 2) {
            CUkernel kernel, kernels[3]; CUlibrary of; unsigned count = 0;
            CU(cuLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
            std::fill(ptx.begin(), ptx.end(), '#');             // the text is the library's no longer
            CU(cuLibraryGetKernelCount(&count, library)); wrong += count != 3;
            CU(cuLibraryEnumerateKernels(kernels, 3, library));
            CU(cuLibraryGetKernel(&kernel, library, "shaped")); CU(cuKernelGetFunction(&shaped, kernel));
            int at = -1; for (int i = 0; i < 3; i++) if (kernels[i] == kernel) at = i; wrong += at < 0;
            const char *name = ""; CU(cuKernelGetName(&name, kernel)); wrong += strcmp(name, "shaped") != 0;
            CU(cuLibraryGetKernel(&kernel, library, "many")); CU(cuKernelGetFunction(&many, kernel));
            CU(cuKernelGetLibrary(&of, kernel)); wrong += of != library;
            CU(cuLibraryGetKernel(&kernel, library, "large")); large = (CUfunction)kernel;      // a kernel may stand for its function
            CUmodule inside; CU(cuLibraryGetModule(&inside, library));
            CU(cuModuleGetGlobal(&target, &bytes, inside, "target"));
            CU(cuLibraryGetGlobal(&table, &bytes, library, "table")); wrong += bytes != 16;
        } else {
            CU(cuModuleGetFunction(&shaped, module, "shaped")); CU(cuModuleGetFunction(&many, module, "many")); CU(cuModuleGetFunction(&large, module, "large"));
            CUfunction absent; wrong += cuModuleGetFunction(&absent, module, "absent") != CUDA_ERROR_NOT_FOUND;
            CU(cuModuleGetGlobal(&target, &bytes, module, "target")); wrong += bytes != 8; CU(cuModuleGetGlobal(&table, &bytes, module, "table")); wrong += bytes != 16;
            CUmodule of; CU(cuFuncGetModule(&of, many)); wrong += of != module;
            unsigned count = 0; CU(cuModuleGetFunctionCount(&count, module)); wrong += count != 3;
        }
        // Globals: the pointer always, and one word of the table in even rounds; in the stream, thus before the kernel.
        uint32_t entry[4] = {1, 2, 3, k}, changed = k * 7 + 5;
        CU(cuMemcpyHtoDAsync(target, &out, sizeof out, s));
        if (round % 2 == 0) { entry[1] = changed; CU(cuMemcpyHtoDAsync(table + 4, &changed, 4, s)); }
        Shape shape = {in, N, (uint16_t)(3 + round), (uint8_t)(round % 4), 0xff, 1000.75 + k, {1, 2, 33.5f}, 0xabcd0000u + k};
        void *args[] = {&shape};
        CU(cuLaunchKernel(shaped, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, nullptr));
        memset(&shape, 0xcc, sizeof shape);                     // the launch has taken what it needs
        for (uint32_t i = 0; i < N; i++)
            ref[i] = ((input[i] * (3 + round) + (1000 + k) + 33 + entry[i & 3]) >> (round % 4)) ^ (0xabcd0000u + k);
        // Forty parameters: as pointers, then as one packed buffer that is changed right after the launch.
        uint32_t a[MANY], total = 0;
        for (uint32_t j = 0; j < MANY; j++) { a[j] = j == 39 ? N : j * j + k; total += a[j] * (j + 1); }
        void *list[MANY + 1]; list[0] = &out; for (uint32_t j = 0; j < MANY; j++) list[j + 1] = &a[j];
        CU(cuLaunchKernel(many, (N + 63) / 64, 1, 1, 64, 1, 1, 0, s, list, nullptr));
        for (uint32_t &v : ref) v = v * (k + 1) + total;
        struct { CUdeviceptr p; uint32_t a[MANY]; } packed; packed.p = out; memcpy(packed.a, a, sizeof a); packed.a[7] += 9;
        size_t packed_size = sizeof packed;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size, CU_LAUNCH_PARAM_END};
        CU(cuLaunchKernel(many, (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, nullptr, extra));
        memset(&packed, 0, sizeof packed);
        for (uint32_t &v : ref) v = v * (k + 1) + total + 9 * 8;
        // Almost 4 KB, in both ways.
        std::vector<Large> big(1); for (uint32_t j = 0; j < BIG; j++) big[0].words[j] = j * k + 1;
        uint32_t n = N, less = N - 100; void *large_args[] = {&out, &big[0], &n, &in};
        CU(cuLaunchKernel(large, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, large_args, nullptr));
        for (uint32_t i = 0; i < N; i++) ref[i] += big[0].words[i % BIG] ^ input[i];
        std::vector<char> buffer(4024); size_t buffer_size = buffer.size();
        for (uint32_t j = 0; j < BIG; j++) big[0].words[j] ^= 0x55;
        memcpy(&buffer[0], &out, 8); memcpy(&buffer[8], &big[0], 4000); memcpy(&buffer[4008], &less, 4); memcpy(&buffer[4016], &in, 8);
        void *large_extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &buffer_size, CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_END};
        CU(cuLaunchKernel(large, (less + 127) / 128, 1, 1, 128, 1, 1, 0, s, nullptr, large_extra));
        for (uint32_t i = 0; i < less; i++) ref[i] += big[0].words[i % BIG] ^ input[i];
        CU(cuMemcpyDtoHAsync(back.data(), out, N * 4, s));
        CU(cuStreamSynchronize(s));
        if (back != ref) { wrong++; fprintf(stderr, "thread %d round %d\n", id, round); }
        for (uint32_t v : back) hash = (hash ^ v) * 1099511628211ull;
        if (library) CU(cuLibraryUnload(library)); else CU(cuModuleUnload(module));
    }
    CU(cuMemFree(in)); CU(cuMemFree(out)); CU(cuStreamDestroy(s));
    return hash;
}

int main() {
    CU(cuInit(0));
    CUdevice device; CUcontext context;
    CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    uint64_t sums[4], total = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back([&, i] { sums[i] = loader(i, context); });
    for (auto &t : threads) t.join();
    for (uint64_t s : sums) total = total * 31 + s;
    CU(cuDevicePrimaryCtxRelease(device));
    printf("manymodules: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
