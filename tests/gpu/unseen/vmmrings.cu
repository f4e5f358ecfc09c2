// Virtual memory management: vectors that grow in place in a reserved range, a ring buffer whose physical memory is mapped
// twice in a row (so that wrapping needs no care), pages moved between vectors, mappings made read only and back.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, (int)e_); exit(2); } } while (0)

// The driver's functions by the runtime's entry points: the program is not linked to libcuda.
template <class F> static F *entry(const char *name, F *) {
    void *p = nullptr; cudaDriverEntryPointQueryResult found;
    CK(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found));
    if (!p || found != cudaDriverEntryPointSuccess) { fprintf(stderr, "no %s (%d)\n", name, (int)found); exit(2); }
    return (F *)p;
}
#define ENTRY(f) static decltype(&f) p_##f;
#define LOAD(f) p_##f = entry(#f, (decltype(&f))nullptr)
ENTRY(cuMemAddressReserve) ENTRY(cuMemAddressFree) ENTRY(cuMemCreate) ENTRY(cuMemRelease) ENTRY(cuMemMap) ENTRY(cuMemUnmap) ENTRY(cuMemSetAccess)
ENTRY(cuMemGetAccess) ENTRY(cuMemGetAllocationGranularity) ENTRY(cuMemRetainAllocationHandle) ENTRY(cuMemGetAllocationPropertiesFromHandle)

static CUmemAllocationProp properties;
static size_t grain;
static int live_handles;

static CUmemGenericAllocationHandle create(size_t size) {
    CUmemGenericAllocationHandle h;
    CU(p_cuMemCreate(&h, size, &properties, 0));
    live_handles++;
    return h;
}
static void release(CUmemGenericAllocationHandle h) { CU(p_cuMemRelease(h)); live_handles--; }
static void access(CUdeviceptr at, size_t size, CUmemAccess_flags flags) {
    CUmemAccessDesc d = {};
    d.location = properties.location; d.flags = flags;
    CU(p_cuMemSetAccess(at, size, &d, 1));
}

struct Vector {                     // grows without moving; every growth is a mapping of its own
    CUdeviceptr base = 0; size_t reserved = 0, mapped = 0;
    struct Piece { CUmemGenericAllocationHandle handle; size_t at, size; };
    std::vector<Piece> pieces;
    explicit Vector(size_t bytes, CUdeviceptr wish = 0) { reserved = (bytes + grain - 1) / grain * grain; CU(p_cuMemAddressReserve(&base, reserved, 0, wish, 0)); }
    void adopt(CUmemGenericAllocationHandle h, size_t size) {
        CU(p_cuMemMap(base + mapped, size, 0, h, 0));
        access(base + mapped, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        pieces.push_back({h, mapped, size});
        mapped += size;
    }
    void grow(size_t bytes) {
        if (bytes <= mapped) return;
        size_t more = (bytes - mapped + grain - 1) / grain * grain;
        adopt(create(more), more);
    }
    Piece give_up_last() {          // the mapping goes, the memory stays
        Piece p = pieces.back(); pieces.pop_back();
        CU(p_cuMemUnmap(base + p.at, p.size));
        mapped -= p.size;
        return p;
    }
    ~Vector() {
        if (mapped) CU(p_cuMemUnmap(base, mapped));         // all pieces in one call
        for (auto &p : pieces) release(p.handle);
        CU(p_cuMemAddressFree(base, reserved));
    }
    template <class T> T *data() { return (T *)base; }
};

struct Ring {                       // [memory][memory again]
    CUdeviceptr base; size_t size; CUmemGenericAllocationHandle handle;
    explicit Ring(size_t bytes) {
        size = (bytes + grain - 1) / grain * grain;
        CU(p_cuMemAddressReserve(&base, 2 * size, grain, 0, 0));
        handle = create(size);
        CU(p_cuMemMap(base, size, 0, handle, 0));
        CU(p_cuMemMap(base + size, size, 0, handle, 0));
        release(handle); live_handles++;                    // the mappings keep it alive
        access(base, 2 * size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    ~Ring() { CU(p_cuMemUnmap(base, size)); CU(p_cuMemUnmap(base + size, size)); live_handles--; CU(p_cuMemAddressFree(base, 2 * size)); }
};

__host__ __device__ inline uint64_t mix(uint64_t v) { v ^= v >> 33; v *= 0xff51afd7ed558ccdull; v ^= v >> 29; v *= 0xc4ceb9fe1a85ec53ull; return v ^ (v >> 32); }
__global__ void produce(uint64_t *to, uint64_t first, uint32_t n) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = mix(first + i);
}
__global__ void consume(const uint64_t *from, uint32_t n, uint64_t *to, uint64_t round) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i] * 3 + round;
}
__global__ void sum(const uint64_t *p, size_t n, uint64_t *out) {
    uint64_t s = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += p[i] ^ (i * 0x9e37);
    atomicAdd((unsigned long long *)out, (unsigned long long)s);
}
__global__ void chase(uint64_t **table, int n, uint64_t *out) {      // pointers to both views and to the vectors
    if (threadIdx.x < n) out[threadIdx.x] = *table[threadIdx.x];
}

