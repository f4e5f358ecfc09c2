// nvcc: DRIVER
// Stream ordered memory by the driver: pools of one's own, the device's current pool changed and put back, memory allocated in
// one stream, used in a second and freed in a third, attributes and trimming, by several threads.
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

__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
__global__ void make(uint32_t *p, uint32_t n, uint32_t k) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(i, k); }
__global__ void combine(uint32_t *to, const uint32_t *a, const uint32_t *b, uint32_t n) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] = mix(a[i], b[n - 1 - i]); }

static std::atomic<int> wrong{0};
static CUcontext context; static CUdevice device; static CUfunction make_f, combine_f;
template <class... A> static void launch(CUfunction f, uint32_t n, CUstream s, A... a) { void *args[] = {&a...}; CU(cuLaunchKernel(f, (n + 255) / 256, 1, 1, 256, 1, 1, 0, s, args, nullptr)); }
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
static uint64_t get(CUmemoryPool pool, CUmemPool_attribute what) { cuuint64_t v = 0; CU(cuMemPoolGetAttribute(pool, what, &v)); return v; }

static CUmemoryPool make_pool(size_t most) {
    CUmemPoolProps p; memset(&p, 0, sizeof p);
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; p.handleTypes = CU_MEM_HANDLE_TYPE_NONE; p.location.type = CU_MEM_LOCATION_TYPE_DEVICE; p.location.id = device; p.maxSize = most;
    CUmemoryPool pool; CU(cuMemPoolCreate(&pool, &p)); return pool;
}

// Three streams: a and b make, c combines and hands back; memory goes where its last user is.
static uint64_t worker(int id, CUmemoryPool pool) {
    CU(cuCtxSetCurrent(context));
    CUstream a, b, c; CUevent made_a, made_b, used;
    CU(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)); CU(cuStreamCreate(&b, CU_STREAM_DEFAULT)); CU(cuStreamCreateWithPriority(&c, CU_STREAM_NON_BLOCKING, -1));
    for (CUevent *e : {&made_a, &made_b, &used}) CU(cuEventCreate(e, CU_EVENT_DISABLE_TIMING));
    uint64_t hash = 14695981039346656037ull;
    std::vector<CUdeviceptr> kept; std::vector<uint32_t> kept_k, kept_n;
    for (uint32_t round = 0; round < 30; round++) {
        uint32_t n = 1000 + (round * 7919 + id * 131) % 60000, ka = round * 3 + id, kb = round * 5 + 1;
        CUdeviceptr x, y, z;
        if (round % 3) CU(cuMemAllocFromPoolAsync(&x, n * 4, pool, a)); else CU(cuMemAllocAsync(&x, n * 4, a));      // the device's current pool
        CU(cuMemAllocFromPoolAsync(&y, n * 4 + 12, pool, b));
        launch(make_f, n, a, x, n, ka); CU(cuEventRecord(made_a, a));
        launch(make_f, n, b, y, n, kb); CU(cuEventRecord(made_b, b));
        CU(cuStreamWaitEvent(c, made_a, 0)); CU(cuStreamWaitEvent(c, made_b, 0));
        CU(cuMemAllocFromPoolAsync(&z, n * 4, pool, c));
        launch(combine_f, n, c, z, x, y, n);
        CU(cuEventRecord(used, c));
        if (round % 2) CU(cuMemFreeAsync(x, c));                                        // by the stream of the last use
        else { CU(cuStreamWaitEvent(a, used, 0)); CU(cuMemFreeAsync(x, a)); }           // by the stream that made it
        CU(cuStreamWaitEvent(b, used, 0)); CU(cuMemFreeAsync(y, b));
        std::vector<uint32_t> back(n);
        CU(cuMemcpyDtoHAsync(back.data(), z, n * 4, c));
        if (round % 5 == 4) { CU(cuStreamSynchronize(c)); CU(cuMemFree(z)); } else CU(cuMemFreeAsync(z, c));
        CU(cuStreamSynchronize(c));
        for (uint32_t i = 0; i < n; i++) if (back[i] != mix(mix(i, ka), mix(n - 1 - i, kb))) { wrong++; break; }
        for (uint32_t i = 0; i < n; i += 11) hash = (hash ^ back[i]) * 1099511628211ull;
        if (round % 6 == 0) {                       // memory that lives for long, among what comes and goes
            CUdeviceptr k; CU(cuMemAllocFromPoolAsync(&k, n * 4, pool, a)); launch(make_f, n, a, k, n, 1000 + round);
            kept.push_back(k); kept_k.push_back(1000 + round); kept_n.push_back(n);
        }
        if (round == 17) { CU(cuStreamSynchronize(a)); CU(cuMemPoolTrimTo(pool, 1 << 20)); }
    }
    for (size_t j = 0; j < kept.size(); j++) {
        std::vector<uint32_t> back(kept_n[j]);
        CU(cuMemcpyDtoHAsync(back.data(), kept[j], back.size() * 4, a)); CU(cuMemFreeAsync(kept[j], a)); CU(cuStreamSynchronize(a));
        for (uint32_t i = 0; i < back.size(); i++) if (back[i] != mix(i, kept_k[j])) { wrong++; break; }
    }
    for (CUstream s : {a, b, c}) { CU(cuStreamSynchronize(s)); CU(cuStreamDestroy(s)); }
    for (CUevent e : {made_a, made_b, used}) CU(cuEventDestroy(e));
    return hash;
}

