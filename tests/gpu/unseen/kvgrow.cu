// A table of keys and values on the GPU: batches of upserts, lookups and removals, growth to twice the size with a rehash, copies
// from pageable and pinned memory, columns taken out of records by 2D copies with odd pitches, boxes by 3D copies, batched copies,
// and some driver functions got by their entry points.
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #x, (int)e_); exit(2); } } while (0)

constexpr uint32_t EMPTY = 0xffffffffu, NONE = 0xfffffffeu;
constexpr int BATCH = 3000;
static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }

struct Table { uint32_t *keys, *values, *counters; uint32_t capacity; };        // counters: entries, tombstones (values of NONE)

__device__ void put(Table t, uint32_t key, uint32_t value, bool count) {        // the largest value of a key wins
    for (uint32_t at = mix(key) & (t.capacity - 1);; at = (at + 1) & (t.capacity - 1)) {
        uint32_t seen = atomicCAS(&t.keys[at], EMPTY, key);
        if (seen == EMPTY && count) atomicAdd(&t.counters[0], 1);
        if (seen == EMPTY || seen == key) { atomicMax(&t.values[at], value); return; }
    }
}
__device__ int64_t find(Table t, uint32_t key) {
    for (uint32_t at = mix(key) & (t.capacity - 1);; at = (at + 1) & (t.capacity - 1)) {
        uint32_t seen = t.keys[at];
        if (seen == key) return at;
        if (seen == EMPTY) return -1;
    }
}
__global__ void upsert(Table t, const uint32_t *keys, const uint32_t *values, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) put(t, keys[i], values[i], true); }
__global__ void lookup(Table t, const uint32_t *keys, uint32_t *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { int64_t at = find(t, keys[i]); out[i] = at < 0 ? NONE : t.values[at]; }
}
__global__ void reset(Table t, const uint32_t *keys, int n) {       // values go back to nothing, the keys stay
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { int64_t at = find(t, keys[i]); if (at >= 0 && atomicExch(&t.values[at], 0)) atomicAdd(&t.counters[1], 1); }
}
__global__ void rehash(Table to, Table from) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < from.capacity; i += gridDim.x * blockDim.x)
        if (from.keys[i] != EMPTY) put(to, from.keys[i], from.values[i], false);
}
__global__ void spread(Table t, unsigned long long *out) {          // a sum that does not depend on where the entries are
    unsigned long long s = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < t.capacity; i += gridDim.x * blockDim.x) if (t.keys[i] != EMPTY) s += (unsigned long long)mix(t.keys[i]) * (t.values[i] + 1ull);
    atomicAdd(out, s);
}

