// nvcc: DRIVER
// Pinned memory of every kind: portable, mapped, write combined, registered from the heap and from odd ranges; four threads
// that change small descriptors between launches, which kernels read by mapped pointers, and results beside them in one page.
#include <cuda.h>
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

struct Descriptor { uint32_t *data; uint32_t n, key, times, result; };      // the kernel reads it where it lies; result is written by a copy
__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
__global__ void described(const Descriptor *d) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= d->n) return;
    uint32_t v = d->data[i]; for (uint32_t t = 0; t < d->times; t++) v = mix(v, d->key + t);
    d->data[i] = v;
}
__global__ void gather(const uint32_t *from, uint32_t n, uint32_t *to) {    // one block: a sum of a mapped range into one word
    __shared__ uint32_t part[128];
    uint32_t s = 0; for (uint32_t i = threadIdx.x; i < n; i += 128) s += from[i] * (i + 1);
    part[threadIdx.x] = s; __syncthreads();
    for (int w = 64; w; w >>= 1) { if (threadIdx.x < w) part[threadIdx.x] += part[threadIdx.x + w]; __syncthreads(); }
    if (!threadIdx.x) *to = part[0];
}
static std::atomic<int> wrong{0};
static CUcontext context; static CUfunction described_f, gather_f;
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
static uint32_t sum_of(const uint32_t *p, uint32_t n) { uint32_t s = 0; for (uint32_t i = 0; i < n; i++) s += p[i] * (i + 1); return s; }
static void describe(CUstream s, CUdeviceptr at, uint32_t n) { void *args[] = {&at}; CU(cuLaunchKernel(described_f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, nullptr)); }
static void sum(CUstream s, CUdeviceptr from, uint32_t n, CUdeviceptr to) { void *args[] = {&from, &n, &to}; CU(cuLaunchKernel(gather_f, 1, 1, 1, 128, 1, 1, 0, s, args, nullptr)); }

constexpr uint32_t N = 3000, ROUNDS = 40;
static Descriptor *shared_page; static CUdeviceptr shared_mapped;           // all threads' descriptors, neighbours of each other

// A thread's two descriptors lie among those of the others; it changes its own when its stream is done, and only then.
static uint64_t descriptors(uint32_t id) {
    CU(cuCtxSetCurrent(context));
    CUstream s; CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUdeviceptr data[2], word; CU(cuMemAlloc(&word, 4)); std::vector<uint32_t> ref[2];
    for (int j = 0; j < 2; j++) { CU(cuMemAlloc(&data[j], N * 4)); CU(cuMemsetD32Async(data[j], id * 2 + j, N, s)); ref[j].assign(N, id * 2 + j); }
    uint64_t hash = 14695981039346656037ull;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int j = 0; j < 2; j++) {
            Descriptor &d = shared_page[j * 4 + id];
            d.data = (uint32_t *)(data[j] + (round % 3) * 4); d.n = N - round * 10 - 3; d.key = round * 5 + id; d.times = 1 + round % 4;
            describe(s, shared_mapped + (j * 4 + id) * sizeof(Descriptor), d.n);
            for (uint32_t i = 0; i < d.n; i++) for (uint32_t t = 0; t < d.times; t++) { uint32_t &v = ref[j][i + round % 3]; v = mix(v, d.key + t); }
            sum(s, data[j], N, word);
            CU(cuMemcpyDtoHAsync(&d.result, word, 4, s));           // into the field beside those that the others change
        }
        CU(cuStreamSynchronize(s));
        for (int j = 0; j < 2; j++) {
            uint32_t r = shared_page[j * 4 + id].result;
            if (r != sum_of(ref[j].data(), N)) wrong++;
            hash = (hash ^ r) * 1099511628211ull;
        }
    }
    for (auto d : data) CU(cuMemFree(d)); CU(cuMemFree(word)); CU(cuStreamDestroy(s));
    return hash;
}

// Write combined memory: written by the CPU in small pieces, read by kernels and copies, never by the CPU.
static uint64_t combined(CUstream s) {
    uint32_t *wc, *out; CUdeviceptr mapped, out_mapped; CU(cuMemHostAlloc((void **)&wc, N * 4, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP)); CU(cuMemHostGetDevicePointer(&mapped, wc, 0));
    CU(cuMemHostAlloc((void **)&out, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)); CU(cuMemHostGetDevicePointer(&out_mapped, out, 0));
    unsigned flags = 0; CU(cuMemHostGetFlags(&flags, wc)); wrong += !(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
    std::vector<uint32_t> ref(N), back(N); CUdeviceptr d; CU(cuMemAlloc(&d, N * 4)); uint64_t h = 0;
    for (uint32_t i = 0; i < N; i++) wc[i] = ref[i] = i;
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = round; i < N; i += 401) wc[i] = ref[i] = mix(i, round);       // a few words of each page
        sum(s, mapped, N, out_mapped + round * 4);
        CU(cuMemcpyHtoDAsync(d, wc, N * 4, s)); CU(cuMemcpyDtoHAsync(back.data(), d, N * 4, s)); CU(cuStreamSynchronize(s));
        wrong += back != ref; wrong += out[round] != sum_of(ref.data(), N); h = h * 31 + out[round];
    }
    CU(cuMemFreeHost(wc)); CU(cuMemFreeHost(out)); CU(cuMemFree(d));
    return h;
}