int main() {
    CU(cuInit(0)); CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    int supported = 0; CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device)); wrong += !supported;
    make_f = function((const void *)make); combine_f = function((const void *)combine);
    CUmemoryPool first, current, mine = make_pool(0), small = make_pool(128 << 20);
    CU(cuDeviceGetDefaultMemPool(&first, device)); CU(cuDeviceGetMemPool(&current, device)); wrong += current != first;
    cuuint64_t threshold = 256 << 20; CU(cuMemPoolSetAttribute(mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    int no = 0, yes = 1, seen = 5; CU(cuMemPoolSetAttribute(small, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &no)); CU(cuMemPoolSetAttribute(small, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &yes));
    CU(cuMemPoolGetAttribute(small, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &seen)); wrong += seen != 0;
    wrong += get(mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) != threshold || get(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != 0;
    CUmemAccess_flags flags; CUmemLocation here = {}; here.type = CU_MEM_LOCATION_TYPE_DEVICE; here.id = device;
    CU(cuMemPoolGetAccess(&flags, mine, &here)); wrong += flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    // From now on cuMemAllocAsync takes from mine.
    CU(cuDeviceSetMemPool(device, mine)); CU(cuDeviceGetMemPool(&current, device)); wrong += current != mine;
    CUdeviceptr p; CUmemoryPool of; CU(cuMemAllocAsync(&p, 1000, nullptr));
    CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p)); wrong += of != mine;
    wrong += get(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) < 1000;
    CU(cuMemFreeAsync(p, nullptr)); CU(cuStreamSynchronize(nullptr));

    uint64_t sums[4], total = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back([&, i] { sums[i] = worker(i, i & 1 ? small : mine); });
    for (auto &t : threads) t.join();
    for (uint64_t s : sums) total = total * 31 + s;
    wrong += get(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != 0 || get(small, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != 0;
    wrong += get(mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH) < 4000 || get(mine, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) < get(mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    cuuint64_t zero = 0; CU(cuMemPoolSetAttribute(mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero)); wrong += get(mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH) != 0;
    CU(cuCtxSynchronize()); CU(cuMemPoolTrimTo(mine, 0)); wrong += get(mine, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) != 0;

    // What is too much for the pool fails, and the pool goes on.
    CUdeviceptr q = 0; CUresult r = cuMemAllocFromPoolAsync(&q, 256 << 20, small, nullptr); wrong += r != CUDA_ERROR_OUT_OF_MEMORY;
    CU(cuMemAllocFromPoolAsync(&q, 4096, small, nullptr)); CU(cuMemsetD32Async(q, 0x5555aaaa, 1024, nullptr));
    std::vector<uint32_t> back(1024); CU(cuMemcpyDtoHAsync(back.data(), q, 4096, nullptr)); CU(cuStreamSynchronize(nullptr));
    for (uint32_t v : back) wrong += v != 0x5555aaaa;
    // A pool destroyed while something of it is alive: that lives on until it is freed. The device goes back to its own pool.
    CU(cuDeviceSetMemPool(device, first)); CU(cuMemPoolDestroy(small));
    launch(make_f, 1024, nullptr, q, 1024u, 9u); CU(cuMemcpyDtoHAsync(back.data(), q, 4096, nullptr)); CU(cuMemFreeAsync(q, nullptr)); CU(cuStreamSynchronize(nullptr));
    for (uint32_t i = 0; i < 1024; i++) wrong += back[i] != mix(i, 9);
    // The current pool destroyed: the device takes its default one again by itself.
    CU(cuDeviceSetMemPool(device, mine)); CU(cuMemPoolDestroy(mine)); CU(cuDeviceGetMemPool(&current, device)); wrong += current != first;
    CU(cuMemAllocAsync(&p, 4096, CU_STREAM_PER_THREAD)); launch(make_f, 1000, CU_STREAM_PER_THREAD, p, 1000u, 3u);
    CU(cuMemcpyDtoHAsync(back.data(), p, 4000, CU_STREAM_PER_THREAD)); CU(cuMemFreeAsync(p, CU_STREAM_PER_THREAD)); CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    for (uint32_t i = 0; i < 1000; i++) { wrong += back[i] != mix(i, 3); total = total * 33 + back[i]; }
    printf("drvpools: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
