// nvcc: --extended-lambda
// Sorting, scans and reductions with Thrust and CUB in four threads, each with its stream and a caching allocator on
// cudaMallocAsync; blocking and non-blocking policies, iterators of several kinds, and device vectors with an own allocator.
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#include <thrust/adjacent_difference.h>
#include <thrust/copy.h>
#include <thrust/device_malloc_allocator.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
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
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int THREADS = 4, ROUNDS = 5;
static std::atomic<int> wrong{0};
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

// Of one thread and one stream: what is given back may be given out again at once, the stream keeps the order.
struct Cache {
    typedef char value_type;
    cudaStream_t stream; std::multimap<size_t, char *> free_blocks; std::map<char *, size_t> used; int made = 0, reused = 0;
    explicit Cache(cudaStream_t s) : stream(s) {}
    Cache(const Cache &) = delete;
    char *allocate(std::ptrdiff_t bytes) {
        size_t n = ((size_t)bytes + 511) & ~(size_t)511; if (!n) n = 512;
        auto at = free_blocks.lower_bound(n); char *p;
        if (at != free_blocks.end() && at->first <= 4 * n) { p = at->second; n = at->first; free_blocks.erase(at); reused++; }
        else { CK(cudaMallocAsync((void **)&p, n, stream)); made++; }
        used[p] = n;
        return p;
    }
    void deallocate(char *p, size_t) { auto at = used.find(p); if (at == used.end()) { wrong++; return; } free_blocks.emplace(at->second, p); used.erase(at); }
    template <class T> T *get(size_t n) { return (T *)allocate(n * sizeof(T)); }
    template <class T> void put(T *p) { deallocate((char *)p, 0); }
    void empty() { wrong += !used.empty(); for (auto &b : free_blocks) CK(cudaFreeAsync(b.second, stream)); free_blocks.clear(); CK(cudaStreamSynchronize(stream)); }
};
// For vectors: the memory is there for every stream when allocate returns.
template <class T> struct PoolAllocator : thrust::device_malloc_allocator<T> {
    typedef thrust::device_malloc_allocator<T> Base; typedef typename Base::pointer pointer; typedef typename Base::size_type size_type;
    template <class U> struct rebind { typedef PoolAllocator<U> other; };
    PoolAllocator() = default; template <class U> PoolAllocator(const PoolAllocator<U> &) {}
    pointer allocate(size_type n) { void *p; CK(cudaMallocAsync(&p, n * sizeof(T), cudaStreamPerThread)); CK(cudaStreamSynchronize(cudaStreamPerThread)); return pointer((T *)p); }
    void deallocate(pointer p, size_type) { CK(cudaDeviceSynchronize()); CK(cudaFreeAsync(p.get(), cudaStreamPerThread)); CK(cudaStreamSynchronize(cudaStreamPerThread)); }
};
struct Even { __host__ __device__ bool operator()(uint32_t v) const { return v % 2 == 0; } };
struct Scale { uint32_t k; __host__ __device__ uint32_t operator()(uint32_t v) const { return mix(v * k); } };
struct Larger { __host__ __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; } };

template <class F> static void with_temporary(Cache &cache, F f) {      // CUB's two calls
    size_t bytes = 0;
    CK(f((void *)nullptr, bytes));
    void *p = cache.allocate(bytes ? bytes : 1);
    CK(f(p, bytes));
    cache.put((char *)p);
}
template <class T> static void same(const char *what, const std::vector<T> &a, const std::vector<T> &b, uint64_t &h) {
    if (a != b) { wrong++; fprintf(stderr, "%s differs\n", what); }
    for (auto &v : a) h = (h ^ (uint64_t)v) * 1099511628211ull;
}

