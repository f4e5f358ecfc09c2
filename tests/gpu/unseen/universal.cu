// Programs that forget where memory is: thrust's universal and pinned vectors changed by the host between algorithms, std::vector on
// managed memory, a web of nodes whose edges both sides rewire, letters that the host writes into one half of an allocation while a
// kernel reads the other half, a managed struct of pointers, prefetches and advice and copies of all directions; two threads at once.
#include <cuda_runtime.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/universal_vector.h>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static std::atomic<int> wrong{0};
static uint64_t sums[3];
static void fold(uint64_t &sum, uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }
static void expect(bool right, const char *what) { if (!right) { wrong++; fprintf(stderr, "%s differs\n", what); } }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
static bool concurrent;                                     // may the host touch managed memory while kernels run?
static cudaMemLocation here() { cudaMemLocation l = {}; l.type = cudaMemLocationTypeDevice; l.id = 0; return l; }
static cudaMemLocation host() { cudaMemLocation l = {}; l.type = cudaMemLocationTypeHost; return l; }

template <class T> struct Managed {                         // an allocator of the standard library's kind
    typedef T value_type;
    Managed() = default; template <class U> Managed(const Managed<U> &) {}
    T *allocate(size_t n) { void *p; CK(cudaMallocManaged(&p, n * sizeof(T))); return (T *)p; }
    void deallocate(T *p, size_t) { CK(cudaFree(p)); }
    template <class U> bool operator==(const Managed<U> &) const { return true; }
    template <class U> bool operator!=(const Managed<U> &) const { return false; }
};
struct Temporary {                                          // thrust's own needs, from the stream's pool
    typedef char value_type; cudaStream_t stream; int count = 0;
    char *allocate(std::ptrdiff_t n) { void *p; CK(cudaMallocAsync(&p, n, stream)); count++; return (char *)p; }
    void deallocate(char *p, size_t) { CK(cudaFreeAsync(p, stream)); }
};

// 1. Thrust.
struct Twist { uint32_t k; __host__ __device__ uint32_t operator()(uint32_t v) const { return mix(v * k + 1); } };
struct Shorten { __host__ __device__ uint32_t operator()(uint32_t v) const { return v % 257; } };
static void vectors(int id) {
    CK(cudaSetDevice(0));
    const int n = 20000 + id * 333; cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); Temporary temporary{s}; uint64_t sum = 14695981039346656037ull;
    {
        auto policy = thrust::cuda::par_nosync(temporary).on(s);
        thrust::universal_vector<uint32_t> values(n), keys(n); thrust::universal_host_pinned_vector<uint32_t> pinned(n), totals(512), which(512);
        uint32_t *v = thrust::raw_pointer_cast(values.data()), *k = thrust::raw_pointer_cast(keys.data()), *p = thrust::raw_pointer_cast(pinned.data());
        CK(cudaDeviceSynchronize());
        std::vector<uint32_t> rv(n), rk(n), rp(n);
        for (int i = 0; i < n; i++) { v[i] = rv[i] = mix(i + id); p[i] = rp[i] = i * 3; }
        for (uint32_t round = 1; round <= 6; round++) {
            if (round % 3 == 1) { CK(cudaMemPrefetchAsync(v, n * 4, here(), 0, s)); CK(cudaMemPrefetchAsync(k, n * 4, here(), 0, s)); }
            thrust::transform(policy, values.begin(), values.end(), values.begin(), Twist{round});
            thrust::transform(policy, values.begin(), values.end(), pinned.begin(), values.begin(), thrust::plus<uint32_t>());
            thrust::transform(policy, values.begin(), values.end(), keys.begin(), Shorten());
            thrust::stable_sort_by_key(policy, keys.begin(), keys.end(), values.begin());
            auto ends = thrust::reduce_by_key(thrust::cuda::par(temporary).on(s), keys.begin(), keys.end(), values.begin(), which.begin(), totals.begin());
            thrust::inclusive_scan(policy, values.begin(), values.end(), pinned.begin());
            if (round % 2) CK(cudaMemPrefetchAsync(v, n * 4, host(), 0, s));
            CK(cudaStreamSynchronize(s));
            for (int i = 0; i < n; i++) rv[i] = Twist{round}(rv[i]) + rp[i];
            std::vector<std::pair<uint32_t, uint32_t>> pairs(n); for (int i = 0; i < n; i++) pairs[i] = {rv[i] % 257, rv[i]};
            std::stable_sort(pairs.begin(), pairs.end(), [](auto &a, auto &b) { return a.first < b.first; });
            std::map<uint32_t, uint32_t> by_key; uint32_t running = 0;
            for (int i = 0; i < n; i++) { rk[i] = pairs[i].first; rv[i] = pairs[i].second; by_key[rk[i]] += rv[i]; rp[i] = running += rv[i]; }
            expect(!memcmp(v, rv.data(), n * 4) && !memcmp(k, rk.data(), n * 4) && !memcmp(p, rp.data(), n * 4), "what thrust made");
            size_t keys_found = ends.first - which.begin(); expect(keys_found == by_key.size(), "the number of keys");
            size_t at = 0; for (auto &e : by_key) { expect(which[at] == e.first && totals[at] == e.second, "a total"); fold(sum, totals[at]); at++; }
            // The host's turn: single elements through the vectors, others through plain pointers.
            for (int i = round; i < n; i += 101) { values[i] = rv[i] = rv[i] ^ round; p[n - 1 - i] = rp[n - 1 - i] = i; }
            if (round == 3) {                               // more room, elsewhere
                values.resize(n); values.reserve(3 * n); v = thrust::raw_pointer_cast(values.data()); CK(cudaDeviceSynchronize());
                expect(!memcmp(v, rv.data(), n * 4), "the vector with more room");
            }
        }
        for (int i = 0; i < n; i += 7) fold(sum, p[i]);
    }
    if (!temporary.count) wrong++;
    sums[id] = sum; CK(cudaStreamDestroy(s));
}

