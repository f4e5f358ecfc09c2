// A data frame library with columns of strings: a batch of columns is packed into one allocation out of an arena, its tree of descriptors carries
// pointers that the host has worked out; kernels make string views (address, length, row), which are sorted by what they point to, selected,
// fetched, decoded, picked out by the host and put back; unique strings are gathered into new columns, summed by group, and joined by hash with the
// previous batch's. Two threads, each with an arena and a stream.
#include <cub/cub.cuh>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

typedef unsigned long long u64;
struct View { const char *p; int length, row; };            // p == nullptr: a null
enum Type : int { STRUCT, STRING, INT8, INT32, INT64 };
struct Column { Type type; int size; void *data; const uint32_t *valid; Column *children; int child_count, reserved; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline int compare(const char *a, int la, const char *b, int lb)
{
    for (int i = 0; i < la && i < lb; i++) if (a[i] != b[i]) return (unsigned char)a[i] < (unsigned char)b[i] ? -1 : 1;
    return la - lb;
}
struct Less {                                               // nulls last, equal ones in the order of their rows
    __device__ bool operator()(const View &a, const View &b) const
    {
        if (!a.p || !b.p) return a.p ? true : b.p ? false : a.row < b.row;
        int c = compare(a.p, a.length, b.p, b.length); return c ? c < 0 : a.row < b.row;
    }
};
__device__ inline uint32_t hash_of(const View &v) { uint32_t h = 2166136261u;
    for (int i = 0; i < v.length; i++) h = (h ^ (unsigned char)v.p[i]) * 16777619u; return h; }

__global__ void make_views(View *views, const Column *root)
{
    const Column &s = root->children[0]; const int *offsets = (const int *)s.children[0].data; const char *chars = (const char *)s.children[1].data;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < s.size; i += gridDim.x * blockDim.x) {
        bool ok = s.valid[i / 32] >> (i % 32) & 1;
        views[i] = {ok ? chars + offsets[i] : nullptr, ok ? offsets[i + 1] - offsets[i] : 0, i};
    }
}
__global__ void heads(uint32_t *flags, const View *v, int n)                  // where another string begins; nulls make no group
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) flags[i] = v[i].p && (i == 0 || compare(v[i].p, v[i].length, v[i - 1].p, v[i - 1].length) != 0);
}
__global__ void add_up(u64 *sums, const View *v, const uint32_t *group, const Column *root, int n)    // group: inclusive sums of the flags
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && v[i].p) atomicAdd(&sums[group[i] - 1], ((const u64 *)root->children[1].data)[v[i].row]);
}
__global__ void lengths(int *out, const View *v, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = i < n ? v[i].length + 1 : 0; }
__global__ void gather_upper(char *chars, const int *offsets, View *v, int n)        // and the views look at the new place from then on
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= n) return;
    View old = v[i]; char *to = chars + offsets[i];
    for (int c = lane; c < old.length; c += 32) to[c] = old.p[c] >= 'a' && old.p[c] <= 'z' ? old.p[c] - 32 : old.p[c];
    if (lane == 0) to[old.length] = '\n';
    __syncwarp();
    if (lane == 0) v[i].p = to;
}
// where a view comes to lie depends on the race, what is found does not
__global__ void build(const View **table, uint32_t mask, const View *v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (uint32_t at = hash_of(v[i]) & mask;; at = (at + 1) & mask) if (atomicCAS((u64 *)&table[at], 0ull, (u64)&v[i]) == 0) return;
}
__global__ void probe(int *found, const View *const *table, uint32_t mask, const View *v, int n, const View *first)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    found[i] = -1;
    for (uint32_t at = hash_of(v[i]) & mask; table[at]; at = (at + 1) & mask)
        if (compare(table[at]->p, table[at]->length, v[i].p, v[i].length) == 0) { found[i] = int(table[at] - first); return; }
}

// Memory by pieces of one large allocation; given back all at once, half by half, as batches take turns
struct Arena {
    char *base; size_t half = 24 << 20, used[2] = {0, 0}; int turn = 0;
    Arena() { CK(cudaMalloc(&base, half * 2)); }
    ~Arena() { CK(cudaFree(base)); }
    void flip() { turn ^= 1; used[turn] = 0; }
    template <class T> T *take(size_t n) { size_t at = used[turn]; used[turn] = (at + n * sizeof(T) + 63) & ~size_t(63);
        if (used[turn] > half) { fprintf(stderr, "arena full\n"); exit(2); } return (T *)(base + turn * half + at); }
};

