// An aligner of reads: a thread makes batches of reads, packed by two bits into pinned slots; another has the GPU find seeds in a sorted index,
// align with affine gaps (a warp for each read, in Hopper's instructions for dynamic programming), trace back, and pack the results, of which only
// as many bytes are fetched as there are; a third does the same on the CPU and compares. Matrices are taken from a pool in the size that a batch
// needs.
#include <cub/cub.cuh>
#include <cuda_runtime.h>
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int REF = 1 << 16, K = 11, LONGEST = 128, WORDS = LONGEST / 16, WINDOW = 192, MOST = 320, HITS = 4, RUNS = 96, SLOTS = 3, BATCHES = 9;
constexpr int MATCH = 2, MISMATCH = -3, OPEN = -5, EXTEND = -1;
struct Read { uint32_t bases[WORDS]; int length; };
struct Result { int begin_ref, begin_read, score, runs; };
__host__ __device__ inline int base_at(const uint32_t *packed, int i) { return packed[i / 16] >> (i % 16 * 2) & 3; }
__host__ __device__ inline int window_begin(int bucket, int length) { int b = bucket * 16 - 24;
    return b < 0 ? 0 : b > REF - WINDOW ? REF - WINDOW : b; }
__global__ void index_keys(uint32_t *keys, int *positions, const uint32_t *ref)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; uint32_t key = 0;
    if (i > REF - K) return;
    for (int k = 0; k < K; k++) key = key << 2 | base_at(ref, i + k);
    keys[i] = key; positions[i] = i;
}
// A warp for each read: every seed of it votes for the diagonals where it is found; most votes win, then the lowest
__global__ void find(int *bucket, const Read *reads, const uint32_t *keys, const int *positions)
{
    __shared__ int votes[LONGEST * HITS];
    const Read &r = reads[blockIdx.x]; int lane = threadIdx.x, n = REF - K + 1, seeds = r.length - K + 1;
    for (int s = lane; s < LONGEST; s += 32) {
        int found = 0;
        if (s < seeds) {
            uint32_t key = 0; for (int k = 0; k < K; k++) key = key << 2 | base_at(r.bases, s + k);
            int low = 0, high = n; while (low < high) { int mid = (low + high) / 2; if (keys[mid] < key) low = mid + 1; else high = mid; }
            for (; found < HITS && low + found < n && keys[low + found] == key; found++)
                votes[s * HITS + found] = (positions[low + found] - s + LONGEST) / 16;
        }
        for (; found < HITS; found++) votes[s * HITS + found] = -1;
    }
    __syncwarp();
    unsigned best = 0;
    for (int i = lane; i < LONGEST * HITS; i += 32) if (votes[i] >= 0) { unsigned count = 0;
        for (int k = 0; k < LONGEST * HITS; k++) count += votes[k] == votes[i]; best = max(best, count << 16 | (0xFFFF - votes[i])); }
    best = __reduce_max_sync(~0u, best);
    if (lane == 0) bucket[blockIdx.x] = best ? int(0xFFFF - (best & 0xFFFF)) - LONGEST / 16 : -1;
}
// Each lane has four rows (bases of the read), and goes along the columns one step behind the lane above it
__global__ void align(Result *results, uint16_t *runs, uint8_t *matrix, const Read *reads, const int *bucket, const uint32_t *ref)
{
    const Read &r = reads[blockIdx.x]; int lane = threadIdx.x, m = r.length; Result out = {-1, 0, 0, 0};
    int begin = window_begin(bucket[blockIdx.x], m); uint8_t *dir = matrix + (size_t)blockIdx.x * LONGEST * WINDOW;
    int left[4] = {0, 0, 0, 0}, e[4], mine[4], diagonal_above = 0, last_h = 0, last_f = -10000; unsigned best = 0;
    for (int k = 0; k < 4; k++) { e[k] = -10000; mine[k] = lane * 4 + k < m ? base_at(r.bases, lane * 4 + k) : 4; }
    for (int t = 0; t < WINDOW + 31; t++) {
        int above = __shfl_up_sync(~0u, last_h, 1), f = __shfl_up_sync(~0u, last_f, 1), j = t - lane;
        if (lane == 0) { above = 0; f = -10000; }
        if (j >= 0 && j < WINDOW) {
            int b = base_at(ref, begin + j), diagonal = diagonal_above, up = above; diagonal_above = above;
            for (int k = 0; k < 4; k++) {
                int i = lane * 4 + k, longer = e[k] + EXTEND >= left[k] + OPEN, taller = f + EXTEND >= up + OPEN;
                e[k] = __viaddmax_s32(e[k], EXTEND, left[k] + OPEN); f = __viaddmax_s32(f, EXTEND, up + OPEN);
                int d = diagonal + (mine[k] == b ? MATCH : MISMATCH), h = __vimax3_s32_relu(d, e[k], f);
                if (i < m) { dir[i * WINDOW + j] = (h == 0 ? 0 : h == d ? 1 : h == e[k] ? 2 : 3) | longer << 2 | taller << 3;
                    best = max(best, (unsigned)h << 16 | (0xFFFF - (i * WINDOW + j))); }
                diagonal = left[k]; left[k] = h; up = h;
            }
            last_h = up; last_f = f;
        }
    }
    best = __reduce_max_sync(~0u, best);
    __syncwarp();
    if (lane) return;
    uint16_t *o = runs + blockIdx.x * RUNS; int at = 0xFFFF - (best & 0xFFFF), i = at / WINDOW, j = at % WINDOW, state = 1, op = 0, length = 0;
    out.score = best >> 16;
    auto put = [&](int what) { if (what == op) length++; else { if (length && out.runs < RUNS) o[out.runs++] = length << 2 | op; op = what;
        length = 1; } };
    if (out.score) {
        out.begin_ref = begin;
        while (i >= 0 && j >= 0) {                          // states: 1 in H, 2 in a gap of the read, 3 in a gap of the reference
            uint8_t d = dir[i * WINDOW + j];
            if (state == 1) { if ((d & 3) == 0) break; if ((d & 3) == 1) { put(1); i--; j--; continue; } state = d & 3; }
            if (state == 2) { put(2); state = d & 4 ? 2 : 1; j--; } else { put(3); state = d & 8 ? 3 : 1; i--; }
        }
        if (length && out.runs < RUNS) o[out.runs++] = length << 2 | op;
        out.begin_ref = begin + j + 1; out.begin_read = i + 1;
    }
    results[blockIdx.x] = out;
}
__global__ void count_runs(int *counts, const Result *r, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) counts[i] = i < n ? r[i].runs : 0; }
__global__ void pack_runs(uint16_t *to, const uint16_t *runs, const int *starts) {
    for (int k = threadIdx.x; k < starts[blockIdx.x + 1] - starts[blockIdx.x]; k += 32) to[starts[blockIdx.x] + k] = runs[blockIdx.x * RUNS + k]; }