// Registered memory: a heap block from its odd beginning to its odd end; part of a static array; unregistered, and again.
alignas(64) static char arena[5 * 4096 + 64];
static uint64_t registered(CUstream s) {
    uint64_t h = 0;
    for (int turn = 0; turn < 3; turn++) {
        std::vector<char> heap(12 * 4096);
        char *at = heap.data() + 2 * 4096 + 4 * (turn * 9 + 3); size_t size = 5 * 4096 + 100 * turn + 20;             // neither end on a page's border
        for (size_t i = 0; i < heap.size(); i++) heap[i] = (char)(i * 7 + turn);
        CU(cuMemHostRegister(at, size, CU_MEMHOSTREGISTER_DEVICEMAP | (turn & 1 ? CU_MEMHOSTREGISTER_PORTABLE : 0)));
        char *odd = arena + 4 + turn * 8; CU(cuMemHostRegister(odd, 4096 * 2 + 40, CU_MEMHOSTREGISTER_DEVICEMAP));
        CUdeviceptr mapped, odd_mapped, d; CU(cuMemHostGetDevicePointer(&mapped, at, 0)); CU(cuMemHostGetDevicePointer(&odd_mapped, odd, 0)); CU(cuMemAlloc(&d, size));
        // the kernel's sums of the heap block go into the array, words beside those that the CPU writes meanwhile
        uint32_t *words = (uint32_t *)odd; memset(odd, 0, 4096);
        for (uint32_t round = 0; round < 6; round++) {
            sum(s, mapped, (uint32_t)(size / 4), odd_mapped + round * 8);
            words[round * 2 + 1] = round * 1000 + turn;                                 // the neighbour, while the kernel may run
            CU(cuMemcpyHtoDAsync(d, at, size, s)); CU(cuMemcpyDtoHAsync(odd + 4096 + 12, d + 16, 3000, s)); CU(cuStreamSynchronize(s));
            wrong += words[round * 2] != sum_of((uint32_t *)at, (uint32_t)(size / 4)); wrong += memcmp(odd + 4096 + 12, at + 16, 3000) != 0;
            h = h * 31 + words[round * 2] + words[round * 2 + 1];
            for (size_t i = round; i < size; i += 777) at[i] = (char)(at[i] + 1);
        }
        // beyond the registered part, ordinary memory of the same block
        CU(cuMemcpyHtoD(d, heap.data(), 2000)); CU(cuMemcpyDtoH(heap.data() + 9 * 4096, d, 2000)); wrong += memcmp(heap.data(), heap.data() + 9 * 4096, 2000) != 0;
        CUmemorytype type; CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(at + 100))); wrong += type != CU_MEMORYTYPE_HOST;
        CU(cuMemHostUnregister(at)); CU(cuMemHostUnregister(odd)); wrong += cuMemHostUnregister(odd) == CUDA_SUCCESS; CU(cuMemFree(d));
    }
    return h;
}

int main() {
    CU(cuInit(0));
    CUdevice device; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    described_f = function((const void *)described); gather_f = function((const void *)gather);
    CU(cuMemHostAlloc((void **)&shared_page, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)); CU(cuMemHostGetDevicePointer(&shared_mapped, shared_page, 0)); memset(shared_page, 0, 4096);
    uint64_t sums[4], total = 0;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; i++) threads.emplace_back([&, i] { sums[i] = descriptors(i); });
    CUstream s; CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    total = combined(s) * 3; total += registered(s);                // meanwhile, by this thread
    for (auto &t : threads) t.join();
    for (uint64_t v : sums) total = total * 31 + v;
    // Plain pinned memory as the source of many small copies, changed when each is known to be done.
    uint32_t *plain; CUdeviceptr d; CUevent done[4]; CU(cuMemAllocHost((void **)&plain, 4 * 256 * 4)); CU(cuMemAlloc(&d, 64 * 256 * 4));
    for (auto &e : done) CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t *slot = plain + (i % 4) * 256;
        if (i >= 4) CU(cuEventSynchronize(done[i % 4]));
        for (uint32_t j = 0; j < 256; j++) slot[j] = mix(j, i);
        CU(cuMemcpyHtoDAsync(d + i * 1024, slot, 1024, s)); CU(cuEventRecord(done[i % 4], s));
    }
    std::vector<uint32_t> back(64 * 256); CU(cuMemcpyDtoHAsync(back.data(), d, back.size() * 4, s)); CU(cuStreamSynchronize(s));
    for (uint32_t i = 0; i < back.size(); i++) { wrong += back[i] != mix(i % 256, i / 256); total = total * 33 + back[i]; }
    for (auto e : done) CU(cuEventDestroy(e));
    CU(cuMemFreeHost(plain)); CU(cuMemFreeHost(shared_page)); CU(cuMemFree(d)); CU(cuStreamDestroy(s));
    printf("pinnedkinds: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
