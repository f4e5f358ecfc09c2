// A host of plugins: the driver opened by hand, its functions by dlsym for one plugin, by cuGetProcAddress (legacy default
// stream) for another, by cuGetProcAddress (one default stream for each thread) for a third, all at work at the same time.
#include <cuda.h>
#include <dlfcn.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, (int)e_); exit(2); } } while (0)

// name in the table, exported name, name of the variant with one default stream for each thread (or the same)
#define FUNCTIONS(F) \
    F(cuInit, "cuInit", "cuInit") F(cuDriverGetVersion, "cuDriverGetVersion", "cuDriverGetVersion") F(cuDeviceGet, "cuDeviceGet", "cuDeviceGet") \
    F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain") \
    F(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease_v2") \
    F(cuCtxSetCurrent, "cuCtxSetCurrent", "cuCtxSetCurrent") F(cuCtxGetCurrent, "cuCtxGetCurrent", "cuCtxGetCurrent") F(cuCtxSynchronize, "cuCtxSynchronize", "cuCtxSynchronize") \
    F(cuModuleLoadData, "cuModuleLoadData", "cuModuleLoadData") F(cuModuleGetFunction, "cuModuleGetFunction", "cuModuleGetFunction") \
    F(cuModuleGetGlobal, "cuModuleGetGlobal_v2", "cuModuleGetGlobal_v2") F(cuModuleUnload, "cuModuleUnload", "cuModuleUnload") \
    F(cuMemAlloc, "cuMemAlloc_v2", "cuMemAlloc_v2") F(cuMemFree, "cuMemFree_v2", "cuMemFree_v2") \
    F(cuMemHostAlloc, "cuMemHostAlloc", "cuMemHostAlloc") F(cuMemFreeHost, "cuMemFreeHost", "cuMemFreeHost") \
    F(cuMemsetD32Async, "cuMemsetD32Async", "cuMemsetD32Async_ptsz") F(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz") \
    F(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz") F(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz") \
    F(cuMemcpyHtoD, "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds") F(cuMemcpyDtoH, "cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds") F(cuMemcpyAsync, "cuMemcpyAsync", "cuMemcpyAsync_ptsz") \
    F(cuLaunchKernel, "cuLaunchKernel", "cuLaunchKernel_ptsz") F(cuStreamSynchronize, "cuStreamSynchronize", "cuStreamSynchronize_ptsz") \
    F(cuEventCreate, "cuEventCreate", "cuEventCreate") F(cuEventRecord, "cuEventRecord", "cuEventRecord_ptsz") F(cuEventSynchronize, "cuEventSynchronize", "cuEventSynchronize") \
    F(cuEventDestroy, "cuEventDestroy_v2", "cuEventDestroy_v2") F(cuStreamWaitEvent, "cuStreamWaitEvent", "cuStreamWaitEvent_ptsz") \
    F(cuStreamCreate, "cuStreamCreate", "cuStreamCreate") F(cuStreamDestroy, "cuStreamDestroy_v2", "cuStreamDestroy_v2") \
    F(cuLaunchHostFunc, "cuLaunchHostFunc", "cuLaunchHostFunc_ptsz")

struct Api {
#define FIELD(f, exported, per_thread) decltype(&::f) f##_; static constexpr const char *name_##f = #f;
    FUNCTIONS(FIELD)
};
static std::atomic<int> wrong{0};
typedef CUresult (*GetProc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

// "cuMemAlloc_v2" and the like: what cuGetProcAddress wants is the name without the version.
static std::string plain(const char *exported) { std::string s = exported; size_t at = s.rfind("_v2"); return at == std::string::npos ? s : s.substr(0, at); }
static Api by_dlsym(void *lib, bool per_thread) {
    Api a = {};
#define BY_DLSYM(f, exported, ptsz) a.f##_ = (decltype(a.f##_))dlsym(lib, per_thread ? ptsz : exported); if (!a.f##_) { fprintf(stderr, "no %s\n", exported); exit(2); }
    FUNCTIONS(BY_DLSYM)
    return a;
}
static Api by_address(GetProc get, cuuint64_t flags) {
    Api a = {};
    CUdriverProcAddressQueryResult found; void *p;
#define BY_ADDRESS(f, exported, ptsz) p = nullptr; CU(get(plain(exported).c_str(), &p, 12000, flags, &found)); a.f##_ = (decltype(a.f##_))p; \
    if (!p || found != CU_GET_PROC_ADDRESS_SUCCESS) { fprintf(stderr, "no %s: %d\n", exported, (int)found); exit(2); }
    FUNCTIONS(BY_ADDRESS)
    return a;
}

static const char *ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 salt[8];
.visible .entry stir(.param .u64 p, .param .u32 n, .param .u32 k, .param .u32 which)
{
    .reg .pred %p0; .reg .b32 %r<12>; .reg .b64 %d<6>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    ld.param.u32 %r5, [k]; ld.param.u32 %r6, [which];
    mov.u64 %d0, salt; mul.wide.u32 %d1, %r6, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r7, [%d0];
    ld.param.u64 %d2, [p]; mul.wide.u32 %d3, %r3, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r8, [%d2];
    mad.lo.u32 %r8, %r8, 1664525, %r5; add.u32 %r8, %r8, %r7; shr.u32 %r9, %r8, 13; xor.b32 %r8, %r8, %r9;
    st.global.u32 [%d2], %r8; ret;
}
)";
static uint32_t stir(uint32_t v, uint32_t k, uint32_t salt) { v = v * 1664525u + k + salt; return v ^ (v >> 13); }

constexpr uint32_t N = 20000, ROUNDS = 12;
struct Plugin { const char *name; const Api *api; };
struct Note { uint32_t *to; uint32_t value; };
static void CUDA_CB note(void *data) { Note *n = (Note *)data; *n->to = n->value; delete n; }

// A plugin's worker uses the stream 0 of its table, whatever that means, and a stream of its own in odd rounds.
static uint64_t work(const Plugin &plugin, int id, CUcontext context, CUfunction function, const uint32_t *salts) {
    const Api &a = *plugin.api;
    CU(a.cuCtxSetCurrent_(context));
    CUcontext now; CU(a.cuCtxGetCurrent_(&now)); wrong += now != context;
    CUdeviceptr d, e; uint32_t *pinned; CUstream own; CUevent event;
    CU(a.cuMemAlloc_(&d, N * 4)); CU(a.cuMemAlloc_(&e, N * 4)); CU(a.cuMemHostAlloc_((void **)&pinned, (N + 16) * 4, CU_MEMHOSTALLOC_PORTABLE));
    CU(a.cuStreamCreate_(&own, CU_STREAM_NON_BLOCKING)); CU(a.cuEventCreate_(&event, CU_EVENT_DISABLE_TIMING));
    std::vector<uint32_t> ref(N), pageable(N);
    for (uint32_t i = 0; i < N; i++) ref[i] = pinned[i] = i * (id + 3);
    uint64_t hash = 14695981039346656037ull;
    CU(a.cuMemsetD32Async_(e, 0x01010101u * id, N, nullptr));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUstream s = round & 1 ? own : nullptr;
        uint32_t n = N, k = round * 17 + id, which = id & 7, half = N / 2;
        CUdeviceptr middle = d + half * 4; uint32_t rest = N - half;
        void *first[] = {&d, &half, &k, &which}, *second[] = {&middle, &rest, &k, &which}, *all[] = {&e, &n, &k, &which};
        CU(a.cuMemcpyHtoDAsync_(d, pinned, N * 4, s));
        CU(a.cuLaunchKernel_(function, (half + 127) / 128, 1, 1, 128, 1, 1, 0, s, first, nullptr));
        CU(a.cuLaunchKernel_(function, (rest + 255) / 256, 1, 1, 256, 1, 1, 0, s, second, nullptr));
        CU(a.cuLaunchKernel_(function, (n + 63) / 64, 1, 1, 64, 1, 1, 0, s, all, nullptr));
        for (auto &v : ref) v = stir(v, k, salts[which]);
        if (round == 5) { CU(a.cuMemcpyDtoDAsync_(e + 400, d + 800, 4000, s)); }
        CU(a.cuMemcpyDtoHAsync_(pinned, d, N * 4, s));
        CU(a.cuLaunchHostFunc_(s, note, new Note{pinned + N + 1, round + 1000}));
        CU(a.cuEventRecord_(event, s));
        CU(a.cuStreamWaitEvent_(s ? nullptr : own, event, 0));          // the next round is in the other stream
        if (round % 3 == 2) {
            CU(a.cuEventSynchronize_(event));
            wrong += memcmp(pinned, ref.data(), N * 4) != 0; wrong += pinned[N + 1] != round + 1000;
            for (uint32_t i = 0; i < N; i += 97) pinned[i] = ref[i] = ref[i] + round;
        }
    }
    CU(a.cuStreamSynchronize_(nullptr)); CU(a.cuStreamSynchronize_(own));
    CU(a.cuMemcpyDtoH_(pageable.data(), e, N * 4));
    for (uint32_t i = 0; i < N; i++) hash = (hash ^ pinned[i] ^ (uint64_t)pageable[i] << 20) * 1099511628211ull;
    std::vector<uint32_t> other(N, 0x01010101u * id), main_one(N);
    for (uint32_t i = 0; i < N; i++) main_one[i] = i * (id + 3);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t k = round * 17 + id;
        for (uint32_t i = 0; i < N; i++) { other[i] = stir(other[i], k, salts[id & 7]); main_one[i] = stir(main_one[i], k, salts[id & 7]); }
        if (round == 5) for (int i = 0; i < 1000; i++) other[100 + i] = main_one[200 + i];
        if (round % 3 == 2) for (uint32_t i = 0; i < N; i += 97) main_one[i] += round;
    }
    wrong += other != pageable; wrong += memcmp(main_one.data(), pinned, N * 4) != 0;
    CU(a.cuMemFree_(d)); CU(a.cuMemFree_(e)); CU(a.cuMemFreeHost_(pinned)); CU(a.cuStreamDestroy_(own)); CU(a.cuEventDestroy_(event));
    return hash;
}