typedef CUresult (*Set32)(CUdeviceptr, unsigned, size_t, CUstream);
typedef CUresult (*Copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
typedef CUresult (*Range)(CUdeviceptr *, size_t *, CUdeviceptr);
static Set32 set32; static Copy copy_dtod; static Range address_range;
template <class F> static void entry(const char *name, F &f, unsigned version) {
    void *p = nullptr; cudaDriverEntryPointQueryResult r;
    CK(cudaGetDriverEntryPointByVersion(name, &p, version, cudaEnableDefault, &r));
    if (r != cudaDriverEntryPointSuccess || !p) { fprintf(stderr, "no %s\n", name); exit(2); }
    f = (F)p;
}

static Table make(uint32_t capacity, uint32_t *counters, cudaStream_t s) {
    Table t = {nullptr, nullptr, counters, capacity};
    CK(cudaMalloc(&t.keys, capacity * 4)); CK(cudaMalloc(&t.values, capacity * 4));
    CU(set32((CUdeviceptr)t.keys, EMPTY, capacity, s));
    CK(cudaMemsetAsync(t.values, 0, capacity * 4, s));
    return t;
}
static void grow(Table &t, cudaStream_t s) {
    CUdeviceptr base; size_t bytes; CU(address_range(&base, &bytes, (CUdeviceptr)t.keys)); wrong += base != (CUdeviceptr)t.keys || bytes < t.capacity * 4;
    Table larger = make(t.capacity * 2, t.counters, s);
    rehash<<<64, 256, 0, s>>>(larger, t);
    CK(cudaGetLastError());
    CK(cudaStreamSynchronize(s));
    CK(cudaFree(t.keys)); CK(cudaFree(t.values));
    t = larger;
}
#pragma pack(push, 1)
struct Record { uint32_t key; uint8_t tag[3]; uint32_t value; uint8_t rest[2]; };      // 13 bytes: no pitch that anyone likes
#pragma pack(pop)

int main() {
    CK(cudaSetDevice(0));
    CK(cudaFree(0));
    entry("cuMemsetD32Async", set32, 12000); entry("cuMemcpyDtoDAsync", copy_dtod, 12000); entry("cuMemGetAddressRange", address_range, 12000);
    cudaStream_t s, side; cudaEvent_t e;
    CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaStreamCreate(&side)); CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    uint32_t *counters, *keys, *values, *out, *spare, *pinned; unsigned long long *total; Record *records;
    CK(cudaMalloc(&counters, 8)); CK(cudaMemset(counters, 0, 8)); CK(cudaMalloc(&keys, BATCH * 4)); CK(cudaMalloc(&values, BATCH * 4));
    CK(cudaMalloc(&out, BATCH * 4)); CK(cudaMalloc(&spare, BATCH * 4)); CK(cudaMalloc(&total, 8));
    CK(cudaMallocHost(&pinned, BATCH * 4 * 3)); CK(cudaMallocHost(&records, BATCH * sizeof(Record)));
    CK(cudaDeviceSynchronize());
    Table t = make(2048, counters, s); uint32_t resets = 0; int grown = 0;
    std::map<uint32_t, uint32_t> reference;
    std::vector<uint32_t> k(BATCH), v(BATCH), got(BATCH);
    for (int round = 0; round < 40; round++) {
        int n = BATCH - (round * 131) % 1000;
        for (int i = 0; i < n; i++) { k[i] = mix(mix(round * 5000 + i) % 60000) >> 1; v[i] = 1 + mix(i * 3 + round) % 1000000; }
        uint32_t count[2];
        CK(cudaMemcpyAsync(count, counters, 8, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        while ((count[0] + n) * 2 > t.capacity) { grow(t, s); grown++; }
        switch (round % 5) {                                // the batch gets there in five ways
            case 0:
                CK(cudaMemcpy(keys, k.data(), n * 4, cudaMemcpyHostToDevice)); CK(cudaMemcpyAsync(values, v.data(), n * 4, cudaMemcpyHostToDevice, s));
                CK(cudaDeviceSynchronize());
                break;
            case 1:
                memcpy(pinned, k.data(), n * 4); memcpy(pinned + BATCH, v.data(), n * 4);
                CK(cudaMemcpyAsync(keys, pinned, n * 4, cudaMemcpyHostToDevice, side)); CK(cudaMemcpyAsync(values, pinned + BATCH, n * 4, cudaMemcpyHostToDevice, side));
                CK(cudaEventRecord(e, side)); CK(cudaStreamWaitEvent(s, e, 0));
                break;
            case 2:                                         // two columns of the records
                for (int i = 0; i < n; i++) { records[i].key = k[i]; records[i].value = v[i]; memset(records[i].tag, 7, 3); memset(records[i].rest, 9, 2); }
                CK(cudaMemcpy2DAsync(keys, 4, &records[0].key, sizeof(Record), 4, n, cudaMemcpyHostToDevice, s));
                CK(cudaMemcpy2DAsync(values, 4, (char *)records + 7, sizeof(Record), 4, n, cudaMemcpyDefault, s));
                break;
            case 3: {                                       // a batch of copies: keys from the CPU, values in pieces, some by the device
                memcpy(pinned, k.data(), n * 4); memcpy(pinned + BATCH, v.data(), n * 4);
                int cut = n / 3;
                CU(set32((CUdeviceptr)spare, 5, BATCH, s));
                CK(cudaMemcpyAsync(spare, pinned + BATCH, cut * 4, cudaMemcpyHostToDevice, s));
                void *dsts[] = {keys, values + cut, values, keys + cut}; const void *srcs[] = {pinned, pinned + BATCH + cut, spare, pinned + cut};
                size_t sizes[] = {(size_t)cut * 4, (size_t)(n - cut) * 4, (size_t)cut * 4, (size_t)(n - cut) * 4}, first[] = {0, 2};
                cudaMemcpyAttributes attributes[2]; memset(attributes, 0, sizeof attributes);
                attributes[0].srcAccessOrder = attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderStream; attributes[1].flags = cudaMemcpyFlagPreferOverlapWithCompute;
                CK(cudaMemcpyBatchAsync(dsts, srcs, sizes, 4, attributes, first, 2, s));
                break;
            }
            default: {                                      // a box: rows of 50 keys out of a wider block, two slices
                n = 2 * 20 * 50;
                const int width = 53, height = 21; std::vector<uint32_t> block(width * height * 2, 123);
                for (int i = 0; i < n; i++) block[(i / 1000 * height + i % 1000 / 50) * width + i % 50] = k[i];
                cudaPitchedPtr box; CK(cudaMalloc3D(&box, make_cudaExtent(50 * 4, 20, 2)));
                cudaMemcpy3DParms c = {}; c.srcPtr = make_cudaPitchedPtr(block.data(), width * 4, width * 4, height); c.dstPtr = box;
                c.extent = make_cudaExtent(50 * 4, 20, 2); c.kind = cudaMemcpyHostToDevice;
                CK(cudaMemcpy3DAsync(&c, s));
                CK(cudaMemcpy2DAsync(keys, 50 * 4, box.ptr, box.pitch, 50 * 4, 40, cudaMemcpyDeviceToDevice, s));
                CK(cudaMemcpyAsync(pinned, v.data(), n * 4, cudaMemcpyHostToHost, s));
                CK(cudaMemcpyAsync(spare, pinned, n * 4, cudaMemcpyHostToDevice, s));
                CU(copy_dtod((CUdeviceptr)values, (CUdeviceptr)spare, n * 4, s));
                CK(cudaStreamSynchronize(s));
                CK(cudaFree(box.ptr));
            }
        }
        upsert<<<(n + 127) / 128, 128, 0, s>>>(t, keys, values, n);
        CK(cudaGetLastError());
        for (int i = 0; i < n; i++) { uint32_t &r = reference[k[i]]; r = std::max(r, v[i]); }
        CK(cudaStreamSynchronize(s));                       // pinned and records are free again

        // Ask for some that are there and some that are not; the answer into a column of records, or plain.
        for (int i = 0; i < n; i++) k[i] = i % 3 ? k[i] : mix(i + round * 77) >> 1;
        CK(cudaMemcpyAsync(keys, k.data(), n * 4, cudaMemcpyHostToDevice, s));
        lookup<<<(n + 63) / 64, 64, 0, s>>>(t, keys, out, n);
        CK(cudaGetLastError());
        if (round % 2) {
            memset(records, 0x33, BATCH * sizeof(Record));
            CK(cudaMemcpy2DAsync((char *)records + 7, sizeof(Record), out, 4, 4, n, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            for (int i = 0; i < n; i++) { got[i] = records[i].value; wrong += records[i].key != 0x33333333u || records[i].rest[1] != 0x33; }
        } else { CK(cudaMemcpyAsync(got.data(), out, n * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); }
        int bad = 0;
        for (int i = 0; i < n; i++) { auto r = reference.find(k[i]); uint32_t x = r == reference.end() ? NONE : r->second; bad += x != got[i]; fold(got[i]); }
        if (bad) { wrong++; fprintf(stderr, "round %d: %d lookups of %d\n", round, bad, n); }
        if (round % 4 == 3) {
            reset<<<(n + 255) / 256, 256, 0, s>>>(t, keys, n / 2);
            for (int i = 0; i < n / 2; i++) { auto r = reference.find(k[i]); if (r != reference.end() && r->second) { r->second = 0; resets++; } }
        }
        CK(cudaMemsetAsync(total, 0, 8, s));
        spread<<<32, 256, 0, s>>>(t, total);
        unsigned long long seen, expected = 0;
        CK(cudaMemcpyAsync(&seen, total, 8, cudaMemcpyDeviceToHost, s)); CK(cudaMemcpyAsync(count, counters, 8, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        for (auto &r : reference) expected += (unsigned long long)mix(r.first) * (r.second + 1ull);
        if (seen != expected || count[0] != reference.size() || count[1] != resets) { wrong++; fprintf(stderr, "round %d: the table differs\n", round); }
        fold(seen); fold(count[0]);
    }
    wrong += grown < 4; fold(grown); fold(t.capacity);
    for (void *p : {(void *)t.keys, (void *)t.values, (void *)counters, (void *)keys, (void *)values, (void *)out, (void *)spare, (void *)total}) CK(cudaFree(p));
    CK(cudaFreeHost(pinned)); CK(cudaFreeHost(records)); CK(cudaStreamDestroy(s)); CK(cudaStreamDestroy(side)); CK(cudaEventDestroy(e));
    printf("kvgrow: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
