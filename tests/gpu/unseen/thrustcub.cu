// nvcc: --extended-lambda
// Thrust and CUB on several streams: sorts by key, scans, reductions by key, unique, device-wide select, histograms, segmented
// sorts, run lengths; temporary storage from a caching allocator of our own, vectors with an allocator of asynchronous memory.
#include <cub/cub.cuh>
#include <thrust/device_malloc_allocator.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x21f0aaadu; v ^= v >> 15; v *= 0xd35a2d97u; return v ^ (v >> 15); }

// Temporary storage for Thrust: blocks are kept by size and handed out again.
struct Cache {
    using value_type = char;
    std::multimap<size_t, char *> idle; std::map<char *, size_t> busy; int made = 0, reused = 0;
    char *allocate(std::ptrdiff_t wanted) {
        size_t n = ((size_t)wanted + 255) / 256 * 256; char *p;
        auto it = idle.lower_bound(n);
        if (it != idle.end() && it->first <= 2 * n) { p = it->second; n = it->first; idle.erase(it); reused++; }
        else { CK(cudaMalloc(&p, n)); made++; }
        busy[p] = n;
        return p;
    }
    void deallocate(char *p, size_t) { auto it = busy.find(p); if (it == busy.end()) abort(); idle.emplace(it->second, p); busy.erase(it); }
    ~Cache() { for (auto &b : idle) CK(cudaFree(b.second)); }
};

// Vectors in stream ordered memory, by default initialised with nothing.
template <class T> struct AsyncAllocator : thrust::device_malloc_allocator<T> {
    using Base = thrust::device_malloc_allocator<T>; using pointer = typename Base::pointer; using size_type = typename Base::size_type;
    cudaStream_t stream = nullptr;
    AsyncAllocator() = default;
    explicit AsyncAllocator(cudaStream_t s) : stream(s) {}
    template <class U> AsyncAllocator(const AsyncAllocator<U> &o) : stream(o.stream) {}
    template <class U> struct rebind { using other = AsyncAllocator<U>; };
    pointer allocate(size_type n) { T *p; CK(cudaMallocAsync((void **)&p, n * sizeof(T), stream)); CK(cudaStreamSynchronize(stream)); return pointer(p); }
    void deallocate(pointer p, size_type) { CK(cudaFreeAsync(thrust::raw_pointer_cast(p), stream)); }
};

struct Triple { uint32_t a; int32_t b; float c; };
struct Merge { __host__ __device__ Triple operator()(const Triple &x, const Triple &y) const { return {x.a + y.a, x.b > y.b ? x.b : y.b, x.c < y.c ? x.c : y.c}; } };
struct Odd { __host__ __device__ bool operator()(uint32_t v) const { return mix(v) & 1; } };

static uint64_t hash(const void *p, size_t n) { uint64_t h = 14695981039346656037ull; for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211ull; return h; }
template <class V> static uint64_t hash_of(const V &v) { return v.empty() ? 0 : hash(v.data(), v.size() * sizeof(v[0])); }

