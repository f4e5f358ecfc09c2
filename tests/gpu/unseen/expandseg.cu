// nvcc: DRIVER
// Expandable segments: reserved address ranges filled with physical pieces as they are needed, pieces taken out of the middle
// and put elsewhere, one piece seen at two addresses, pieces kept alive by handles got back from their addresses.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

__global__ void fill(uint32_t *p, size_t n, uint32_t seed) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) p[i] = (uint32_t)i * 2654435761u ^ seed; }
__global__ void add(uint32_t *p, size_t n, uint32_t k) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) p[i] += k; }
__global__ void digest(const uint32_t *p, size_t n, unsigned long long *to) {
    unsigned long long s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) s += (unsigned long long)p[i] * (i % 1021 + 1);
    atomicAdd(to, s);
}
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
static CUfunction fill_f, add_f, digest_f;
static CUstream stream;
template <class... A> static void launch(CUfunction f, A... a) { void *args[] = {&a...}; CU(cuLaunchKernel(f, 64, 1, 1, 256, 1, 1, 0, stream, args, nullptr)); }

static CUmemAllocationProp properties;
static size_t page;
static int wrong = 0;
static uint64_t checksum = 14695981039346656037ull;

// The segment: pages come and go at any place; the model on the CPU knows what must be in each.
struct Segment {
    CUdeviceptr base; size_t pages; std::map<size_t, CUmemGenericAllocationHandle> mapped;
    explicit Segment(size_t count) : pages(count) { CU(cuMemAddressReserve(&base, count * page, 0, 0, 0)); }
    CUdeviceptr at(size_t i) const { return base + i * page; }
    void access(size_t i, size_t count, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) { CUmemAccessDesc d = {}; d.location = properties.location; d.flags = flags; CU(cuMemSetAccess(at(i), count * page, &d, 1)); }
    void put(size_t i, CUmemGenericAllocationHandle h) { CU(cuMemMap(at(i), page, 0, h, 0)); mapped[i] = h; }
    void grow(size_t from, size_t count) {          // as in an allocator: pieces of one page, access for all at once
        for (size_t i = from; i < from + count; i++) { CUmemGenericAllocationHandle h; CU(cuMemCreate(&h, page, &properties, 0)); put(i, h); }
        access(from, count);
    }
    CUmemGenericAllocationHandle take(size_t i) { CU(cuStreamSynchronize(stream)); CUmemGenericAllocationHandle h = mapped[i]; CU(cuMemUnmap(at(i), page)); mapped.erase(i); return h; }
    void drop(size_t i) { CU(cuMemRelease(take(i))); }
    ~Segment() { while (!mapped.empty()) drop(mapped.begin()->first); CU(cuMemAddressFree(base, pages * page)); }
};
static unsigned long long *result;                  // pinned; the kernel's atomics go to device memory first
static CUdeviceptr scratch;
static uint64_t digest_of(CUdeviceptr p, size_t words) {
    CU(cuMemsetD8Async(scratch, 0, 8, stream));
    launch(digest_f, p, words, scratch);
    CU(cuMemcpyDtoHAsync(result, scratch, 8, stream)); CU(cuStreamSynchronize(stream));
    checksum = (checksum ^ *result) * 1099511628211ull;
    return *result;
}
static uint64_t expected(const std::vector<uint32_t> &v) { uint64_t s = 0; for (size_t i = 0; i < v.size(); i++) s += (uint64_t)v[i] * (i % 1021 + 1); return s; }

