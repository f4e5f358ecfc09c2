// nvcc: -lnvrtc -lnvJitLink
// A query engine that fuses code at link time: kernel templates are compiled once to LTO code, each query's predicate and projection by themselves,
// and nvJitLink makes machine code of the three, which is loaded as a library. A small cache unloads the library used longest ago while queries go
// on in two threads; constants, counters and a managed total of each library are found by name; the planner picks kernels out of the list of all.
#include <cuda_runtime.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define ZERO(x) do { int e_ = (int)(x); if (e_) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, e_); exit(2); } } while (0)
typedef unsigned long long u64;

static const char *engine_source = R"(
typedef unsigned long long u64;
struct Row { unsigned a, b, c; };
extern "C" __constant__ unsigned literals[4];
__constant__ unsigned literals[4];
extern "C" __device__ unsigned launches;
__device__ unsigned launches = 100;
extern "C" __managed__ u64 total;
__managed__ u64 total;
extern "C" __device__ bool predicate(Row r, const unsigned *l);
extern "C" __device__ u64 projection(Row r, const unsigned *l);

// Each block takes ROWS rows for every thread; how many match is told for each block, and their sum is added up
template <class T, int ROWS> __global__ void survey(const Row *rows, int n, T *counts)
{
    __shared__ T matches; __shared__ u64 sum;
    if (threadIdx.x == 0) { matches = 0; sum = 0; }
    __syncthreads();
    for (int k = 0; k < ROWS; k++) {
        int i = (blockIdx.x * ROWS + k) * blockDim.x + threadIdx.x;
        if (i < n && predicate(rows[i], literals)) { atomicAdd(&matches, T(1)); atomicAdd(&sum, projection(rows[i], literals)); }
    }
    __syncthreads();
    if (threadIdx.x == 0) { counts[blockIdx.x] = matches; atomicAdd(&total, sum); if (blockIdx.x == 0) launches++; }
}
// Writes what matches, in order, from the place that the host has worked out for the block
template <class T, int ROWS> __global__ void emit(const Row *rows, int n, const T *starts, u64 *out)
{
    __shared__ unsigned warps[32]; __shared__ unsigned base;
    if (threadIdx.x == 0) base = starts[blockIdx.x];
    for (int k = 0; k < ROWS; k++) {
        int i = (blockIdx.x * ROWS + k) * blockDim.x + threadIdx.x;
        bool hit = i < n && predicate(rows[i], literals);
        unsigned votes = __ballot_sync(~0u, hit), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        if (lane == 0) warps[warp] = __popc(votes);
        __syncthreads();
        unsigned before = base, all = 0;
        for (unsigned w = 0; w < blockDim.x / 32; w++) { if (w < warp) before += warps[w]; all += warps[w]; }
        if (hit) out[before + __popc(votes & ((1u << lane) - 1))] = projection(rows[i], literals);
        __syncthreads();
        if (threadIdx.x == 0) base += all;
        __syncthreads();
    }
}
)";

struct Row { uint32_t a, b, c; };
struct Query { const char *predicate, *projection; std::function<bool(Row, const uint32_t *)> p; std::function<u64(Row, const uint32_t *)> q;
    int rows_each; };
#define QUERY(rows, P, Q) {#P, #Q, [](Row r, const uint32_t *l) -> bool { return P; }, [](Row r, const uint32_t *l) -> u64 { return Q; }, rows}
static const Query queries[] = {
    QUERY(4, r.a % 3 == l[0] % 3, (u64)r.b * l[1] + r.c), QUERY(1, (r.a ^ r.b) > l[2], r.a + (u64)(r.c >> 3)),
        QUERY(4, r.c < l[0] || r.b < l[1], (u64)r.a * r.a),
    QUERY(1, (r.a & l[3]) == 0, (r.b | (u64)r.c << 32)), QUERY(4, r.a > r.b && r.b > r.c, (u64)(r.a - r.c)), QUERY(1, false, (u64)1),
        QUERY(4, r.b % (l[3] | 1) < 9, (u64)(r.b / (l[3] | 1)) + l[2])};
constexpr int QUERIES = sizeof queries / sizeof *queries;