static uint64_t thrust_part(int id, int *wrong) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    uint64_t sum = 0;
    {
        Cache cache;
        auto policy = thrust::cuda::par(cache).on(s);
        auto nosync = thrust::cuda::par_nosync(cache).on(s);
        for (int round = 0; round < 4; round++) {
            const int n = 50000 + round * 33333 + id * 1111;
            using Vector = thrust::device_vector<uint32_t, AsyncAllocator<uint32_t>>;
            Vector keys(AsyncAllocator<uint32_t>{s}), values(AsyncAllocator<uint32_t>{s});
            keys.resize(n); values.resize(n);
            CK(cudaDeviceSynchronize());                 // resize works in the default stream
            const uint32_t seed = id * 100 + round;
            thrust::transform(nosync, thrust::counting_iterator<uint32_t>(0), thrust::counting_iterator<uint32_t>(n), keys.begin(),
                [seed] __host__ __device__(uint32_t i) { return mix(i ^ seed * 7919) % 5000; });
            thrust::sequence(nosync, values.begin(), values.end(), 10u);
            thrust::stable_sort_by_key(policy, keys.begin(), keys.end(), values.begin(), [] __host__ __device__(uint32_t x, uint32_t y) { return x > y; });
            thrust::device_vector<uint32_t> unique(n), totals(n);
            CK(cudaDeviceSynchronize());
            auto ends = thrust::reduce_by_key(policy, keys.begin(), keys.end(), values.begin(), unique.begin(), totals.begin());
            const size_t groups = ends.first - unique.begin();
            unique.resize(groups); totals.resize(groups);
            thrust::inclusive_scan(policy, totals.begin(), totals.end(), totals.begin(), [] __host__ __device__(uint32_t x, uint32_t y) { return x * 3 + y - 2 * x; });
            auto last = thrust::unique(policy, keys.begin(), keys.end());
            *wrong += (size_t)(last - keys.begin()) != groups;
            auto zip = thrust::make_zip_iterator(thrust::make_tuple(unique.begin(), totals.begin()));
            uint64_t dot = thrust::transform_reduce(policy, zip, zip + groups,
                [] __host__ __device__(const thrust::tuple<uint32_t, uint32_t> &t) { return (uint64_t)thrust::get<0>(t) * thrust::get<1>(t); }, (uint64_t)0, thrust::plus<uint64_t>());
            thrust::host_vector<uint32_t> hu = unique, ht = totals;
            std::map<uint32_t, uint32_t> ref;
            for (int i = 0; i < n; i++) ref[mix(i ^ seed * 7919) % 5000] += 10 + i;
            uint32_t running = 0; size_t at = 0; uint64_t expected = 0;
            *wrong += ref.size() != groups;
            for (auto it = ref.rbegin(); it != ref.rend() && at < groups; ++it, at++) { running += it->second; expected += (uint64_t)it->first * running; *wrong += hu[at] != it->first || ht[at] != running; }
            *wrong += dot != expected;
            std::vector<uint32_t> raw(values.size());
            CK(cudaMemcpyAsync(raw.data(), thrust::raw_pointer_cast(values.data()), raw.size() * 4, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            sum = sum * 1099511628211ull + hash_of(raw) + dot;
        }
        *wrong += cache.reused == 0;
    }
    CK(cudaStreamSynchronize(s)); CK(cudaStreamDestroy(s));
    return sum;
}

static uint64_t cub_part(int *wrong) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    const int n = 120000, segments = 700; uint64_t sum = 0;
    std::vector<uint32_t> keys(n), got(n); std::vector<uint64_t> values(n); std::vector<int> offsets{0};
    for (int i = 0; i < n; i++) { keys[i] = mix(i * 3 + 1) % 100003; values[i] = (uint64_t)i << 20 | keys[i] % 7; }
    for (int i = 1; i < segments; i++) offsets.push_back(std::min(n, offsets.back() + (int)(mix(i) % (i % 50 == 0 ? 4000 : 200))));
    offsets.push_back(n);
    uint32_t *k[2]; uint64_t *v[2]; int *off, *selected, *lengths; Triple *triples, *merged; unsigned char *flags; void *temp = nullptr; size_t capacity = 0;
    for (auto &p : k) { CK(cudaMallocAsync(&p, n * 4, s)); CK(cudaMemsetAsync(p, 0, n * 4, s)); }
    for (auto &p : v) { CK(cudaMallocAsync(&p, n * 8, s)); CK(cudaMemsetAsync(p, 0, n * 8, s)); }
    CK(cudaMallocAsync(&off, (segments + 1) * 4, s)); CK(cudaMallocAsync(&selected, 16, s)); CK(cudaMallocAsync(&lengths, n * 4, s));
    CK(cudaMallocAsync(&triples, n * sizeof(Triple), s)); CK(cudaMallocAsync(&merged, sizeof(Triple), s)); CK(cudaMallocAsync(&flags, n, s));
    CK(cudaMemsetAsync(lengths, 0, n * 4, s));
    CK(cudaMemcpyAsync(k[0], keys.data(), n * 4, cudaMemcpyHostToDevice, s)); CK(cudaMemcpyAsync(v[0], values.data(), n * 8, cudaMemcpyHostToDevice, s));
    CK(cudaMemcpyAsync(off, offsets.data(), offsets.size() * 4, cudaMemcpyHostToDevice, s));
    auto run = [&](auto &&call) {                    // asks for the size, makes the storage larger if need be, works
        size_t bytes = 0;
        CK(call(nullptr, bytes));
        if (bytes > capacity) { if (temp) CK(cudaFreeAsync(temp, s)); capacity = bytes * 5 / 4; CK(cudaMallocAsync(&temp, capacity, s)); }
        CK(call(temp, bytes));
    };
    auto fetch = [&](const void *from, void *to, size_t bytes) { CK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); };
    cub::DoubleBuffer<uint32_t> dk(k[0], k[1]); cub::DoubleBuffer<uint64_t> dv(v[0], v[1]);
    run([&](void *t, size_t &b) { return cub::DeviceSegmentedSort::StableSortPairs(t, b, dk, dv, n, segments, off, off + 1, s); });
    std::vector<uint32_t> order(n); std::iota(order.begin(), order.end(), 0);
    for (int i = 0; i < segments; i++) std::stable_sort(order.begin() + offsets[i], order.begin() + offsets[i + 1], [&](uint32_t x, uint32_t y) { return keys[x] < keys[y]; });
    std::vector<uint64_t> got_values(n);
    fetch(dk.Current(), got.data(), n * 4); fetch(dv.Current(), got_values.data(), n * 8);
    for (int i = 0; i < n; i++) *wrong += got[i] != keys[order[i]] || got_values[i] != values[order[i]];
    sum = sum * 31 + hash_of(got) + hash_of(got_values);

    run([&](void *t, size_t &b) { return cub::DeviceRadixSort::SortPairsDescending(t, b, dk, dv, n, 3, 17, s); });      // by some of the bits
    fetch(dk.Current(), got.data(), n * 4);
    for (int i = 1; i < n; i++) *wrong += (got[i - 1] >> 3 & 0x3fff) < (got[i] >> 3 & 0x3fff);
    sum = sum * 31 + hash_of(got);

    int count[4] = {};
    run([&](void *t, size_t &b) { return cub::DeviceSelect::If(t, b, dk.Current(), dk.Alternate(), selected, n, Odd(), s); });
    fetch(selected, count, 4);
    std::vector<uint32_t> picked(count[0]), expected;
    for (uint32_t x : got) if (Odd()(x)) expected.push_back(x);
    fetch(dk.Alternate(), picked.data(), picked.size() * 4);
    *wrong += picked != expected; sum = sum * 31 + hash_of(picked);

    run([&](void *t, size_t &b) { return cub::DeviceRadixSort::SortKeys(t, b, dk, n, 0, 32, s); });
    run([&](void *t, size_t &b) { return cub::DeviceRunLengthEncode::Encode(t, b, dk.Current(), dk.Alternate(), lengths, selected + 1, n, s); });
    fetch(selected, count, 8);
    std::vector<int> runs(count[1]); fetch(lengths, runs.data(), runs.size() * 4);
    int all = 0; for (int r : runs) all += r;
    *wrong += all != n; sum = sum * 31 + hash_of(runs);

    int *bins = lengths; const int levels = 65;
    run([&](void *t, size_t &b) { return cub::DeviceHistogram::HistogramEven(t, b, dk.Current(), bins, levels, 0u, 100032u, n, s); });
    std::vector<int> histogram(levels - 1), by_hand(levels - 1);
    fetch(bins, histogram.data(), histogram.size() * 4);
    for (uint32_t x : keys) by_hand[x / 1563]++;
    *wrong += histogram != by_hand; sum = sum * 31 + hash_of(histogram);

    std::vector<Triple> host(n); Triple reduced, reference = {0, -1000000, 1e30f};
    for (int i = 0; i < n; i++) { host[i] = {mix(i), (int)(mix(i + 7) % 2000001) - 1000000, (float)(mix(i + 9) >> 8)}; reference = Merge()(reference, host[i]); }
    CK(cudaMemcpyAsync(triples, host.data(), n * sizeof(Triple), cudaMemcpyHostToDevice, s));
    run([&](void *t, size_t &b) { return cub::DeviceReduce::Reduce(t, b, triples, merged, n, Merge(), Triple{0, -1000000, 1e30f}, s); });
    fetch(merged, &reduced, sizeof reduced);
    *wrong += reduced.a != reference.a || reduced.b != reference.b || reduced.c != reference.c;
    sum = sum * 31 + hash(&reduced, sizeof reduced);

    std::vector<unsigned char> f(n); for (int i = 0; i < n; i++) f[i] = mix(i) % 3 == 0;
    CK(cudaMemcpyAsync(flags, f.data(), n, cudaMemcpyHostToDevice, s));
    run([&](void *t, size_t &b) { return cub::DevicePartition::Flagged(t, b, dv.Current(), flags, dv.Alternate(), selected + 2, n, s); });
    run([&](void *t, size_t &b) { return cub::DeviceScan::ExclusiveSum(t, b, dv.Alternate(), dv.Current(), n, s); });
    fetch(dv.Current(), got_values.data(), n * 8); fetch(selected, count, 12);
    *wrong += count[2] != std::count(f.begin(), f.end(), 1);
    sum = sum * 31 + hash_of(got_values);
    for (void *p : {(void *)k[0], (void *)k[1], (void *)v[0], (void *)v[1], (void *)off, (void *)selected, (void *)lengths, (void *)triples, (void *)merged, (void *)flags, temp})
        CK(cudaFreeAsync(p, s));
    CK(cudaStreamSynchronize(s)); CK(cudaStreamDestroy(s));
    return sum;
}

int main() {
    int wrong[3] = {}; uint64_t sums[3];
    std::thread a([&] { sums[0] = thrust_part(0, &wrong[0]); }), b([&] { sums[1] = thrust_part(1, &wrong[1]); }), c([&] { sums[2] = cub_part(&wrong[2]); });
    a.join(); b.join(); c.join();
    CK(cudaDeviceSynchronize());
    uint64_t sum = sums[0] * 3 + sums[1] * 5 + sums[2] * 7;
    printf("thrustcub: checksum %016llx wrong %d %d %d\n", (unsigned long long)sum, wrong[0], wrong[1], wrong[2]);
    return wrong[0] + wrong[1] + wrong[2] != 0;
}
