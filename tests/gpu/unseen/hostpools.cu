// Memory of the CPU's that is not made by the usual calls: pools on a NUMA node of the host, pools of managed memory, host memory made by
// cuMemCreate and mapped at two addresses; chains of blocks in it that the CPU writes late and kernels follow. Batches of copies whose sources
// are overwritten as soon as the call returns; discarded and prefetched ranges.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
template <class F> static F *entry(const char *name, F *) {
    void *p = nullptr; cudaDriverEntryPointQueryResult found;
    CK(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found));
    if (!p || found != cudaDriverEntryPointSuccess) { fprintf(stderr, "no %s (%d)\n", name, (int)found); exit(2); }
    return (F *)p;
}
#define ENTRY(f) static decltype(&f) p_##f = entry(#f, (decltype(&f))nullptr)

constexpr uint32_t LONGEST = 1800, STATE = 2048;
struct Block { Block *next; uint32_t *state; uint32_t count, serial; unsigned long long answer; uint32_t data[LONGEST]; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
// One block of threads follows the chain, mixes every block's words into the state that it names, and leaves an answer in it.
__global__ void follow(Block *first, uint32_t round) {
    __shared__ unsigned long long sum;
    for (Block *b = first; b; b = b->next) {
        if (threadIdx.x == 0) sum = round;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < b->count; i += blockDim.x) {
            uint32_t v = b->state[i] = b->state[i] * 3 + mix(b->data[i] + b->serial);
            atomicAdd(&sum, (unsigned long long)v * (i + 1));
        }
        __syncthreads();
        if (threadIdx.x == 0) b->answer = sum;
        __syncthreads();
    }
}
__global__ void slow_add(uint32_t *p, uint32_t n, uint32_t v) {
    for (int i = 0; i < 4; i++) __nanosleep(100000);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) p[i] += v;
}
__global__ void fill(uint32_t *p, uint32_t n, uint32_t v) { for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(i + v); }
__global__ void twist(uint32_t *p, uint32_t n, uint32_t v) { for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(p[i] ^ v); }

static int wrong; static uint64_t checksum = 14695981039346656037ull;
static void digest(uint64_t v) { checksum = (checksum ^ v) * 1099511628211ull; }

// Where blocks come from: a pool of some kind, or, where there is none such, an ordinary call that does as well.
struct Source {
    const char *name; cudaMemPool_t pool = nullptr; bool managed; cudaStream_t stream;
    Source(const char *n, bool m, cudaMemLocationType where, cudaStream_t s) : name(n), managed(m), stream(s) {
        int yes = 1; cudaMemPoolProps p = {}; cudaMemAccessDesc access = {};
        p.allocType = m ? cudaMemAllocationTypeManaged : cudaMemAllocationTypePinned; p.location.type = where; p.location.id = 0;
        if (where == cudaMemLocationTypeHostNuma) CK(cudaDeviceGetAttribute(&yes, cudaDevAttrHostNumaMemoryPoolsSupported, 0));
        if (!yes || cudaMemPoolCreate(&pool, &p) != cudaSuccess) pool = nullptr;
        if (pool && !m) {
            access.location.type = cudaMemLocationTypeDevice; access.flags = cudaMemAccessFlagsProtReadWrite;
            if (cudaMemPoolSetAccess(pool, &access, 1) != cudaSuccess) { CK(cudaMemPoolDestroy(pool)); pool = nullptr; }
        }
        cudaGetLastError();
        if (!pool) printf("skipped: a pool of %s\n", name);
    }
    void *get(size_t bytes) {
        void *p;
        if (pool) { CK(cudaMallocFromPoolAsync(&p, bytes, pool, stream)); CK(cudaStreamSynchronize(stream)); }
        else if (managed) CK(cudaMallocManaged(&p, bytes));
        else CK(cudaMallocHost(&p, bytes));
        return p;
    }
    void put(void *p) {
        if (pool) { CK(cudaFreeAsync(p, stream)); return; }
        CK(cudaStreamSynchronize(stream));
        if (managed) CK(cudaFree(p)); else CK(cudaFreeHost(p));
    }
    ~Source() { CK(cudaStreamSynchronize(stream)); if (pool) CK(cudaMemPoolDestroy(pool)); }
};

