// nvcc: -lnvrtc
// Kernels that three threads compile at run time: templates found by their lowered names, loaded as libraries, PTX and machine code
// in turn; constants and tables looked up by name and filled by copies, tables of function pointers fetched, permuted and put into
// another variable; a library goes and its successor has the same names at other places (or the same ones).
#include <cuda_runtime.h>
#include <nvrtc.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define NV(x) do { nvrtcResult e_ = (x); if (e_ != NVRTC_SUCCESS) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    nvrtcGetErrorString(e_)); exit(2); } } while (0)

constexpr int N = 9000, THREADS = 3, GENERATIONS = 3, TABLE = 1024, OPS = 4;
typedef std::vector<uint32_t> Vec;
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

static const char *source = R"(
typedef unsigned u32;
__device__ inline u32 mix(u32 v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
namespace model {
    __constant__ u32 coefficients[64];
    __device__ u32 lut[4096];
    __device__ u32 *where;                                   // a pointer that a kernel or the host sets
    typedef u32 (*Op)(u32, u32);
    __device__ __noinline__ u32 op0(u32 a, u32 b) { return a * SALT + b; }
    __device__ __noinline__ u32 op1(u32 a, u32 b) { return (a ^ b) + SALT; }
    __device__ __noinline__ u32 op2(u32 a, u32 b) { return mix(a + b); }
    __device__ __noinline__ u32 op3(u32 a, u32 b) { return a - b * SALT; }
    __device__ Op ops[4] = { op0, op1, op2, op3 };
    __constant__ Op chosen[1024];
    __device__ Op made[1024];
    struct Args { u32 *data; u32 n, extra[9]; const u32 *also; };
    template <int K, typename T> struct Scale { static __device__ T of(T v) { return v * (2 * K + 1) + coefficients[K]; } };
}
template <int K, typename T> __global__ void stage(model::Args a) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n) a.data[i] = model::Scale<K, T>::of(a.data[i]) + model::lut[(i + K) % 4096] + a.also[i % 64] + a.extra[i % 9];
}
template <bool constant> __global__ void dispatch(u32 *p, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = (constant ? model::chosen : model::made)[i % 1024](p[i], i);
}
extern "C" __global__ void make_table(u32 seed) { u32 i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 1024) model::made[i] = model::ops[mix(seed + i) % 4]; }
extern "C" __global__ void set_where(u32 offset) { model::where = model::lut + offset; }
extern "C" __global__ void through(u32 *out, u32 n) { u32 i = threadIdx.x; if (i < n) out[i] = model::where[i]; }
extern "C" __global__ void block_sums(const u32 *p, u32 n, u32 *out) {
    extern __shared__ u32 part[];
    u32 s = 0; for (u32 i = threadIdx.x + blockIdx.x * 1000; i < n && i < (blockIdx.x + 1) * 1000; i += blockDim.x) s += p[i] * (i | 1);
    part[threadIdx.x] = s; __syncthreads();
    for (u32 d = blockDim.x / 2; d; d /= 2) { if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d]; __syncthreads(); }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
)";

static const char *const names[] = {"stage<0, unsigned>", "stage<5, unsigned>", "stage<(1 + 12), unsigned>", "dispatch<true>", "dispatch<false>",
    "&model::coefficients", "&model::lut", "&model::ops", "&model::chosen", "&model::made", "&model::where"};
constexpr int NAMES = sizeof names / sizeof *names, KERNELS = 5;
static const int stage_k[3] = {0, 5, 13};

struct Compiled { std::vector<char> image; std::string lowered[NAMES]; };
static Compiled compile(uint32_t salt, bool text) {
    nvrtcProgram program; Compiled c; size_t size;
    NV(nvrtcCreateProgram(&program, source, "model.cu", 0, nullptr, nullptr));
    for (const char *n : names) NV(nvrtcAddNameExpression(program, n));
    std::string define = "-DSALT=" + std::to_string(salt) + "u";
    const char *options[] = {text ? "-arch=compute_90" : "-arch=sm_90", "-std=c++17", define.c_str()};
    nvrtcResult result = nvrtcCompileProgram(program, 3, options);
    if (result != NVRTC_SUCCESS) { NV(nvrtcGetProgramLogSize(program, &size)); std::string log(size, 0); NV(nvrtcGetProgramLog(program, &log[0])); fprintf(stderr, "%s\n", log.c_str()); exit(2); }
    for (int i = 0; i < NAMES; i++) { const char *l; NV(nvrtcGetLoweredName(program, names[i], &l)); c.lowered[i] = l; }
    if (text) { NV(nvrtcGetPTXSize(program, &size)); c.image.resize(size); NV(nvrtcGetPTX(program, c.image.data())); }
    else { NV(nvrtcGetCUBINSize(program, &size)); c.image.resize(size); NV(nvrtcGetCUBIN(program, c.image.data())); }
    NV(nvrtcDestroyProgram(&program));
    return c;
}