// 2. The web.
struct Node { Node *edges[3]; uint32_t value, next, id, letters; };
struct World { Node **index; Node *favourite; const uint32_t *letters; uint32_t count, steps; };
__managed__ World world;
__managed__ uint32_t tally[64];
constexpr int NODES = 1500, LETTERS = 3333;                 // two halves of an allocation, which share a page

__global__ void gather_letters(const uint32_t *letters, int n, int spin) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= world.count) return;
    uint32_t s = 0; for (int k = 0; k < spin; k++) s = mix(s + letters[(i * 13 + k) % n]);
    world.index[i]->letters = s;
}
__global__ void think() { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= world.count) return; Node *n = world.index[i]; uint32_t v = n->value + n->letters; for (Node *e : n->edges) if (e) v = v * 31 + e->value; n->next = v; }
__global__ void settle() { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= world.count) return; Node *n = world.index[i]; n->value = n->next; atomicAdd(&tally[n->id % 64], n->value); if (i == 0) world.steps++; }
__global__ void rewire(uint32_t seed) {                     // the third edge is the GPU's, and the favourite
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= world.count) return;
    world.index[i]->edges[2] = mix(seed + i) % 4 ? world.index[mix(seed * 3 + i) % world.count] : nullptr;
    if (i == seed % world.count) world.favourite = world.index[i];
}