static std::vector<char> compile(const std::string &source, const char *name, std::vector<const char *> expressions, std::map<std::string,
    std::string> *lowered)
{
    nvrtcProgram program; ZERO(nvrtcCreateProgram(&program, source.c_str(), name, 0, nullptr, nullptr));
    for (auto e : expressions) ZERO(nvrtcAddNameExpression(program, e));
    const char *options[] = {"--gpu-architecture=compute_90", "--relocatable-device-code=true", "-dlto", "-std=c++17"};
    nvrtcResult r = nvrtcCompileProgram(program, 4, options);
    if (r) { size_t n; nvrtcGetProgramLogSize(program, &n); std::string log(n, 0); nvrtcGetProgramLog(program, &log[0]);
        fprintf(stderr, "%s\n", log.c_str()); exit(2); }
    if (lowered) for (auto e : expressions) { const char *l; ZERO(nvrtcGetLoweredName(program, e, &l)); (*lowered)[e] = l; }
    size_t size; ZERO(nvrtcGetLTOIRSize(program, &size)); std::vector<char> code(size); ZERO(nvrtcGetLTOIR(program, code.data()));
    ZERO(nvrtcDestroyProgram(&program));
    return code;
}

static std::vector<char> engine_code; static std::map<std::string, std::string> names;
// A query's library. Whoever uses it holds a share; the last one unloads it
struct Plan {
    cudaLibrary_t library; cudaKernel_t survey, emit; uint32_t *literals; uint32_t *launches; u64 *total; unsigned used = 0; std::mutex busy;
    explicit Plan(const Query &q)
    {
        std::string head = "typedef unsigned long long u64; struct Row { unsigned a, b, c; };\n";
        std::vector<char> p = compile(head + "extern \"C\" __device__ bool predicate(Row r, const unsigned *l) { return " + q.predicate + "; }",
            "predicate.cu", {}, nullptr);
        std::vector<char> f = compile(head + "extern \"C\" __device__ u64 projection(Row r, const unsigned *l) { return " + q.projection + "; }",
            "projection.cu", {}, nullptr);
        nvJitLinkHandle link; const char *options[] = {"-lto", "-arch=sm_90", "-O3"}; ZERO(nvJitLinkCreate(&link, 3, options));
        ZERO(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, engine_code.data(), engine_code.size(), "engine"));
        ZERO(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, p.data(), p.size(), "predicate"));
        ZERO(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, f.data(), f.size(), "projection"));
        ZERO(nvJitLinkComplete(link));
        size_t size; ZERO(nvJitLinkGetLinkedCubinSize(link, &size)); std::vector<char> cubin(size); ZERO(nvJitLinkGetLinkedCubin(link, cubin.data()));
        ZERO(nvJitLinkDestroy(&link));
        CK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        memset(cubin.data(), 0xEE, size);                   // a library loaded from memory keeps its own copy, unless told otherwise
        std::string rows = q.rows_each == 4 ? "4" : "1";
        CK(cudaLibraryGetKernel(&survey, library, names["survey<unsigned, " + rows + ">"].c_str()));
        unsigned count; CK(cudaLibraryGetKernelCount(&count, library)); std::vector<cudaKernel_t> all(count);
        CK(cudaLibraryEnumerateKernels(all.data(), count, library));
        emit = nullptr;
        for (cudaKernel_t k : all) { const char *name; CK(cudaFuncGetName(&name, (const void *)k));
            if (names["emit<unsigned, " + rows + ">"] == name) emit = k; }
        if (!emit || count != 4) { fprintf(stderr, "the library has %u kernels\n", count); exit(2); }
        size_t bytes; CK(cudaLibraryGetGlobal((void **)&literals, &bytes, library, "literals"));
        CK(cudaLibraryGetGlobal((void **)&launches, &bytes, library, "launches"));
        CK(cudaLibraryGetManaged((void **)&total, &bytes, library, "total"));
        CK(cudaKernelSetAttributeForDevice(survey, cudaFuncAttributePreferredSharedMemoryCarveout, 25, 0));
    }
    ~Plan() { CK(cudaLibraryUnload(library)); }
};
static std::mutex cache_lock; static std::list<std::pair<int, std::shared_ptr<Plan>>> cache;
static std::shared_ptr<Plan> plan_for(int q)
{
    std::lock_guard<std::mutex> hold(cache_lock);
    for (auto i = cache.begin(); i != cache.end(); ++i) if (i->first == q) { cache.splice(cache.begin(), cache, i); return cache.front().second; }
    if (cache.size() == 4) cache.pop_back();
    cache.emplace_front(q, std::make_shared<Plan>(queries[q])); return cache.front().second;
}