struct Args { uint32_t *data; uint32_t n, extra[9]; const uint32_t *also; };
static std::atomic<int> wrong{0};
static uint64_t sums[THREADS];

static uint32_t op(int which, uint32_t salt, uint32_t a, uint32_t b) { return which == 0 ? a * salt + b : which == 1 ? (a ^ b) + salt : which == 2 ? mix(a + b) : a - b * salt; }
template <class... A> static void launch(cudaKernel_t k, dim3 grid, dim3 block, size_t shared, cudaStream_t s, A... a) {
    void *args[] = {&a...};
    CK(cudaLaunchKernel((const void *)k, grid, block, args, shared, s));
}

static void worker(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t s; uint32_t *data, *also, *out, *pinned; uint64_t sum = 14695981039346656037ull;
    CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaMalloc(&data, N * 4)); CK(cudaMalloc(&also, 256)); CK(cudaMalloc(&out, 4096));
    CK(cudaMallocHost(&pinned, 4096 * 4));
    Vec ref(N), ralso(64), lut(4096), coefficients(64), back(N);
    for (int i = 0; i < N; i++) ref[i] = mix(i + id * 77); for (int i = 0; i < 64; i++) ralso[i] = mix(i * id + 3);
    CK(cudaMemcpyAsync(data, ref.data(), N * 4, cudaMemcpyHostToDevice, s)); CK(cudaMemcpyAsync(also, ralso.data(), 256, cudaMemcpyHostToDevice, s));
    const dim3 grid((N + 127) / 128), block(128);
    for (int g = 0; g < GENERATIONS; g++) {
        const uint32_t salt = mix(g * 16 + id) | 1;
        Compiled c = compile(salt, (g + id) % 2);
        cudaLibrary_t lib; CK(cudaLibraryLoadData(&lib, c.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        memset(c.image.data(), 0, c.image.size()); c.image.clear(); c.image.shrink_to_fit();    // the library has its own copy
        unsigned count = 0; CK(cudaLibraryGetKernelCount(&count, lib)); std::vector<cudaKernel_t> all(count); CK(cudaLibraryEnumerateKernels(all.data(), count, lib));
        wrong += count != KERNELS + 4;
        cudaKernel_t kernels[KERNELS], make_table, set_where, through, block_sums; void *symbols[NAMES]; size_t sizes[NAMES];
        for (int i = 0; i < KERNELS; i++) CK(cudaLibraryGetKernel(&kernels[i], lib, c.lowered[i].c_str()));
        CK(cudaLibraryGetKernel(&make_table, lib, "make_table")); CK(cudaLibraryGetKernel(&set_where, lib, "set_where"));
        CK(cudaLibraryGetKernel(&through, lib, "through")); CK(cudaLibraryGetKernel(&block_sums, lib, "block_sums"));
        wrong += std::set<cudaKernel_t>(all.begin(), all.end()).count(make_table) != 1;
        cudaKernel_t none; wrong += cudaLibraryGetKernel(&none, lib, "no_such_kernel") == cudaSuccess; cudaGetLastError();
        for (int i = KERNELS; i < NAMES; i++) CK(cudaLibraryGetGlobal(&symbols[i], &sizes[i], lib, c.lowered[i].c_str()));
        uint32_t *d_coefficients = (uint32_t *)symbols[5], *d_lut = (uint32_t *)symbols[6]; void **d_ops = (void **)symbols[7], **d_chosen = (void **)symbols[8],
            **d_made = (void **)symbols[9], **d_where = (void **)symbols[10];
        wrong += sizes[5] != 256 || sizes[6] != 16384 || sizes[7] != 32 || sizes[8] != 8192 || sizes[9] != 8192 || sizes[10] != 8;

        // Two rounds with other constants and tables.
        for (uint32_t round = 0; round < 2; round++) {
            const uint32_t seed = g * 1000 + id * 100 + round;
            for (int i = 0; i < 4096; i++) pinned[i] = lut[i] = mix(seed + i); for (int i = 0; i < 64; i++) coefficients[i] = mix(seed * 3 + i);
            CK(cudaMemcpyAsync(d_lut, pinned, 16384, cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(d_coefficients + 0, coefficients.data(), 128, cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(d_coefficients + 32, coefficients.data() + 32, 128, cudaMemcpyHostToDevice, s));
            for (int k = 0; k < 3; k++) {
                Args args = {data, N, {}, also}; for (int i = 0; i < 9; i++) args.extra[i] = seed + i * k;
                launch(kernels[k], grid, block, 0, s, args);
                for (int i = 0; i < N; i++) ref[i] = ref[i] * (2 * stage_k[k] + 1) + coefficients[stage_k[k]] + lut[(i + stage_k[k]) % 4096] + ralso[i % 64] + args.extra[i % 9];
            }
            // The operations: a table made by a kernel, fetched, turned by the host and put into constant memory, half of it patched.
            void *ops[OPS]; std::vector<void *> table(TABLE); std::vector<int> which(TABLE);
            launch(make_table, dim3(TABLE / 256), dim3(256), 0, s, seed);
            launch(kernels[4], grid, block, 0, s, data, (uint32_t)N);
            for (int i = 0; i < N; i++) ref[i] = op(mix(seed + i % TABLE) % OPS, salt, ref[i], i);
            CK(cudaMemcpyAsync(ops, d_ops, sizeof ops, cudaMemcpyDeviceToHost, s)); CK(cudaMemcpyAsync(table.data(), d_made, TABLE * 8, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            for (int i = 0; i < TABLE; i++) { which[i] = mix(seed + i) % OPS; wrong += table[i] != ops[which[i]]; }
            std::vector<void *> turned(TABLE); std::vector<int> turned_which(TABLE);
            for (int i = 0; i < TABLE; i++) { int from = (i * 7 + round) % TABLE; turned[i] = table[from]; turned_which[i] = which[from]; }
            for (int i = 1; i < TABLE; i += 2) { turned_which[i] = (turned_which[i] + 1) % OPS; turned[i] = ops[turned_which[i]]; }
            CK(cudaMemcpyAsync(d_chosen, turned.data(), TABLE * 8, cudaMemcpyHostToDevice, s));
            launch(kernels[3], grid, block, 0, s, data, (uint32_t)N);
            for (int i = 0; i < N; i++) ref[i] = op(turned_which[i % TABLE], salt, ref[i], i);
            // A pointer into the library's own variable, set by its kernel, moved on by the host.
            uint32_t *at;
            launch(set_where, dim3(1), dim3(1), 0, s, 100 + round);
            CK(cudaMemcpyAsync(&at, d_where, 8, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            wrong += at != d_lut + 100 + round; at += 50;
            CK(cudaMemcpyAsync(d_where, &at, 8, cudaMemcpyHostToDevice, s));
            launch(through, dim3(1), dim3(64), 0, s, out, 64u);
            CK(cudaMemcpyAsync(back.data(), out, 256, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            for (int i = 0; i < 64; i++) wrong += back[i] != lut[150 + round + i];
            // The last kernel: much dynamic shared memory, for which it must be prepared.
            CK(cudaKernelSetAttributeForDevice(block_sums, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10, 0));
            launch(block_sums, dim3(9), dim3(256), 60 << 10, s, data, (uint32_t)N, out);
            CK(cudaMemcpyAsync(pinned, out, 36, cudaMemcpyDeviceToHost, s)); CK(cudaMemcpyAsync(back.data(), data, N * 4, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            for (int b = 0; b < 9; b++) { uint32_t t = 0; for (uint32_t i = b * 1000; i < (b + 1) * 1000u; i++) t += ref[i] * (i | 1); wrong += t != pinned[b]; sum = (sum ^ pinned[b]) * 1099511628211ull; }
            wrong += back != ref; for (uint32_t v : back) sum = (sum ^ v) * 1099511628211ull;
        }
        CK(cudaLibraryUnload(lib));
    }
    sums[id] = sum;
    CK(cudaFree(data)); CK(cudaFree(also)); CK(cudaFree(out)); CK(cudaFreeHost(pinned)); CK(cudaStreamDestroy(s));
}

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(worker, i);
    for (auto &t : threads) t.join();
    uint64_t total = 14695981039346656037ull;
    for (uint64_t s : sums) total = (total ^ s) * 1099511628211ull;
    printf("jitlibs: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