// The same in plain steps on the CPU
static std::vector<std::pair<uint32_t, int>> cpu_index;
static Result align_on_cpu(const Read &r, const uint32_t *ref, std::vector<uint16_t> &runs)
{
    std::vector<int> votes(4200 + LONGEST), dirs(LONGEST * WINDOW);
    for (int s = 0; s + K <= r.length; s++) {
        uint32_t key = 0; for (int k = 0; k < K; k++) key = key << 2 | base_at(r.bases, s + k);
        auto at = std::lower_bound(cpu_index.begin(), cpu_index.end(), std::make_pair(key, -1));
        for (int k = 0; k < HITS && at != cpu_index.end() && at->first == key; k++, ++at) votes[(at->second - s + LONGEST) / 16]++;
    }
    int top = int(std::max_element(votes.begin(), votes.end()) - votes.begin()), begin = window_begin(votes[top] ? top - LONGEST / 16 : -1, r.length);
    static const int LOW = -10000; int h[WINDOW], f[WINDOW], bases[WINDOW], best = 0, bi = 0, bj = 0;
    for (int j = 0; j < WINDOW; j++) { h[j] = 0; f[j] = LOW; bases[j] = base_at(ref, begin + j); }
    for (int i = 0; i < r.length; i++) {
        int diagonal = 0, left = 0, e = LOW, mine = base_at(r.bases, i); int *row = &dirs[i * WINDOW];
        for (int j = 0; j < WINDOW; j++) {
            int longer = e + EXTEND >= left + OPEN, taller = f[j] + EXTEND >= h[j] + OPEN; e = longer ? e + EXTEND : left + OPEN;
            f[j] = taller ? f[j] + EXTEND : h[j] + OPEN;
            int d = diagonal + (mine == bases[j] ? MATCH : MISMATCH), v = d > e ? d : e; v = f[j] > v ? f[j] : v; v = v > 0 ? v : 0;
            row[j] = (v == 0 ? 0 : v == d ? 1 : v == e ? 2 : 3) | longer << 2 | taller << 3;
            if (v > best) { best = v; bi = i; bj = j; }
            diagonal = h[j]; h[j] = v; left = v;
        }
    }
    Result out = {-1, 0, best, 0}; int state = 1, i = bi, j = bj; std::vector<int> ops;
    if (!best) return out;
    while (i >= 0 && j >= 0) {
        int d = dirs[i * WINDOW + j];
        if (state == 1) { if (!(d & 3)) break; if ((d & 3) == 1) { ops.push_back(1); i--; j--; continue; } state = d & 3; }
        if (state == 2) { ops.push_back(2); state = d & 4 ? 2 : 1; j--; } else { ops.push_back(3); state = d & 8 ? 3 : 1; i--; }
    }
    for (size_t k = 0; k < ops.size();) { size_t n = k; while (n < ops.size() && ops[n] == ops[k]) n++;
        if (out.runs < RUNS) { runs.push_back(uint16_t((n - k) << 2 | ops[k])); out.runs++; } k = n; }
    out.begin_ref = begin + j + 1; out.begin_read = i + 1;
    return out;
}
struct Batch { Read *reads; int count; std::vector<Result> results; std::vector<uint16_t> runs; };
struct Queue {
    std::mutex lock; std::condition_variable some; std::deque<Batch *> items;
    void put(Batch *b) { { std::lock_guard<std::mutex> l(lock); items.push_back(b); } some.notify_one(); }
    Batch *get() { std::unique_lock<std::mutex> l(lock); some.wait(l, [&] { return !items.empty(); }); Batch *b = items.front(); items.pop_front();
        return b; }
};
int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull; uint32_t seed = 5;
    auto next = [&seed](int below) { seed = seed * 1664525u + 1013904223u; return int((seed >> 8) % below); };
    std::vector<uint32_t> ref(REF / 16 + 1); auto set = [&](int i, uint32_t b) { ref[i / 16] = (ref[i / 16] & ~(3u << i % 16 * 2)) | b << i % 16 * 2;
        };
    for (int i = 0; i < REF; i++) set(i, i > 5000 && i % 9000 < 700 ? base_at(ref.data(), i - 4500) : next(4));     // with repetitions
    for (int i = 0; i + K <= REF; i++) { uint32_t key = 0; for (int k = 0; k < K; k++) key = key << 2 | base_at(ref.data(), i + k);
        cpu_index.push_back({key, i}); }
    std::sort(cpu_index.begin(), cpu_index.end());
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); uint32_t *dref, *keys[2]; int *positions[2], n = REF - K + 1;
    CK(cudaMalloc(&dref, ref.size() * 4)); for (int k = 0; k < 2; k++) { CK(cudaMalloc(&keys[k], n * 4)); CK(cudaMalloc(&positions[k], n * 4)); }
    CK(cudaMemcpyAsync(dref, ref.data(), ref.size() * 4, cudaMemcpyHostToDevice, s));
    index_keys<<<REF / 256, 256, 0, s>>>(keys[0], positions[0], dref);
    size_t room = 0; void *temp; CK(cub::DeviceRadixSort::SortPairs(nullptr, room, keys[0], keys[1], positions[0], positions[1], n, 0, 2 * K, s));
    CK(cudaMallocAsync(&temp, room, s));
    CK(cub::DeviceRadixSort::SortPairs(temp, room, keys[0], keys[1], positions[0], positions[1], n, 0, 2 * K, s)); CK(cudaFreeAsync(temp, s));
    CK(cudaStreamSynchronize(s)); CK(cudaFree(keys[0])); CK(cudaFree(positions[0]));
    Queue empty, packed, aligned; Batch slots[SLOTS]; for (Batch &b : slots) { CK(cudaMallocHost(&b.reads, MOST * sizeof(Read))); empty.put(&b); }
    std::thread maker([&] {
        for (int batch = 0; batch < BATCHES; batch++) {
            Batch *b = empty.get(); b->count = 150 + next(MOST - 150);
            for (int r = 0; r < b->count; r++) {
                Read &read = b->reads[r]; memset(&read, 0, sizeof read); read.length = 80 + next(LONGEST - 80);
                int at = next(REF - 2 * LONGEST), noise = next(12) == 0;
                for (int i = 0; i < read.length; i++) {
                    int kind = next(100); if (kind == 0) at++; uint32_t base = noise || kind < 5 && kind > 1 ? next(4) : base_at(ref.data(), at);
                    if (kind != 1) at++;
                    read.bases[i / 16] |= base << i % 16 * 2;
                }
            }
            packed.put(b);
        }
    });
    std::thread aligner([&] {
        for (int batch = 0; batch < BATCHES; batch++) {
            Batch *b = packed.get(); int c = b->count, total = 0; Read *reads; int *bucket, *counts, *starts; Result *results; uint16_t *runs, *tight;
            uint8_t *matrix; void *scratch; size_t bytes = 0;
            CK(cudaMallocAsync(&reads, c * sizeof(Read), s)); CK(cudaMallocAsync(&bucket, c * 4, s));
            CK(cudaMallocAsync(&results, c * sizeof(Result), s)); CK(cudaMallocAsync(&runs, c * RUNS * 2, s));
            CK(cudaMallocAsync(&matrix, (size_t)c * LONGEST * WINDOW, s)); CK(cudaMallocAsync(&counts, (c + 1) * 4, s));
            CK(cudaMallocAsync(&starts, (c + 1) * 4, s));
            CK(cudaMemcpyAsync(reads, b->reads, c * sizeof(Read), cudaMemcpyHostToDevice, s));
            find<<<c, 32, 0, s>>>(bucket, reads, keys[1], positions[1]); align<<<c, 32, 0, s>>>(results, runs, matrix, reads, bucket, dref);
            CK(cudaGetLastError()); CK(cudaFreeAsync(matrix, s));
            count_runs<<<(c + 128) / 128, 128, 0, s>>>(counts, results, c);
            CK(cub::DeviceScan::ExclusiveSum(nullptr, bytes, counts, starts, c + 1, s)); CK(cudaMallocAsync(&scratch, bytes, s));
            CK(cub::DeviceScan::ExclusiveSum(scratch, bytes, counts, starts, c + 1, s));
            b->results.resize(c); CK(cudaMemcpyAsync(b->results.data(), results, c * sizeof(Result), cudaMemcpyDeviceToHost, s));
            CK(cudaMemcpyAsync(&total, starts + c, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            b->runs.resize(total); CK(cudaMallocAsync(&tight, total * 2, s)); pack_runs<<<c, 32, 0, s>>>(tight, runs, starts); CK(cudaGetLastError());
            CK(cudaMemcpyAsync(b->runs.data(), tight, total * 2, cudaMemcpyDeviceToHost, s));
            for (void *p : {(void *)tight, (void *)reads, scratch, (void *)bucket, (void *)counts, (void *)results, (void *)runs, (void *)starts})
                CK(cudaFreeAsync(p, s));
            CK(cudaStreamSynchronize(s)); aligned.put(b);
        }
    });
    long perfect = 0, gaps = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        Batch *b = aligned.get(); std::vector<uint16_t> runs; int bad = 0;
        for (int r = 0; r < b->count; r++) {
            Result e = align_on_cpu(b->reads[r], ref.data(), runs), &g = b->results[r]; bad += memcmp(&e, &g, sizeof e) != 0; perfect += e.runs == 1;
            gaps += e.runs > 1;
            for (int v : {g.begin_ref, g.begin_read, g.score, g.runs}) checksum = (checksum ^ (uint32_t)v) * 1099511628211ull;
        }
        bad += runs != b->runs; for (uint16_t v : b->runs) checksum = (checksum ^ v) * 1099511628211ull;
        if (bad) { wrong++; printf("batch %d: %d of %d wrong\n", batch, bad, b->count); }
        empty.put(b);
    }
    maker.join(); aligner.join();
    for (Batch &b : slots) CK(cudaFreeHost(b.reads)); CK(cudaFree(dref)); CK(cudaFree(keys[1])); CK(cudaFree(positions[1])); CK(cudaStreamDestroy(s));
    printf("%ld reads without gaps, %ld with\n", perfect, gaps);
    printf("aligner: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