static void chains(Source &source, uint32_t rounds) {
    struct Kept { Block *block; uint32_t which; };
    std::deque<Kept> live; uint32_t *states, serial = 0; std::vector<std::vector<uint32_t>> model(3, std::vector<uint32_t>(STATE, 0)); std::vector<uint32_t> back(3 * STATE);
    cudaEvent_t done; CK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CK(cudaMalloc(&states, 3 * STATE * 4)); CK(cudaMemset(states, 0, 3 * STATE * 4)); CK(cudaDeviceSynchronize());
    for (uint32_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < 2 + r % 3; i++) {           // new ones, and the oldest go: their memory may be the new ones'
            if (live.size() > 6) { source.put(live.front().block); live.pop_front(); }
            uint32_t which = serial % 3; Block *b = (Block *)source.get(sizeof(Block) - (serial % 4) * 400);
            b->next = nullptr; b->state = states + which * STATE; b->serial = ++serial; b->count = LONGEST - 400 - serial % 200; b->answer = 0;
            for (uint32_t j = 0; j < b->count; j++) b->data[j] = mix(serial * 5000 + j);
            live.push_back({b, which});
        }
        for (size_t i = 0; i < live.size(); i++) {           // linked anew, and a little of each written, as it follows from its answer
            Block *b = live[i].block;
            b->next = i + 1 < live.size() ? live[i + 1].block : nullptr;
            for (uint32_t j = (uint32_t)(b->answer % 13); j < b->count; j += 101) b->data[j] += (uint32_t)(b->answer >> 7) + r;
        }
        follow<<<1, 256, 0, source.stream>>>(live.front().block, r);
        CK(cudaGetLastError()); CK(cudaEventRecord(done, source.stream));
        std::vector<unsigned long long> answers;
        CK(cudaEventSynchronize(done));
        for (auto &k : live) {
            unsigned long long s = r; std::vector<uint32_t> &m = model[k.which];
            for (uint32_t j = 0; j < k.block->count; j++) { m[j] = m[j] * 3 + mix(k.block->data[j] + k.block->serial); s += (unsigned long long)m[j] * (j + 1); }
            wrong += k.block->answer != s; digest(k.block->answer);
        }
    }
    for (auto &k : live) source.put(k.block);
    CK(cudaStreamSynchronize(source.stream));
    CK(cudaMemcpy(back.data(), states, back.size() * 4, cudaMemcpyDeviceToHost));
    for (int w = 0; w < 3; w++) for (uint32_t i = 0; i < STATE; i++) { wrong += back[w * STATE + i] != model[w][i]; digest(back[w * STATE + i]); }
    CK(cudaFree(states)); CK(cudaEventDestroy(done));
}

