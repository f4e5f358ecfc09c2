// nvcc: -Xcompiler -pthread
// An analysis of a web-like graph that lies in managed memory (read mostly, prefetched), by four threads at once with libcu++: levels by a WHILE node
// whose source is set anew for each launch, components with a mapped flag that is polled round by round, shortest paths in one cooperative kernel,
// ranks in fixed point by a chain of programmatic dependent launches, triangles by pipelines of asynchronous copies; then all pairs of the hubs.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/pipeline>
#include <cuda/std/array>
#include <cuda/std/mdspan>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <numeric>
#include <queue>
#include <vector>
namespace cg = cooperative_groups;

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int V = 1 << 14, WORDS = V / 32, HUBS = 80, PIECE = 256; constexpr uint32_t FAR = 1u << 30;
struct Web { const int *rows, *to; };                       // each edge in both directions, neighbours in order
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline uint32_t weight(int u, int v) { return 1 + mix((uint32_t)(u * 31 ^ v * 31)) % 100; }
#define EACH(v) int v = blockIdx.x * blockDim.x + threadIdx.x; v < V; v += gridDim.x * blockDim.x

struct Search { int *levels; uint32_t *now, *next; int *state; };         // state: the level, how many were found, the sum of all, rounds
__global__ void search_begin(Search s, int source)
{
    for (EACH(v)) { s.levels[v] = v == source ? 0 : -1; if (v < WORDS) { s.now[v] = v == source / 32 ? 1u << source % 32 : 0; s.next[v] = 0; } }
    if (blockIdx.x == 0 && threadIdx.x < 4) s.state[threadIdx.x] = 0;
}
__global__ void search_step(Search s, Web w)                // who has not been reached looks whether a neighbour was
{
    for (EACH(v)) if (s.levels[v] < 0) for (int e = w.rows[v]; e < w.rows[v + 1]; e++) if (s.now[w.to[e] / 32] >> w.to[e] % 32 & 1) {
        s.levels[v] = s.state[0] + 1;
        cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(s.next[v / 32]).fetch_or(1u << v % 32, cuda::memory_order_relaxed);
        cuda::atomic_ref<int, cuda::thread_scope_device>(s.state[1]).fetch_add(1, cuda::memory_order_relaxed); break;
    }
}
__global__ void search_turn(Search s, cudaGraphConditionalHandle go)     // one block
{
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) { s.now[i] = s.next[i]; s.next[i] = 0; }
    if (threadIdx.x == 0) { cudaGraphSetConditional(go, s.state[1] != 0); s.state[0]++; s.state[2] += s.state[1]; s.state[1] = 0; s.state[3]++; }
}
__global__ void spread_labels(const int *from, int *to, Web w, int *changed)
{
    for (EACH(v)) {
        int l = from[v]; for (int e = w.rows[v]; e < w.rows[v + 1]; e++) l = min(l, from[w.to[e]]);
        l = min(l, from[l]); to[v] = l; if (l != from[v]) *changed = 1;
    }
}
__global__ void shortest(uint32_t *a, uint32_t *b, Web w, int source, int *changes)      // changes[i]: how many in round i
{
    auto grid = cg::this_grid(); for (EACH(v)) a[v] = v == source ? 0 : FAR; grid.sync();
    for (int round = 0; round < 1000; round++) {
        for (EACH(v)) {
            uint32_t d = a[v]; for (int e = w.rows[v]; e < w.rows[v + 1]; e++) d = min(d, a[w.to[e]] + weight(v, w.to[e]));
            b[v] = d; if (d != a[v]) cuda::atomic_ref<int, cuda::thread_scope_device>(changes[round]).fetch_add(1);
        }
        grid.sync(); uint32_t *t = a; a = b; b = t; if (changes[round] == 0) break;      // both are equal then
    }
}
__global__ void rank_step(const uint64_t *from, uint64_t *to, Web w, uint64_t base)
{
    cudaGridDependencySynchronize();
    for (EACH(v)) { uint64_t s = 0; for (int e = w.rows[v]; e < w.rows[v + 1]; e++) { int u = w.to[e];
        s += from[u] / (uint64_t)(w.rows[u + 1] - w.rows[u]); } to[v] = base + s / 100 * 85; }
    cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void triangles(Web w, unsigned long long *total, int *of)     // a block for a vertex: its higher neighbours come by pieces
{
    constexpr int STAGES = 2; __shared__ int piece[STAGES][PIECE]; __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    __shared__ int sum;
    auto block = cg::this_thread_block(); auto pipe = cuda::make_pipeline(block, &state);
    for (int u = blockIdx.x; u < V; u += gridDim.x) {
        int from = w.rows[u], end = w.rows[u + 1]; while (from < end && w.to[from] <= u) from++;
        int pieces = (end - from + PIECE - 1) / PIECE, count = 0; if (threadIdx.x == 0) sum = 0; block.sync();
        auto fetch = [&](int p) { int n = min(PIECE, end - from - p * PIECE); pipe.producer_acquire();
            cuda::memcpy_async(block, piece[p % STAGES], w.to + from + p * PIECE, cuda::aligned_size_t<4>(n * 4), pipe); pipe.producer_commit(); };
        if (pieces) fetch(0);
        for (int p = 0; p < pieces; p++) {
            if (p + 1 < pieces) fetch(p + 1);
            pipe.consumer_wait(); int n = min(PIECE, end - from - p * PIECE);
            // for a neighbour v: whose own neighbours beyond v are in this piece?
            for (int e = from + threadIdx.x; e < end; e += blockDim.x) {
                int v = w.to[e];
                for (int f = w.rows[v + 1] - 1; f >= w.rows[v] && w.to[f] > v; f--) { int x = w.to[f], l = 0, h = n;
                    while (l < h) { int m = (l + h) / 2; if (piece[p % STAGES][m] < x) l = m + 1; else h = m; }
                    count += l < n && piece[p % STAGES][l] == x; }
            }
            pipe.consumer_release();
        }
        if (count) cuda::atomic_ref<int, cuda::thread_scope_block>(sum).fetch_add(count); block.sync();
        if (threadIdx.x == 0) { of[u] = sum; cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(*total).fetch_add(sum); } block.sync();
    }
}
using Table = cuda::std::mdspan<uint32_t, cuda::std::extents<int, HUBS, HUBS>>;
__global__ void all_pairs(Table t)                          // one block
{
    for (int k = 0; k < HUBS; k++) {
        for (int i = threadIdx.x; i < HUBS * HUBS; i += blockDim.x) { int y = i / HUBS, x = i % HUBS; uint32_t d = t(y, k) + t(k, x);
            if (d < t(y, x)) t(y, x) = d; }
        __syncthreads();
    }
}

static std::vector<int> rows(V + 1), to;
static int wrong; static uint64_t sum = 14695981039346656037ull;
template <class A, class B> static void check(const char *what, const A &got, const B &want)
{
    for (size_t i = 0; i < want.size(); i++) { if ((uint64_t)got[i] != (uint64_t)want[i]) { wrong++;
        fprintf(stderr, "%s differs at %zu\n", what, i); break; } sum = (sum ^ (uint64_t)want[i]) * 1099511628211ull; }
}
template <class T> static T *device(size_t n) { T *p; CK(cudaMalloc(&p, n * sizeof(T))); return p; }
template <class T> static std::vector<T> fetch(const T *p, size_t n, cudaStream_t s) { std::vector<T> v(n);
    CK(cudaMemcpyAsync(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); return v; }
static cudaStream_t stream() { cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); return s; }

static std::vector<std::vector<int>> search_all(Web w, const std::vector<int> &sources)
{
    cudaStream_t s = stream(), c = stream(); Search k = {device<int>(V), device<uint32_t>(WORDS), device<uint32_t>(WORDS), device<int>(4)};
    std::vector<std::vector<int>> results;
    cudaGraph_t g, ended; cudaGraphExec_t exec; cudaGraphNode_t begin, loop; cudaGraphConditionalHandle go; int source = 0;
    void *args[] = {&k, &source}; CK(cudaGraphCreate(&g, 0));
    cudaKernelNodeParams kp = {}; kp.func = (void *)search_begin; kp.gridDim = dim3(V / 256); kp.blockDim = dim3(256); kp.kernelParams = args;
    CK(cudaGraphAddKernelNode(&begin, g, nullptr, 0, &kp));
    CK(cudaGraphConditionalHandleCreate(&go, g, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams np = {}; np.type = cudaGraphNodeTypeConditional; np.conditional.handle = go; np.conditional.type = cudaGraphCondTypeWhile;
    np.conditional.size = 1;
    CK(cudaGraphAddNode(&loop, g, &begin, nullptr, 1, &np)); cudaGraph_t body = np.conditional.phGraph_out[0];
    CK(cudaStreamBeginCaptureToGraph(c, body, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    search_step<<<V / 128, 128, 0, c>>>(k, w); search_turn<<<1, 512, 0, c>>>(k, go); CK(cudaGetLastError()); CK(cudaStreamEndCapture(c, &ended));
    CK(cudaGraphInstantiate(&exec, g, 0));
    for (int from : sources) {
        source = from; CK(cudaGraphExecKernelNodeSetParams(exec, begin, &kp)); source = -1; CK(cudaGraphLaunch(exec, s));
        results.push_back(fetch(k.levels, V, s)); results.push_back(fetch(k.state, 4, s));
    }
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(g)); CK(cudaFree(k.levels)); CK(cudaFree(k.now)); CK(cudaFree(k.next));
    CK(cudaFree(k.state)); CK(cudaStreamDestroy(s)); CK(cudaStreamDestroy(c));
    return results;
}
static std::vector<int> components(Web w)
{
    cudaStream_t s = stream(); int *l[2] = {device<int>(V), device<int>(V)}, rounds = 0; volatile int *changed; std::vector<int> start(V);
    std::iota(start.begin(), start.end(), 0);
    CK(cudaHostAlloc((void **)&changed, 4, cudaHostAllocMapped)); CK(cudaMemcpyAsync(l[0], start.data(), V * 4, cudaMemcpyHostToDevice, s));
    do {
        *changed = 0; spread_labels<<<V / 64, 64, 0, s>>>(l[rounds % 2], l[1 - rounds % 2], w, (int *)changed); CK(cudaGetLastError()); rounds++;
        while (cudaStreamQuery(s) == cudaErrorNotReady) {} cudaGetLastError();
    } while (*changed);
    std::vector<int> r = fetch(l[rounds % 2], V, s); CK(cudaFree(l[0])); CK(cudaFree(l[1])); CK(cudaFreeHost((void *)changed));
    CK(cudaStreamDestroy(s)); return r;
}
static std::vector<uint32_t> paths(Web w, int source)
{
    cudaStream_t s = stream(); uint32_t *a = device<uint32_t>(V), *b = device<uint32_t>(V); int *changes = device<int>(1000), per, sms;
    CK(cudaMemsetAsync(changes, 0, 4000, s));
    CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, shortest, 128, 0)); CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    void *args[] = {&a, &b, &w, &source, &changes}; CK(cudaLaunchCooperativeKernel((void *)shortest, dim3(std::min(per * sms, V / 128)), dim3(128),
        args, 0, s));
    std::vector<uint32_t> r = fetch(a, V, s), t = fetch(b, V, s); if (r != t) wrong++;      // it ends when both are equal
    CK(cudaFree(a)); CK(cudaFree(b)); CK(cudaFree(changes)); CK(cudaStreamDestroy(s)); return r;
}
static const uint64_t base = (1ull << 40) / 100 * 15;
static std::vector<uint64_t> ranks(Web w)
{
    cudaStream_t s = stream(); uint64_t *r[2] = {device<uint64_t>(V), device<uint64_t>(V)}; std::vector<uint64_t> start(V, 1ull << 40);
    CK(cudaMemcpyAsync(r[0], start.data(), V * 8, cudaMemcpyHostToDevice, s));
    for (int i = 0; i < 20; i++) {
        cudaLaunchConfig_t c = {}; c.gridDim = dim3(V / 512); c.blockDim = dim3(128); c.stream = s; cudaLaunchAttribute a[1];
        a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a[0].val.programmaticStreamSerializationAllowed = 1; c.attrs = a; c.numAttrs = i ? 1 : 0;
        CK(cudaLaunchKernelEx(&c, rank_step, (const uint64_t *)r[i % 2], r[1 - i % 2], w, base));
    }
    auto v = fetch(r[0], V, s); CK(cudaFree(r[0])); CK(cudaFree(r[1])); CK(cudaStreamDestroy(s)); return v;
}

int main()
{
    CK(cudaSetDevice(0)); std::vector<std::pair<int, int>> edges; edges.reserve(V * 12);
    for (int i = 0; i < V * 5; i++) {                       // most of it hangs together, some vertices stand alone
        uint32_t r = mix(i), q = mix(i + 0x1234567); int u = 0, v = 0;
        for (int b = 0; b < 14; b++, r >>= 2, q = q * 1664525u + 1013904223u) { int k = (q >> 24) < 140 ? 0 : 1 + r % 3; u = u * 2 + k / 2;
            v = v * 2 + k % 2; }
        if (u != v) { edges.push_back({u, v}); edges.push_back({v, u}); }
    }
    std::sort(edges.begin(), edges.end()); edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (auto &e : edges) { rows[e.first + 1]++; to.push_back(e.second); } for (int v = 0; v < V; v++) rows[v + 1] += rows[v];
    int *managed; size_t bytes = (V + 1 + to.size()) * 4; CK(cudaMallocManaged(&managed, bytes)); memcpy(managed, rows.data(), (V + 1) * 4);
    memcpy(managed + V + 1, to.data(), to.size() * 4);
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0}; CK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetReadMostly, here));
    CK(cudaMemPrefetchAsync(managed, bytes, here, 0, cudaStreamLegacy));
    CK(cudaDeviceSynchronize()); Web w = {managed, managed + V + 1};
    std::vector<int> sources = {0, 1, 77, V - 1, 4096, V / 2 + 3}, hubs(V); std::iota(hubs.begin(), hubs.end(), 0);
    std::stable_sort(hubs.begin(), hubs.end(), [](int a, int b) { return rows[a + 1] - rows[a] > rows[b + 1] - rows[b]; });
    sources.push_back(hubs[0]); hubs.resize(HUBS);
    auto s = std::async(std::launch::async, search_all, w, sources); auto c = std::async(std::launch::async, components, w);
    auto p = std::async(std::launch::async, paths, w, hubs[1]);
    auto r = std::async(std::launch::async, ranks, w);
    cudaStream_t own = stream(); unsigned long long *total = device<unsigned long long>(1); int *of = device<int>(V);
    CK(cudaMemsetAsync(total, 0, 8, own));
    triangles<<<600, 96, 0, own>>>(w, total, of); CK(cudaGetLastError()); std::vector<uint32_t> table(HUBS * HUBS, FAR), pairs;
    for (int i = 0; i < HUBS; i++) for (int j = 0; j < HUBS; j++) { if (i == j) table[i * HUBS + j] = 0;
        else if (std::binary_search(to.begin() + rows[hubs[i]], to.begin() + rows[hubs[i] + 1], hubs[j])) table[i * HUBS + j] = weight(hubs[i],
            hubs[j]); }
    uint32_t *d_table = device<uint32_t>(HUBS * HUBS); CK(cudaMemcpyAsync(d_table, table.data(), HUBS * HUBS * 4, cudaMemcpyHostToDevice, own));
    all_pairs<<<1, 1024, 0, own>>>(Table(d_table)); CK(cudaGetLastError());
    pairs = fetch(d_table, HUBS * HUBS, own); std::vector<int> counted = fetch(of, V, own);

    auto levels = s.get(); int deepest = 0;
    for (size_t k = 0; k < sources.size(); k++) {
        std::vector<int> l(V, -1), state = {0, 0, 0, 0}; std::queue<int> q; l[sources[k]] = 0; q.push(sources[k]);
        while (!q.empty()) { int u = q.front(); q.pop(); state[2]++; for (int e = rows[u]; e < rows[u + 1]; e++) if (l[to[e]] < 0) {
            l[to[e]] = l[u] + 1; q.push(to[e]); } }
        state[2]--; state[0] = state[3] = *std::max_element(l.begin(), l.end()) + 1; deepest = std::max(deepest, state[0]);
        check("levels", levels[k * 2], l); check("search", levels[k * 2 + 1], state);
    }
    std::vector<int> label(V); std::iota(label.begin(), label.end(), 0); int parts = 0;
    for (int v = 0; v < V; v++) if (label[v] == v) { std::vector<int> stack = {v}; parts++;      // the lowest of each component comes first
        while (!stack.empty()) { int u = stack.back(); stack.pop_back(); for (int e = rows[u]; e < rows[u + 1]; e++) if (label[to[e]] > v) {
            label[to[e]] = v; stack.push_back(to[e]); } } }
    check("components", c.get(), label);
    std::vector<uint32_t> d(V, FAR); typedef std::pair<uint32_t, int> Item; std::priority_queue<Item, std::vector<Item>, std::greater<Item>> heap;
    d[hubs[1]] = 0; heap.push({0, hubs[1]});
    while (!heap.empty()) { Item i = heap.top(); heap.pop(); int u = i.second; if (i.first == d[u]) for (int e = rows[u]; e < rows[u + 1]; e++) {
        uint32_t n = i.first + weight(to[e], u); if (n < d[to[e]]) { d[to[e]] = n; heap.push({n, to[e]}); } } }
    check("paths", p.get(), d);
    std::vector<uint64_t> a(V, 1ull << 40), b(V);
    for (int i = 0; i < 20; i++, std::swap(a, b)) for (int v = 0; v < V; v++) { uint64_t t = 0;
        for (int e = rows[v]; e < rows[v + 1]; e++) t += a[to[e]] / (uint64_t)(rows[to[e] + 1] - rows[to[e]]); b[v] = base + t / 100 * 85; }
    check("ranks", r.get(), a);
    unsigned long long all = 0; std::vector<int> closed(V); std::vector<char> mark(V);
    for (int u = 0; u < V; u++) {
        for (int e = rows[u]; e < rows[u + 1]; e++) mark[to[e]] = to[e] > u;
        for (int e = rows[u]; e < rows[u + 1]; e++) if (to[e] > u) for (int f = rows[to[e] + 1] - 1; f >= rows[to[e]] && to[f] > to[e];
            f--) closed[u] += mark[to[f]];
        for (int e = rows[u]; e < rows[u + 1]; e++) mark[to[e]] = 0; all += closed[u];
    }
    check("triangles", counted, closed); wrong += fetch(total, 1, own)[0] != all;
    for (int k = 0; k < HUBS; k++) for (int y = 0; y < HUBS; y++) for (int x = 0; x < HUBS; x++) table[y * HUBS + x] = std::min(table[y * HUBS + x],
        table[y * HUBS + k] + table[k * HUBS + x]);
    check("all pairs", pairs, table);
    CK(cudaFree(of)); CK(cudaFree(d_table)); CK(cudaFree(managed)); CK(cudaFree(total)); CK(cudaStreamDestroy(own));
    printf("%zu edges, %d components, depth %d, %llu triangles\n", to.size() / 2, parts, deepest, all);
    printf("graphlab: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