static void worker(int id, uint64_t *result) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    uint64_t h = 14695981039346656037ull;
    Cache cache(s);
    auto down = [&](auto *p, size_t n) { std::vector<std::remove_const_t<std::remove_pointer_t<decltype(p)>>> v(n); CK(cudaMemcpyAsync(v.data(), p, n * sizeof *p, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); return v; };
    for (int round = 0; round < ROUNDS; round++) {
        int n = 20000 + mix(id * 100 + round) % 60000;
        auto blocking = thrust::cuda::par(cache).on(s); auto quick = thrust::cuda::par_nosync(cache).on(s);
        std::vector<uint32_t> keys(n), values(n);
        for (int i = 0; i < n; i++) { keys[i] = mix(i + id * 7777 + round) % (round % 2 ? 5000 : 0xffffffffu); values[i] = i; }
        uint32_t *k = cache.get<uint32_t>(n), *v = cache.get<uint32_t>(n), *a = cache.get<uint32_t>(n), *b = cache.get<uint32_t>(n), *one = cache.get<uint32_t>(4);
        CK(cudaMemcpyAsync(k, keys.data(), n * 4, cudaMemcpyHostToDevice, s)); CK(cudaMemcpyAsync(v, values.data(), n * 4, cudaMemcpyHostToDevice, s)); CK(cudaStreamSynchronize(s));

        // Thrust: stable sort of pairs, sums of runs, what is unique, a running sum and maximum.
        thrust::stable_sort_by_key(quick, k, k + n, v);
        std::stable_sort(values.begin(), values.end(), [&](uint32_t x, uint32_t y) { return keys[x] < keys[y]; });
        std::vector<uint32_t> sorted(n); for (int i = 0; i < n; i++) sorted[i] = keys[values[i]];
        same("sorted keys", down(k, n), sorted, h); same("sorted values", down(v, n), values, h);
        auto ends = thrust::reduce_by_key(blocking, k, k + n, v, a, b);
        std::vector<uint32_t> rk, rs;
        for (int i = 0; i < n; i++) { if (rk.empty() || rk.back() != sorted[i]) { rk.push_back(sorted[i]); rs.push_back(0); } rs.back() += values[i]; }
        wrong += ends.first - a != (long)rk.size();
        same("run keys", down(a, rk.size()), rk, h); same("run sums", down(b, rk.size()), rs, h);
        thrust::transform(quick, v, v + n, a, Scale{(uint32_t)round + 3});
        thrust::inclusive_scan(quick, a, a + n, b, Larger());
        thrust::exclusive_scan(quick, a, a + n, a, 17u);
        std::vector<uint32_t> ra(n), rb(n); uint32_t running = 17, top = 0;
        for (int i = 0; i < n; i++) { uint32_t x = mix(values[i] * (round + 3)); top = std::max(top, x); rb[i] = top; ra[i] = running; running += x; }
        same("running maximum", down(b, n), rb, h); same("exclusive scan", down(a, n), ra, h);
        uint32_t *end = thrust::copy_if(blocking, a, a + n, b, Even()), *last = thrust::unique(blocking, k, k + n);
        std::vector<uint32_t> even; for (uint32_t x : ra) if (x % 2 == 0) even.push_back(x);
        wrong += end - b != (long)even.size() || last - k != (long)rk.size();
        same("even", down(b, even.size()), even, h); same("unique", down(k, rk.size()), rk, h);
        uint64_t total = thrust::transform_reduce(blocking, thrust::counting_iterator<uint32_t>(0), thrust::counting_iterator<uint32_t>(n), [] __device__ (uint32_t i) -> uint64_t { return (uint64_t)mix(i) * 3; }, (uint64_t)0, thrust::plus<uint64_t>());
        uint64_t expected = 0; for (int i = 0; i < n; i++) expected += (uint64_t)mix(i) * 3;
        wrong += total != expected; h = h * 31 + total;
        thrust::sort(quick, a, a + n, thrust::greater<uint32_t>());
        std::sort(ra.begin(), ra.end(), std::greater<uint32_t>());
        same("falling", down(a, n), ra, h);

        // CUB, into the memory that the cache has by now.
        unsigned long long *k64 = cache.get<unsigned long long>(n), *o64 = cache.get<unsigned long long>(n);
        std::vector<unsigned long long> h64(n); for (int i = 0; i < n; i++) h64[i] = (unsigned long long)mix(i * 3 + id) << 32 | mix(i + round);
        CK(cudaMemcpyAsync(k64, h64.data(), n * 8, cudaMemcpyHostToDevice, s));
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceRadixSort::SortKeys(t, bytes, k64, o64, n, 0, 64, s); });
        CK(cudaStreamSynchronize(s));
        std::sort(h64.begin(), h64.end());
        same("64 bits", down(o64, n), h64, h);
        cub::DoubleBuffer<unsigned long long> both(k64, o64);           // by the bits 8 to 24 only; stable
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceRadixSort::SortKeysDescending(t, bytes, both, n, 8, 24, s); });
        CK(cudaStreamSynchronize(s));
        std::vector<unsigned long long> u64(n); for (int i = 0; i < n; i++) u64[i] = (unsigned long long)mix(i * 3 + id) << 32 | mix(i + round);
        std::stable_sort(u64.begin(), u64.end(), [](auto x, auto y) { return (x >> 8 & 0xffff) > (y >> 8 & 0xffff); });
        same("some bits", down(both.Current(), n), u64, h);
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceScan::InclusiveSum(t, bytes, a, b, n, s); });
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceReduce::Max(t, bytes, b, one, n, s); });
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceReduce::Sum(t, bytes, a, one + 1, n, s); });
        std::partial_sum(ra.begin(), ra.end(), rb.begin());
        auto ones = down(one, 2); same("sums", down(b, n), rb, h);
        wrong += ones[0] != *std::max_element(rb.begin(), rb.end()) || ones[1] != rb.back();
        int *bins = cache.get<int>(32), *offsets = cache.get<int>(40); std::vector<int> rbins(32, 0), roff(40);
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceHistogram::HistogramEven(t, bytes, values.empty() ? nullptr : v, bins, 33, 0u, 32u * 1000, n, s); });
        for (uint32_t x : values) if (x < 32000) rbins[x / 1000]++;
        same("histogram", down(bins, 32), rbins, h);
        for (int i = 0; i < 40; i++) roff[i] = (int)((int64_t)n * i / 39);
        CK(cudaMemcpyAsync(offsets, roff.data(), 40 * 4, cudaMemcpyHostToDevice, s));
        with_temporary(cache, [&](void *t, size_t &bytes) { return cub::DeviceSegmentedReduce::Sum(t, bytes, v, b, 39, offsets, offsets + 1, s); });
        std::vector<uint32_t> segments(39); for (int i = 0; i < 39; i++) segments[i] = std::accumulate(values.begin() + roff[i], values.begin() + roff[i + 1], 0u);
        same("segments", down(b, 39), segments, h);
        cache.put(k); cache.put(v); cache.put(a); cache.put(b); cache.put(one); cache.put(k64); cache.put(o64); cache.put(bins); cache.put(offsets);

        // A device vector that grows, in Thrust's own default stream.
        thrust::device_vector<uint32_t, PoolAllocator<uint32_t>> d(1000, 3u);
        d.resize(3000 + round, 5u); d.push_back(8);
        thrust::transform(thrust::counting_iterator<uint32_t>(0), thrust::counting_iterator<uint32_t>(d.size()), d.begin(), d.begin(), thrust::plus<uint32_t>());
        thrust::sort(d.begin(), d.end()); uint32_t m = thrust::reduce(d.begin(), d.end(), 0u, thrust::maximum<uint32_t>());
        std::vector<uint32_t> back(d.size()), rd(1000, 3u); rd.resize(3000 + round, 5u); rd.push_back(8);
        thrust::copy(d.begin(), d.end(), back.begin());
        for (size_t i = 0; i < rd.size(); i++) rd[i] += i;
        std::sort(rd.begin(), rd.end()); wrong += m != rd.back(); same("vector", back, rd, h);
        if (round == 2) cache.empty();
    }
    wrong += cache.reused == 0 || cache.made == 0;
    cache.empty();
    CK(cudaStreamDestroy(s));
    *result = h;
}

int main() {
    CK(cudaSetDevice(0));
    uint64_t results[THREADS], sum = 0; std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(worker, i, &results[i]);
    for (auto &t : threads) t.join();
    for (auto h : results) sum = sum * 1000003 + h;
    CK(cudaDeviceSynchronize());
    printf("sortthreads: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