struct Batch { std::vector<int> offsets; std::string chars; std::vector<uint32_t> valid; std::vector<u64> values; int n; };
static Batch generate(int seed)
{
    static const char *words[] = {"straw", "strawberry", "berry", "", "iron", "ironic", "z", "needle", "needles", "0x", "alpha", "alphabet"};
    Batch b; b.n = 15000 + seed * 501; b.offsets.push_back(0); b.valid.assign((b.n + 31) / 32, 0);
    for (int i = 0; i < b.n; i++) {
        uint32_t h = mix(i * 31 + seed); std::string s = words[h % 12];
        if (h & 0x1000) s += "-" + std::to_string((h >> 16) % (300 + seed)); if ((h & 0x6000) == 0) s += words[(h >> 9) % 12];
        if (h % 13) b.valid[i / 32] |= 1u << (i % 32); else s.clear();
        b.chars += s; b.offsets.push_back((int)b.chars.size()); b.values.push_back(u64(h) * (i + 1));
    }
    return b;
}

static int worker(int id, u64 &checksum)
{
    Arena arena; cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    char *pinned; CK(cudaMallocHost(&pinned, 4 << 20));
    int wrong = 0; View *previous = nullptr; std::vector<std::string> previous_strings;
    for (int batch = 0; batch < 6; batch++) {
        Batch b = generate(id * 40 + batch * 3); int n = b.n, blocks = (n + 255) / 256;
        arena.flip();
        // All parts in one piece, descriptors first, and one copy brings it over
        size_t at_offsets, at_valid, at_values, at_chars, total;
        at_offsets = (5 * sizeof(Column) + 63) & ~size_t(63); at_valid = (at_offsets + (n + 1) * 4 + 63) & ~size_t(63);
        at_values = (at_valid + b.valid.size() * 4 + 63) & ~size_t(63);
        at_chars = at_values + n * 8; total = at_chars + b.chars.size();
        char *packed = arena.take<char>(total); Column *c = (Column *)pinned, *dc = (Column *)packed; memset(c, 0, 5 * sizeof *c);
        c[0] = {STRUCT, n, nullptr, nullptr, dc + 1, 2, 0}; c[1] = {STRING, n, nullptr, (uint32_t *)(packed + at_valid), dc + 3, 2, 0};
        c[2] = {INT64, n, packed + at_values, nullptr, nullptr, 0, 0}; c[3] = {INT32, n + 1, packed + at_offsets, nullptr, nullptr, 0, 0};
        c[4] = {INT8, (int)b.chars.size(), packed + at_chars, nullptr, nullptr, 0, 0};
        memcpy(pinned + at_offsets, b.offsets.data(), (n + 1) * 4); memcpy(pinned + at_valid, b.valid.data(), b.valid.size() * 4);
        memcpy(pinned + at_values, b.values.data(), n * 8); memcpy(pinned + at_chars, b.chars.data(), b.chars.size());
        CK(cudaMemcpyAsync(packed, pinned, total, cudaMemcpyHostToDevice, s));

        View *views = arena.take<View>(n), *unique = arena.take<View>(n); uint32_t *flags = arena.take<uint32_t>(n), *group = arena.take<uint32_t>(n);
        int *count = arena.take<int>(1);
        make_views<<<64, 256, 0, s>>>(views, dc);
        size_t need[4]; cub::DeviceMergeSort::SortKeys(nullptr, need[0], views, n, Less(), s);
        cub::DeviceSelect::Flagged(nullptr, need[1], views, flags, unique, count, n, s);
        cub::DeviceScan::InclusiveSum(nullptr, need[2], flags, group, n, s);
        cub::DeviceScan::ExclusiveSum(nullptr, need[3], (int *)group, (int *)flags, n, s);
        size_t room = *std::max_element(need, need + 4); char *temp = arena.take<char>(room);
        CK(cub::DeviceMergeSort::SortKeys(temp, room, views, n, Less(), s));
        heads<<<blocks, 256, 0, s>>>(flags, views, n);
        CK(cub::DeviceSelect::Flagged(temp, room, views, flags, unique, count, n, s));
        CK(cub::DeviceScan::InclusiveSum(temp, room, flags, group, n, s));
        int m = 0; std::vector<View> sorted(n);
        CK(cudaMemcpyAsync(sorted.data(), views, n * sizeof(View), cudaMemcpyDeviceToHost, s));
        CK(cudaMemcpyAsync(&m, count, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));

        // The CPU sorts the same, and decodes the addresses that it got
        auto text = [&](int row) { return b.chars.substr(b.offsets[row], b.offsets[row + 1] - b.offsets[row]); };
        auto valid = [&](int row) { return b.valid[row / 32] >> (row % 32) & 1; };
        std::vector<int> rows(n); for (int i = 0; i < n; i++) rows[i] = i;
        std::stable_sort(rows.begin(), rows.end(), [&](int x, int y) { if (!valid(x) || !valid(y)) return valid(x) && !valid(y);
            return text(x) < text(y); });
        std::map<std::string, u64> sums;
        for (int i = 0; i < n; i++) {
            long offset = sorted[i].p ? long(sorted[i].p - (packed + at_chars)) : -1;
            wrong += sorted[i].row != rows[i] || offset != (valid(rows[i]) ? b.offsets[rows[i]] : -1);
            checksum = (checksum ^ (u64)(offset * 64 + sorted[i].length)) * 1099511628211ull;
            if (valid(i)) sums[text(i)] += b.values[i];
        }
        wrong += m != (int)sums.size();
        u64 *device_sums = arena.take<u64>(m); CK(cudaMemsetAsync(device_sums, 0, m * 8, s));
        add_up<<<blocks, 256, 0, s>>>(device_sums, views, group, dc, n);

        // The host throws out every fifth of the unique views, and puts one of its own making at the end
        std::vector<View> chosen(m); CK(cudaMemcpyAsync(chosen.data(), unique, m * sizeof(View), cudaMemcpyDeviceToHost, s));
        std::vector<u64> got_sums(m); CK(cudaMemcpyAsync(got_sums.data(), device_sums, m * 8, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        int g = 0; std::vector<std::string> strings;
        for (auto &e : sums) { wrong += got_sums[g] != e.second; checksum = (checksum ^ got_sums[g]) * 1099511628211ull;
            if (g % 5 != 4) strings.push_back(e.first); g++; }
        std::vector<View> kept; for (int i = 0; i < m; i++) if (i % 5 != 4) kept.push_back(chosen[i]);
        kept.push_back({packed + at_chars + 100, 50, -1}); strings.push_back(b.chars.substr(100, 50)); int k = (int)kept.size();
        CK(cudaMemcpyAsync(unique, kept.data(), k * sizeof(View), cudaMemcpyHostToDevice, s)); kept.assign(k, View());
        int *sizes = arena.take<int>(k + 1), *starts = arena.take<int>(k + 1), bytes = 0;
        lengths<<<(k + 256) / 256, 256, 0, s>>>(sizes, unique, k); CK(cub::DeviceScan::ExclusiveSum(temp, room, sizes, starts, k + 1, s));
        CK(cudaMemcpyAsync(&bytes, starts + k, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        char *gathered = arena.take<char>(bytes); gather_upper<<<(k * 32 + 255) / 256, 256, 0, s>>>(gathered, starts, unique, k);
        std::string got(bytes, 0), expected; CK(cudaMemcpyAsync(&got[0], gathered, bytes, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        for (auto &t : strings) { for (char &ch : t) if (ch >= 'a' && ch <= 'z') ch -= 32; expected += t + "\n"; }
        wrong += got != expected; for (char ch : got) checksum = (checksum ^ (unsigned char)ch) * 1099511628211ull;

        if (previous) {                                     // the previous batch's column is in the arena's other half
            uint32_t mask = 32767; const View **table = arena.take<const View *>(mask + 1);
            int *found = arena.take<int>(k), p = (int)previous_strings.size() - 1;
            CK(cudaMemsetAsync(table, 0, (mask + 1) * 8, s));
            build<<<(p + 127) / 128, 128, 0, s>>>(table, mask, previous, p);     // without the last one, which need not be unique
            probe<<<(k + 127) / 128, 128, 0, s>>>(found, table, mask, unique, k, previous); CK(cudaGetLastError());
            std::vector<int> matches(k); CK(cudaMemcpyAsync(matches.data(), found, k * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            std::map<std::string, int> index; for (int i = 0; i < p; i++) index[previous_strings[i]] = i;
            for (int i = 0; i < k; i++) { auto e = index.find(strings[i]); wrong += matches[i] != (e == index.end() ? -1 : e->second);
                checksum = (checksum ^ (uint32_t)matches[i]) * 1099511628211ull; }
        }
        previous = unique; previous_strings = strings;
    }
    CK(cudaStreamDestroy(s)); CK(cudaFreeHost(pinned));
    return wrong;
}

int main()
{
    u64 sums[2] = {14695981039346656037ull, 14695981039346656037ull}; int wrong[2];
    std::thread threads[2]; for (int t = 0; t < 2; t++) threads[t] = std::thread([&, t] { wrong[t] = worker(t, sums[t]); });
    for (auto &t : threads) t.join();
    printf("thread 0: wrong %d, thread 1: wrong %d\n", wrong[0], wrong[1]);
    printf("strcols: checksum %016llx wrong %d\n", sums[0] * 31 ^ sums[1], wrong[0] + wrong[1]);
    return wrong[0] + wrong[1] != 0;
}