// Host memory by the functions of virtual memory: the CPU writes through one mapping, kernels use the other one.
static void mapped_twice(cudaStream_t stream) {
    ENTRY(cuMemCreate); ENTRY(cuMemRelease); ENTRY(cuMemAddressReserve); ENTRY(cuMemAddressFree); ENTRY(cuMemMap); ENTRY(cuMemUnmap); ENTRY(cuMemSetAccess);
    ENTRY(cuMemGetAllocationGranularity);
    CUmemAllocationProp prop = {}; size_t grain = 0; CUmemGenericAllocationHandle h; CUdeviceptr at[2] = {0, 0};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; prop.location.id = 0;
    CUmemAccessDesc both[2] = {};
    both[0].location = prop.location; both[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE; both[0].flags = both[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    bool fine = p_cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && p_cuMemCreate(&h, grain, &prop, 0) == CUDA_SUCCESS;
    if (!fine) { printf("skipped: host memory by cuMemCreate\n"); return; }
    for (auto &a : at) fine = fine && p_cuMemAddressReserve(&a, grain, 0, 0, 0) == CUDA_SUCCESS && p_cuMemMap(a, grain, 0, h, 0) == CUDA_SUCCESS && p_cuMemSetAccess(a, grain, both, 2) == CUDA_SUCCESS;
    if (!fine) { printf("skipped: host memory mapped twice\n"); return; }
    const uint32_t n = 12000; uint32_t *one = (uint32_t *)at[0], *other = (uint32_t *)at[1]; std::vector<uint32_t> model(n, 0);
    memset(one, 0, n * 4);
    for (uint32_t r = 0; r < 24; r++) {
        for (uint32_t i = r; i < n; i += 3 + r) { model[i] += mix(i + r); (r % 2 ? one : other)[i] = model[i]; }
        twist<<<8, 128, 0, stream>>>(r % 3 ? other : one, n, r);
        CK(cudaGetLastError()); CK(cudaStreamSynchronize(stream));
        for (uint32_t i = 0; i < n; i++) { model[i] = mix(model[i] ^ r); wrong += (r % 2 ? other : one)[i] != model[i]; }
    }
    for (uint32_t v : model) digest(v);
    for (auto a : at) { p_cuMemUnmap(a, grain); p_cuMemAddressFree(a, grain); }
    p_cuMemRelease(h);
}

// Copies that have read their sources when the call returns, behind a kernel that takes its time.
static void batches(cudaStream_t stream) {
    const uint32_t n = 700, copies = 5; uint32_t *to, *pinned; std::vector<uint32_t> model(copies * n, 0), back(copies * n);
    CK(cudaMalloc(&to, copies * n * 4)); CK(cudaMallocHost(&pinned, 2 * n * 4)); CK(cudaMemset(to, 0, copies * n * 4)); CK(cudaDeviceSynchronize());
    for (uint32_t r = 0; r < 20; r++) {
        uint32_t local[2 * 700]; std::vector<uint32_t> heap(n);
        for (uint32_t i = 0; i < 2 * n; i++) { local[i] = mix(i + r); pinned[i] = mix(i * 3 + r); }
        for (uint32_t i = 0; i < n; i++) heap[i] = mix(i * 7 + r);
        slow_add<<<1, 128, 0, stream>>>(to, copies * n, r);
        CK(cudaGetLastError());
        void *targets[copies]; const void *sources[copies] = {local, local + n, pinned, pinned + n, heap.data()}; size_t sizes[copies], begins[1] = {0};
        for (uint32_t c = 0; c < copies; c++) { targets[c] = to + c * n; sizes[c] = (n - c * 31 - r) * 4; }
        cudaMemcpyAttributes how = {}; how.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
        CK(cudaMemcpyBatchAsync(targets, sources, sizes, copies, &how, begins, 1, stream));
        for (uint32_t c = 0; c < copies; c++)
            for (uint32_t i = 0; i < n; i++) model[c * n + i] = i < sizes[c] / 4 ? ((const uint32_t *)sources[c])[i] : model[c * n + i] + r;
        memset(local, 0xee, sizeof local); memset(pinned, 0xdd, 2 * n * 4); memset(heap.data(), 0xcc, n * 4);
        if (r % 4 == 3) { CK(cudaMemcpyAsync(back.data(), to, back.size() * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream)); wrong += back != model; }
    }
    for (uint32_t v : back) digest(v);
    CK(cudaStreamSynchronize(stream)); CK(cudaFree(to)); CK(cudaFreeHost(pinned));
}

static void ranges(Source &managed) {                       // thrown away, written whole, brought to and fro
    int concurrent = 0; CK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (!concurrent) { printf("skipped: managed ranges\n"); return; }
    const uint32_t n = 300000; uint32_t *p[2]; cudaStream_t s = managed.stream; cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    for (auto &q : p) { q = (uint32_t *)managed.get(n * 4); memset(q, 0, n * 4); }
    for (uint32_t r = 0; r < 8; r++) {
        void *at[2] = {p[0], p[1]}; size_t bytes[2] = {n * 4, n * 4}, index[1] = {0};
        if (r % 3 == 1 && (cudaMemDiscardBatchAsync(at, bytes, 1, 0, s) != cudaSuccess)) { cudaGetLastError(); if (r == 1) printf("skipped: discarding\n"); }
        auto prefetch = [&](cudaMemLocation &to) {
            if (cudaMemPrefetchBatchAsync(at, bytes, 2, &to, index, 1, 0, s) != cudaSuccess) { cudaGetLastError(); if (r < 4) printf("skipped: prefetching\n"); }
        };
        if (r % 2) prefetch(device);
        fill<<<32, 128, 0, s>>>(p[0], n, r);
        twist<<<32, 128, 0, s>>>(p[1], n, r);
        CK(cudaGetLastError());
        if (r % 4 > 1) prefetch(host);
        CK(cudaStreamSynchronize(s));
        for (uint32_t i = r; i < n; i += 997) { wrong += p[0][i] != mix(i + r); digest(p[1][i]); p[1][i] += p[0][i]; }
    }
    managed.put(p[0]); managed.put(p[1]); CK(cudaStreamSynchronize(s));
}

int main() {
    cudaStream_t stream; CK(cudaSetDevice(0)); CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    { Source numa("a node of the host", false, cudaMemLocationTypeHostNuma, stream); chains(numa, 40); }
    { Source host("the host", false, cudaMemLocationTypeHost, stream); chains(host, 40); }
    { Source managed("managed memory", true, cudaMemLocationTypeNone, stream); chains(managed, 25); ranges(managed); }
    mapped_twice(stream);
    batches(stream);
    CK(cudaStreamDestroy(stream));
    printf("hostpools: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