static int client(int id, u64 &checksum)
{
    int wrong = 0; const int n = 40000 + id * 3333; std::vector<Row> table(n); uint32_t seed = id + 1;
    for (Row &r : table) for (uint32_t *v : {&r.a, &r.b, &r.c}) { seed = seed * 1664525u + 1013904223u; *v = seed >> 7; }
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    Row *rows; uint32_t *counts, *host_counts; u64 *out; CK(cudaMalloc(&rows, n * sizeof(Row))); CK(cudaMalloc(&counts, 4096));
    CK(cudaMallocHost(&host_counts, 4096)); CK(cudaMalloc(&out, n * 8));
    CK(cudaMemcpyAsync(rows, table.data(), n * sizeof(Row), cudaMemcpyHostToDevice, s));
    for (int round = 0; round < 14; round++) {
        int q = (round * (id ? 3 : 2) + round / 7 + id) % QUERIES; std::shared_ptr<Plan> plan = plan_for(q);
        std::lock_guard<std::mutex> hold(plan->busy);       // its variables are for one query at a time
        uint32_t l[4] = {seed >> 8, seed >> 9 | 1, (seed >> 7) * 3, 1u << (round % 5) | 8}; seed = seed * 1664525u + 1013904223u;
        int each = 256 * queries[q].rows_each, blocks = (n + each - 1) / each, size = n;
        *plan->total = 0; uint32_t before, after;
        CK(cudaMemcpyAsync(&before, plan->launches, 4, cudaMemcpyDeviceToHost, s));
        CK(cudaMemcpyAsync(plan->literals, l, sizeof l, cudaMemcpyHostToDevice, s));
        void *args[] = {&rows, &size, &counts}; CK(cudaLaunchKernel((const void *)plan->survey, blocks, 256, args, 0, s));
        CK(cudaMemcpyAsync(host_counts, counts, blocks * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        u64 total = *plan->total, expected = 0; uint32_t found = 0; std::vector<u64> model;
        for (int b = 0; b < blocks; b++) { uint32_t c = host_counts[b]; host_counts[b] = found; found += c; }
        CK(cudaMemcpyAsync(counts, host_counts, blocks * 4, cudaMemcpyHostToDevice, s));
        void *more[] = {&rows, &size, &counts, &out}; cudaLaunchConfig_t config = {}; config.gridDim = blocks; config.blockDim = 256;
        config.stream = s;
        CK(cudaLaunchKernelExC(&config, (const void *)plan->emit, more));
        std::vector<u64> got(found); if (found) CK(cudaMemcpyAsync(got.data(), out, found * 8, cudaMemcpyDeviceToHost, s));
        CK(cudaMemcpyAsync(&after, plan->launches, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        for (const Row &r : table) if (queries[q].p(r, l)) { model.push_back(queries[q].q(r, l)); expected += model.back(); }
        if (got != model || total != expected || after != before + 1) { wrong++; printf("client %d, round %d, query %d: wrong\n", id, round, q); }
        plan->used++; checksum = (checksum ^ total) * 1099511628211ull; for (u64 v : got) checksum = (checksum ^ v) * 1099511628211ull;
    }
    CK(cudaStreamDestroy(s)); CK(cudaFree(rows)); CK(cudaFree(counts)); CK(cudaFreeHost(host_counts)); CK(cudaFree(out));
    return wrong;
}

int main()
{
    CK(cudaFree(nullptr));
    engine_code = compile(engine_source, "engine.cu", {"survey<unsigned, 1>", "survey<unsigned, 4>", "emit<unsigned, 1>", "emit<unsigned, 4>"},
        &names);
    u64 sums[2] = {1, 2}; int wrong[2]; std::thread threads[2];
    for (int t = 0; t < 2; t++) threads[t] = std::thread([&, t] { wrong[t] = client(t, sums[t]); });
    for (auto &t : threads) t.join();
    size_t left = cache.size(); cache.clear();
    printf("%zu plans were cached at the end\n", left);
    printf("lofuse: checksum %016llx wrong %d\n", sums[0] * 31 ^ sums[1], wrong[0] + wrong[1]);
    return wrong[0] + wrong[1] != 0;
}