int main() {
    CK(cudaFree(nullptr));
    LOAD(cuMemAddressReserve); LOAD(cuMemAddressFree); LOAD(cuMemCreate); LOAD(cuMemRelease); LOAD(cuMemMap); LOAD(cuMemUnmap); LOAD(cuMemSetAccess);
    LOAD(cuMemGetAccess); LOAD(cuMemGetAllocationGranularity); LOAD(cuMemRetainAllocationHandle); LOAD(cuMemGetAllocationPropertiesFromHandle);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED; properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE; properties.location.id = 0;
    CU(p_cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    int wrong = 0; uint64_t checksum = 0;
    cudaStream_t up, down; cudaEvent_t produced[4], consumed[4];
    CK(cudaStreamCreateWithFlags(&up, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&down, cudaStreamNonBlocking));
    for (int i = 0; i < 4; i++) { CK(cudaEventCreateWithFlags(&produced[i], cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&consumed[i], cudaEventDisableTiming)); }
    uint64_t *sums; CK(cudaMalloc(&sums, 64)); CK(cudaMemset(sums, 0, 64));
    CK(cudaDeviceSynchronize());
    {
        Vector results(64u << 20), other(32u << 20);
        Ring ring(grain);
        const uint32_t words = ring.size / 8, chunk = words / 4 - 777;         // chunks wrap at odd places
        uint64_t head = 0; size_t filled = 0; std::vector<uint64_t> expected;
        // A producer and a consumer by events; of the ring never more than three chunks are in use.
        for (int round = 0; round < 24; round++) {
            uint32_t n = chunk - round * 13;
            uint64_t *write = (uint64_t *)ring.base + head % words, *read = write;
            if (round % 2 && head % words + n <= words) read = write + words;  // read what was written through the other view
            if (round >= 3) CK(cudaStreamWaitEvent(up, consumed[(round - 3) % 4], 0));
            if (round % 5 == 4) {                                              // by a copy from the host instead, over the seam too
                std::vector<uint64_t> host(n);
                for (uint32_t i = 0; i < n; i++) host[i] = mix(head + i);
                CK(cudaMemcpyAsync(write, host.data(), n * 8, cudaMemcpyHostToDevice, up));
                CK(cudaStreamSynchronize(up));
            } else {
                produce<<<32, 128, 0, up>>>(write, head, n);
            }
            CK(cudaEventRecord(produced[round % 4], up));
            CK(cudaStreamWaitEvent(down, produced[round % 4], 0));
            results.grow((filled + n) * 8);                                    // while kernels run on the older part
            consume<<<48, 64, 0, down>>>(read, n, results.data<uint64_t>() + filled, round);
            CK(cudaEventRecord(consumed[round % 4], down));
            for (uint32_t i = 0; i < n; i++) expected.push_back(mix(head + i) * 3 + round);
            filled += n; head += n;
        }
        sum<<<64, 128, 0, down>>>(results.data<uint64_t>(), filled, sums);
        std::vector<uint64_t> back(filled);
        CK(cudaMemcpyAsync(back.data(), results.data<uint64_t>(), filled * 8, cudaMemcpyDeviceToHost, down));   // over many mappings in one copy
        CK(cudaStreamSynchronize(down));
        wrong += back != expected;
        uint64_t s = 0, got; for (size_t i = 0; i < filled; i++) s += expected[i] ^ (i * 0x9e37);
        CK(cudaMemcpy(&got, sums, 8, cudaMemcpyDeviceToHost));
        wrong += got != s; checksum ^= got;

        // The two views hold the same; the seam is where it should be.
        std::vector<uint64_t> first(words), second(words);
        CK(cudaMemcpy(first.data(), (void *)ring.base, ring.size, cudaMemcpyDeviceToHost));
        CK(cudaMemcpy(second.data(), (void *)(ring.base + ring.size), ring.size, cudaMemcpyDeviceToHost));
        wrong += first != second;
        for (uint32_t i = 0; i < words; i += 97) checksum = checksum * 31 + first[i];

        // The last pieces of one vector become the first of the other, in reverse order.
        int moved = 0;
        while (results.pieces.size() > 1 && moved < 3) { auto p = results.give_up_last(); other.adopt(p.handle, p.size); moved++; }
        wrong += moved == 0;
        size_t tail = results.mapped / 8, at = results.mapped;                 // the piece that lay first after the cut came last
        std::vector<uint64_t> piece(other.pieces.back().size / 8);
        size_t valid = at / 8 + piece.size() <= filled ? piece.size() : filled - at / 8;
        CK(cudaMemcpy(piece.data(), (void *)(other.base + other.pieces.back().at), valid * 8, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < valid; i++) wrong += piece[i] != expected[tail + i];

        // Read only for a while: a copy in is refused or not depending on the driver, so only reads are made; then writable again.
        CUmemAccessDesc read_only = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
        CUresult granted = p_cuMemSetAccess(results.base, results.pieces[0].size, &read_only, 1);     // not every driver can
        unsigned long long flags; CU(p_cuMemGetAccess(&flags, &properties.location, results.base));
        wrong += flags != (granted == CUDA_SUCCESS ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        sum<<<16, 128, 0, up>>>(results.data<uint64_t>(), results.pieces[0].size / 8, sums + 1);
        CK(cudaStreamSynchronize(up));
        access(results.base, results.pieces[0].size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        CUmemGenericAllocationHandle again; CUmemAllocationProp p2 = {};
        CU(p_cuMemRetainAllocationHandle(&again, results.data<char>() + 4096));
        CU(p_cuMemGetAllocationPropertiesFromHandle(&p2, again));
        wrong += p2.type != properties.type || p2.location.id != 0;
        // ... a third view of it, somewhere else, through which it is changed
        CUdeviceptr third; size_t size = results.pieces[0].size;
        CU(p_cuMemAddressReserve(&third, size + grain, 0, 0, 0));
        CU(p_cuMemMap(third + grain, size, 0, again, 0));
        access(third + grain, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        CU(p_cuMemRelease(again));
        produce<<<8, 128, 0, up>>>((uint64_t *)(third + grain), 1u << 30, size / 8);
        CK(cudaMemsetAsync((void *)(third + grain + 512), 0x5a, 256, up));
        sum<<<16, 128, 0, up>>>(results.data<uint64_t>(), size / 8, sums + 2);
        uint64_t *table[4] = {results.data<uint64_t>() + 1, (uint64_t *)(third + grain) + 1, (uint64_t *)ring.base + 5, (uint64_t *)ring.base + words + 5}, **table_dev;
        CK(cudaMallocAsync((void **)&table_dev, sizeof table, up));
        CK(cudaMemcpyAsync(table_dev, table, sizeof table, cudaMemcpyHostToDevice, up));
        chase<<<1, 32, 0, up>>>(table_dev, 4, sums + 4);
        CK(cudaFreeAsync(table_dev, up));
        uint64_t all[8];
        CK(cudaMemcpyAsync(all, sums, 64, cudaMemcpyDeviceToHost, up));
        CK(cudaStreamSynchronize(up));
        wrong += all[4] != mix((1u << 30) + 1) || all[5] != all[4] || all[6] != all[7] || all[6] != first[5];
        uint64_t e2 = 0;
        for (size_t i = 0; i < size / 8; i++) e2 += (i >= 64 && i < 96 ? 0x5a5a5a5a5a5a5a5aull : mix((1ull << 30) + i)) ^ (i * 0x9e37);
        wrong += all[2] != e2;
        for (uint64_t v : all) checksum = checksum * 1099511628211ull + v;
        CU(p_cuMemUnmap(third + grain, size));
        CU(p_cuMemAddressFree(third, size + grain));
        CK(cudaDeviceSynchronize());
    }
    wrong += live_handles != 0;
    // The same address again for something new, if the driver grants the wish.
    {
        CUdeviceptr was; { Vector v(4 * grain); was = v.base; v.grow(grain); produce<<<1, 64, 0, up>>>(v.data<uint64_t>(), 1, 64); CK(cudaStreamSynchronize(up)); }
        Vector v(4 * grain, was);
        v.grow(3 * grain);
        produce<<<4, 64, 0, up>>>(v.data<uint64_t>(), 2, 3 * grain / 8);
        std::vector<uint64_t> back(3 * grain / 8);
        CK(cudaMemcpyAsync(back.data(), v.data<void>(), 3 * grain, cudaMemcpyDeviceToHost, up));
        CK(cudaStreamSynchronize(up));
        for (size_t i = 0; i < back.size(); i++) wrong += back[i] != mix(2 + i);
        checksum = checksum * 31 + back[1000];
    }
    for (int i = 0; i < 4; i++) { CK(cudaEventDestroy(produced[i])); CK(cudaEventDestroy(consumed[i])); }
    CK(cudaStreamDestroy(up)); CK(cudaStreamDestroy(down)); CK(cudaFree(sums));
    CK(cudaGetLastError());
    printf("vmmrings: grain %zu checksum %016llx wrong %d\n", grain, (unsigned long long)checksum, wrong);
    return wrong != 0;
}