static void web() {
    CK(cudaSetDevice(0)); cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); uint64_t sum = 14695981039346656037ull;
    char *arena; size_t used = 0; CK(cudaMallocManaged(&arena, NODES * 96));
    std::vector<Node *, Managed<Node *>> index; uint32_t *letters; CK(cudaMallocManaged(&letters, 2 * LETTERS * 4));
    CK(cudaMemAdvise(arena, NODES * 96, cudaMemAdviseSetPreferredLocation, here())); CK(cudaMemAdvise(letters, 2 * LETTERS * 4, cudaMemAdviseSetAccessedBy, here()));
    struct Ref { int edges[3]; uint32_t value, letters; }; std::vector<Ref> ref;
    auto born = [&] {
        uint32_t id = index.size(); Node *n = (Node *)(arena + used); used += sizeof(Node) + 8 * (id % 3);      // at odd distances
        *n = Node{{nullptr, nullptr, nullptr}, mix(id), 0, id, 0}; index.push_back(n); ref.push_back({{-1, -1, -1}, mix(id), 0});
    };
    while (index.size() < 700) born();
    world = World{index.data(), index[0], letters, (uint32_t)index.size(), 0}; memset(tally, 0, sizeof tally);
    std::vector<uint32_t> rletters(2 * LETTERS, 0), rtally(64, 0); memset(letters, 0, 2 * LETTERS * 4);
    auto write_letters = [&](int half, uint32_t seed) { for (int i = 0; i < LETTERS; i++) letters[half * LETTERS + i] = rletters[half * LETTERS + i] = mix(seed * 10007 + i); };
    write_letters(0, 0);
    uint32_t *copy; CK(cudaMalloc(&copy, LETTERS * 4));
    for (uint32_t round = 0; round < 14; round++) {
        // The host's edges, and sometimes new nodes: the index then moves.
        if (round % 4 == 2) { while (index.size() < 700 + round * 50) born(); world.index = index.data(); world.count = index.size(); }
        const uint32_t n = index.size(), grid = (n + 127) / 128;
        for (uint32_t i = round % 5; i < n; i += 5) for (int e = 0; e < 2; e++) { uint32_t to = mix(round * 5000 + i * 2 + e) % n; index[i]->edges[e] = index[to]; ref[i].edges[e] = to; }
        if (round % 3 == 1) CK(cudaMemPrefetchAsync(arena, used, here(), 0, s));
        if (round == 6) CK(cudaMemAdvise(letters, 2 * LETTERS * 4, cudaMemAdviseSetReadMostly, here())); if (round == 9) CK(cudaMemAdvise(letters, 2 * LETTERS * 4, cudaMemAdviseUnsetReadMostly, here()));
        const int half = round % 2; const uint32_t *source = letters + half * LETTERS;
        if (round % 5 == 3) { CK(cudaMemcpyAsync(copy, source, LETTERS * 4, cudaMemcpyDefault, s)); source = copy; }
        gather_letters<<<grid, 128, 0, s>>>(source, LETTERS, 200); CK(cudaGetLastError());
        if (!concurrent) CK(cudaStreamSynchronize(s));
        write_letters(1 - half, round + 1);                 // for the next round, while this one's are read
        rewire<<<grid, 128, 0, s>>>(round * 77); think<<<grid, 128, 0, s>>>(); settle<<<grid, 128, 0, s>>>(); CK(cudaGetLastError());
        if (round % 6 == 5) CK(cudaMemPrefetchAsync(arena, used, host(), 0, s));
        CK(cudaStreamSynchronize(s));
        std::vector<uint32_t> next(n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t l = 0; for (int k = 0; k < 200; k++) l = mix(l + rletters[half * LETTERS + (i * 13 + k) % LETTERS]); ref[i].letters = l;
            ref[i].edges[2] = mix(round * 77 + i) % 4 ? (int)(mix(round * 231 + i) % n) : -1;
        }
        for (uint32_t i = 0; i < n; i++) { uint32_t v = ref[i].value + ref[i].letters; for (int e : ref[i].edges) if (e >= 0) v = v * 31 + ref[e].value; next[i] = v; }
        for (uint32_t i = 0; i < n; i++) { ref[i].value = next[i]; rtally[i % 64] += next[i]; }
        bool right = world.steps == round + 1 && world.favourite == index[round * 77 % n];
        for (uint32_t i = 0; i < n; i++) {
            Node *p = index[i]; right = right && p->value == ref[i].value && p->id == i; fold(sum, p->value);
            for (int e = 0; e < 3; e++) right = right && p->edges[e] == (ref[i].edges[e] < 0 ? nullptr : index[ref[i].edges[e]]);
        }
        expect(right, "the web"); expect(!memcmp(tally, rtally.data(), 256), "the tally");
        world.favourite->value += 5; ref[world.favourite->id].value += 5;      // by the pointer the GPU left
        if (round % 7 == 4) {                               // all is copied through memory of other kinds and comes back
            std::vector<char> saved(used); char *device; CK(cudaMalloc(&device, used));
            CK(cudaMemcpyAsync(device, arena, used, cudaMemcpyDeviceToDevice, s)); CK(cudaMemsetAsync(arena, 0xcc, used, s));
            CK(cudaMemcpyAsync(saved.data(), device, used, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            memcpy(arena, saved.data(), used / 2); CK(cudaMemcpyAsync(arena + used / 2, device + used / 2, used - used / 2, cudaMemcpyDefault, s)); CK(cudaStreamSynchronize(s)); CK(cudaFree(device));
        }
    }
    World w; CK(cudaMemcpyFromSymbol(&w, world, sizeof w)); expect(w.steps == 14 && w.index == index.data(), "the world by its symbol");
    sums[2] = sum; CK(cudaFree(arena)); CK(cudaFree(letters)); CK(cudaFree(copy)); CK(cudaStreamDestroy(s));
}

int main() {
    int yes = 0; CK(cudaSetDevice(0)); CK(cudaDeviceGetAttribute(&yes, cudaDevAttrConcurrentManagedAccess, 0)); concurrent = yes;
    if (concurrent) { std::thread a(vectors, 0), b(vectors, 1), c(web); a.join(); b.join(); c.join(); }
    else { vectors(0); vectors(1); web(); }
    uint64_t total = 14695981039346656037ull; for (uint64_t s : sums) fold(total, s);
    printf("universal: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