int main() {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    GetProc get = (GetProc)dlsym(lib, "cuGetProcAddress_v2");
    if (!get) { fprintf(stderr, "no cuGetProcAddress_v2\n"); return 2; }
    Api direct = by_dlsym(lib, false), direct_threads = by_dlsym(lib, true);
    CU(direct.cuInit_(0));
    Api legacy = by_address(get, CU_GET_PROC_ADDRESS_LEGACY_STREAM), threads = by_address(get, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    // What is not there, and what is too new for the version asked for.
    void *p = nullptr; CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    get("cuNoSuchFunction", &p, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found); wrong += p != nullptr || found == CU_GET_PROC_ADDRESS_SUCCESS;
    p = nullptr; found = CU_GET_PROC_ADDRESS_SUCCESS;
    get("cuLibraryLoadData", &p, 10000, CU_GET_PROC_ADDRESS_DEFAULT, &found); wrong += p != nullptr || found != CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    // The function that gets functions, got by itself.
    CU(get("cuGetProcAddress", &p, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    GetProc again = (GetProc)p; p = nullptr; CU(again("cuMemGetInfo", &p, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found)); wrong += !p;
    int version = 0; CU(threads.cuDriverGetVersion_(&version)); wrong += version < 12000;
    CUdevice device; CUcontext context; CUmodule module; CUfunction function; CUdeviceptr salt; size_t bytes;
    CU(direct.cuDeviceGet_(&device, 0)); CU(direct.cuDevicePrimaryCtxRetain_(&context, device)); CU(direct.cuCtxSetCurrent_(context));
    CU(legacy.cuModuleLoadData_(&module, ptx)); CU(direct.cuModuleGetFunction_(&function, module, "stir"));
    CU(threads.cuModuleGetGlobal_(&salt, &bytes, module, "salt")); wrong += bytes != 32;
    uint32_t salts[8]; for (int i = 0; i < 8; i++) salts[i] = i * 0x1234567u + 1;
    CU(legacy.cuMemcpyHtoD_(salt, salts, 16)); CU(threads.cuMemcpyHtoD_(salt + 16, salts + 4, 16)); CU(direct.cuCtxSynchronize_());

    Plugin plugins[] = {{"direct", &direct}, {"legacy", &legacy}, {"threads", &threads}, {"direct threads", &direct_threads}};
    uint64_t sums[8], total = 0;
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; i++) workers.emplace_back([&, i] { sums[i] = work(plugins[i % 4], i, context, function, salts); });
    for (auto &t : workers) t.join();
    for (uint64_t s : sums) total = total * 31 + s;
    CU(direct.cuModuleUnload_(module)); CU(threads.cuDevicePrimaryCtxRelease_(device));
    printf("drvplugin: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