int main() {
    CU(cuInit(0));
    CUdevice device; CUcontext context; int supported = 0;
    CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)); wrong += !supported;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED; properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE; properties.location.id = device;
    size_t recommended; CU(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemGetAllocationGranularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)); wrong += recommended % page != 0;
    const size_t words = page / 4;
    fill_f = function((const void *)fill); add_f = function((const void *)add); digest_f = function((const void *)digest);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); CU(cuMemAllocHost((void **)&result, 8)); CU(cuMemAlloc(&scratch, 8));
    std::vector<std::vector<uint32_t>> model(24);           // by page of segment a
    auto flat = [&](size_t from, size_t count) { std::vector<uint32_t> v; for (size_t i = from; i < from + count; i++) v.insert(v.end(), model[i].begin(), model[i].end()); return v; };
    auto filled = [&](size_t n, uint32_t seed, size_t at) { std::vector<uint32_t> v(n); for (size_t i = 0; i < n; i++) v[i] = (uint32_t)(at + i) * 2654435761u ^ seed; return v; };
    {
        Segment a(24), b(8);
        // A vector that grows four pages at a time while kernels use what is there already.
        for (size_t had = 0; had < 12; had += 4) {
            a.grow(had, 4);
            launch(fill_f, a.at(had), 4 * words, (uint32_t)(had + 1));
            for (size_t i = 0; i < 4; i++) model[had + i] = filled(words, had + 1, i * words);
            launch(add_f, a.base, (had + 4) * words, 17u);           // all of it as one range
            for (size_t i = 0; i < had + 4; i++) for (auto &v : model[i]) v += 17;
        }
        wrong += digest_of(a.base, 12 * words) != expected(flat(0, 12));
        // A hole in the middle: pages 4 and 5 go, page 4's memory comes back at the end, page 5's in the other segment.
        CUmemGenericAllocationHandle four = a.take(4), five = a.take(5);
        wrong += digest_of(a.base, 4 * words) != expected(flat(0, 4));
        wrong += digest_of(a.at(6), 6 * words) != expected(flat(6, 6));
        a.put(12, four); a.access(12, 1); model[12] = model[4];
        b.put(3, five); b.access(3, 1);
        launch(add_f, a.at(6), 7 * words, 1000u);
        for (size_t i = 6; i < 13; i++) for (auto &v : model[i]) v += 1000;
        wrong += digest_of(a.at(6), 7 * words) != expected(flat(6, 7));
        wrong += digest_of(b.at(3), words) != expected(model[5]);
        // The hole is filled: with new memory in 4, and with what b has in 5, now at two addresses at once.
        a.grow(4, 1); launch(fill_f, a.at(4), words, 99u); model[4] = filled(words, 99, 0);
        CUmemGenericAllocationHandle same; CU(cuMemRetainAllocationHandle(&same, (void *)(b.at(3) + 4096)));
        wrong += same != five;
        CU(cuMemRelease(same));                             // what was retained is given back; b's own remains
        CU(cuMemMap(a.at(5), page, 0, five, 0)); a.access(5, 1);
        launch(add_f, b.at(3), words, 5u); for (auto &v : model[5]) v += 5;
        CU(cuStreamSynchronize(stream));
        launch(add_f, a.at(4), 2 * words, 6u); for (size_t i : {4, 5}) for (auto &v : model[i]) v += 6;
        CU(cuStreamSynchronize(stream));
        wrong += digest_of(b.at(3), words) != expected(model[5]);
        wrong += digest_of(a.base, 13 * words) != expected(flat(0, 13));
        // Copies over the borders of pieces, from the CPU and back, and memset over a border.
        std::vector<uint32_t> piece(words + 1000), got(words + 1000);
        for (size_t i = 0; i < piece.size(); i++) piece[i] = (uint32_t)i * 7;
        CU(cuMemcpyHtoDAsync(a.at(7) + 2000, piece.data(), piece.size() * 4, stream));
        CU(cuMemsetD32Async(a.at(8) - 400, 0x12345678, 200, stream));
        CU(cuMemcpyDtoDAsync(a.at(10) - 256, a.at(8) - 256, 512, stream));
        CU(cuMemcpyDtoHAsync(got.data(), a.at(7) + 2000, got.size() * 4, stream)); CU(cuStreamSynchronize(stream));
        { auto v = flat(7, 4); memcpy(&v[500], piece.data(), piece.size() * 4); for (int i = 0; i < 200; i++) v[words - 100 + i] = 0x12345678;
          memcpy(&v[3 * words - 64], &v[words - 64], 512);
          wrong += memcmp(got.data(), &v[500], got.size() * 4) != 0;
          for (size_t i = 0; i < 4; i++) model[7 + i].assign(v.begin() + i * words, v.begin() + (i + 1) * words); }
        wrong += digest_of(a.at(6), 7 * words) != expected(flat(6, 7));
        // Page 5's second view goes; its first stays. Page 2 is made read only, and read.
        CU(cuMemUnmap(a.at(5), page));
        wrong += digest_of(b.at(3), words) != expected(model[5]);
        CU(cuStreamSynchronize(stream));
        a.access(2, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
        unsigned long long flags = 0; CU(cuMemGetAccess(&flags, &properties.location, a.at(2))); wrong += flags != CU_MEM_ACCESS_FLAGS_PROT_READ;
        wrong += digest_of(a.base, 4 * words) != expected(flat(0, 4));
        a.access(2, 1); launch(add_f, a.at(1), 2 * words, 3u); for (size_t i : {1, 2}) for (auto &v : model[i]) v += 3;
        // Memory whose creator lets go of it at once: the mapping keeps it; its handle is got from the address.
        CUmemGenericAllocationHandle two; CU(cuMemCreate(&two, 2 * page, &properties, 0));
        CU(cuMemMap(a.at(16), 2 * page, 0, two, 0)); a.access(16, 2); CU(cuMemRelease(two));
        launch(fill_f, a.at(16), 2 * words, 0xf00du); std::vector<uint32_t> both = filled(2 * words, 0xf00d, 0);
        CUmemGenericAllocationHandle kept; CU(cuMemRetainAllocationHandle(&kept, (void *)a.at(17)));
        CUmemAllocationProp now = {}; CU(cuMemGetAllocationPropertiesFromHandle(&now, kept)); wrong += now.type != properties.type || now.location.type != properties.location.type;
        CU(cuStreamSynchronize(stream)); CU(cuMemUnmap(a.at(16), 2 * page));
        CU(cuMemMap(b.at(6), 2 * page, 0, kept, 0)); b.access(6, 2); CU(cuMemRelease(kept));       // elsewhere, with what was in it
        wrong += digest_of(b.at(6), 2 * words) != expected(both);
        CU(cuStreamSynchronize(stream)); CU(cuMemUnmap(b.at(6), 2 * page));
        // Churn: pages dropped and mapped at changing places, and every mapped page checked at the end.
        uint32_t random = 12345;
        for (int turn = 0; turn < 60; turn++) {
            random = random * 1664525u + 1013904223u;
            size_t i = 6 + (random >> 16) % 18;
            if (a.mapped.count(i)) {
                size_t j = 6 + (random >> 8) % 18;
                if (a.mapped.count(j)) { a.drop(i); model[i].clear(); }
                else { a.put(j, a.take(i)); a.access(j, 1); model[j].swap(model[i]); model[i].clear(); }
            } else { a.grow(i, 1); launch(fill_f, a.at(i), words, (uint32_t)turn); model[i] = filled(words, turn, 0); }
        }
        for (auto &m : a.mapped) if (m.first != 5) wrong += digest_of(a.at(m.first), words) != expected(model[m.first]);
    }
    CU(cuMemFree(scratch)); CU(cuMemFreeHost(result)); CU(cuStreamDestroy(stream));
    printf("expandseg: page %zu checksum %016llx wrong %d\n", page, (unsigned long long)checksum, wrong);
    return wrong != 0;
}
