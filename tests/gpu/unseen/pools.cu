// A program that lives on memory pools: the default pool, two own pools with other attributes, four threads with two streams
// each, reuse across streams by events, graphs with memory nodes, trims and attribute checks in between.
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int THREADS = 4, ROUNDS = 40;
static std::atomic<int> wrong{0};
static cudaMemPool_t pools[2], default_pool;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }

__global__ void fill(uint32_t *p, uint32_t n, uint32_t seed) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(i ^ seed);
}
__global__ void blend(uint32_t *out, const uint32_t *x, const uint32_t *y, uint32_t n) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = mix(x[i] + 3 * y[n - 1 - i]);
}
__global__ void total(const uint32_t *p, uint32_t n, uint64_t *out) {       // integers: any order gives the same
    uint64_t s = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += (uint64_t)p[i] * (i + 1);
    atomicAdd((unsigned long long *)out, (unsigned long long)s);
}
static uint64_t reference(uint32_t n, uint32_t s1, uint32_t s2) {
    uint64_t s = 0;
    for (uint32_t i = 0; i < n; i++) s += (uint64_t)mix(mix(i ^ s1) + 3 * mix((n - 1 - i) ^ s2)) * (i + 1);
    return s;
}

// What a thread leaves behind for the next one: memory allocated here, freed there.
struct Handover { uint32_t *memory; uint32_t n, seed; cudaEvent_t ready; };
static Handover handovers[THREADS];
static uint64_t results[THREADS];

static void worker(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t one, two; cudaEvent_t made, freed;
    CK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CK(cudaStreamCreateWithFlags(&two, id & 1 ? cudaStreamNonBlocking : cudaStreamDefault));
    CK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    CK(cudaEventCreateWithFlags(&freed, cudaEventDisableTiming));
    uint64_t *sums, *pinned, expected[ROUNDS];
    CK(cudaMallocAsync(&sums, ROUNDS * sizeof(uint64_t), one));
    CK(cudaMemsetAsync(sums, 0, ROUNDS * sizeof(uint64_t), one));
    CK(cudaEventRecord(freed, one));
    CK(cudaMallocHost(&pinned, ROUNDS * sizeof(uint64_t)));
    uint32_t *late[ROUNDS] = {};
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = 3000 + mix(round * 17 + id) % 60000, seed = id * 1000 + round;
        uint32_t *x, *y, *out;
        CK(cudaStreamWaitEvent(two, freed, 0));
        CK(cudaMallocAsync(&x, n * 4, one));
        CK(cudaMallocFromPoolAsync(&y, n * 4, pools[round & 1], two));
        fill<<<64, 128, 0, one>>>(x, n, seed);
        fill<<<32, 256, 0, two>>>(y, n, ~seed);
        CK(cudaEventRecord(made, one));
        CK(cudaStreamWaitEvent(two, made, 0));
        if (round % 3 == 0) {
            CK(cudaMallocFromPoolAsync(&out, n * 4, default_pool, two));
            blend<<<40, 192, 0, two>>>(out, x, y, n);
            total<<<16, 256, 0, two>>>(out, n, sums + round);
            CK(cudaFreeAsync(x, two));                      // made by stream one, freed in two
            CK(cudaFreeAsync(y, two));
            late[round] = out;                              // freed much later
        } else {
            blend<<<40, 192, 0, two>>>(y, y, y, 0);         // nothing to do
            CK(cudaMallocAsync(&out, n * 4, pools[~round & 1], two));   // the C++ overload that takes a pool
            blend<<<40, 192, 0, two>>>(out, x, y, n);
            CK(cudaFreeAsync(y, two));
            total<<<16, 256, 0, two>>>(out, n, sums + round);
            CK(cudaFreeAsync(out, two));
            CK(cudaEventRecord(freed, two));
            CK(cudaStreamWaitEvent(one, freed, 0));
            CK(cudaFreeAsync(x, one));
        }
        CK(cudaGetLastError());
        CK(cudaEventRecord(freed, two));
        expected[round] = reference(n, seed, ~seed);
        if (round % 8 == 7) {
            if (late[round - 1]) { CK(cudaFreeAsync(late[round - 1], one)); late[round - 1] = nullptr; CK(cudaGetLastError()); }
            cudaError_t q = cudaStreamQuery(two);
            if (q != cudaSuccess && q != cudaErrorNotReady) CK(q);
        }
        if (round == 20 && id == 2) CK(cudaMemPoolTrimTo(pools[0], 1 << 20));
        if (round == 30 && id == 3) { CK(cudaStreamSynchronize(one)); CK(cudaStreamSynchronize(two)); CK(cudaMemPoolTrimTo(default_pool, 0)); }
    }
    CK(cudaStreamSynchronize(two));                         // before: the frees above in stream one may have overtaken
    for (auto p : late) if (p) CK(cudaFreeAsync(p, two));
    CK(cudaMemcpyAsync(pinned, sums, ROUNDS * sizeof(uint64_t), cudaMemcpyDeviceToHost, two));
    CK(cudaFreeAsync(sums, two));
    Handover &h = handovers[id];
    h.n = 5000 + id * 777; h.seed = 99 + id;
    CK(cudaMallocFromPoolAsync(&h.memory, h.n * 4, pools[id & 1], one));
    fill<<<8, 128, 0, one>>>(h.memory, h.n, h.seed);
    CK(cudaEventCreateWithFlags(&h.ready, cudaEventDisableTiming));
    CK(cudaEventRecord(h.ready, one));
    CK(cudaStreamSynchronize(two));
    for (int r = 0; r < ROUNDS; r++) {
        if (pinned[r] != expected[r]) { wrong++; fprintf(stderr, "thread %d round %d\n", id, r); }
        results[id] = results[id] * 1099511628211ull + pinned[r];
    }
    CK(cudaFreeHost(pinned));
    CK(cudaEventDestroy(made)); CK(cudaEventDestroy(freed));
    CK(cudaStreamDestroy(one)); CK(cudaStreamDestroy(two));     // one may still have work
}

// A graph that allocates, works and frees; and another that leaves its allocation to the program.
static uint64_t with_graphs() {
    cudaStream_t s; CK(cudaStreamCreate(&s));
    const uint32_t n = 20000; uint64_t *sum, out[4];
    CK(cudaMallocAsync(&sum, 32, s)); CK(cudaMemsetAsync(sum, 0, 32, s));
    cudaGraph_t captured, built; cudaGraphExec_t e1, e2;
    uint32_t *x, *y, *z;
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CK(cudaMallocAsync(&x, n * 4, s)); CK(cudaMallocAsync(&y, n * 4, s));
    fill<<<16, 256, 0, s>>>(x, n, 5); fill<<<16, 256, 0, s>>>(y, n, 6);
    CK(cudaMallocAsync(&z, n * 4, s));
    blend<<<16, 256, 0, s>>>(z, x, y, n);
    CK(cudaFreeAsync(x, s)); CK(cudaFreeAsync(y, s));
    total<<<16, 256, 0, s>>>(z, n, sum);
    CK(cudaFreeAsync(z, s));
    CK(cudaStreamEndCapture(s, &captured));
    CK(cudaGraphInstantiate(&e1, captured, 0));

    CK(cudaGraphCreate(&built, 0));
    cudaGraphNode_t alloc, kernel;
    cudaMemAllocNodeParams ap = {};
    cudaMemAccessDesc access = {}; access.location.type = cudaMemLocationTypeDevice; access.location.id = 0; access.flags = cudaMemAccessFlagsProtReadWrite;
    ap.poolProps.allocType = cudaMemAllocationTypePinned; ap.poolProps.location = access.location;
    ap.accessDescs = &access; ap.accessDescCount = 1; ap.bytesize = n * 4;
    CK(cudaGraphAddMemAllocNode(&alloc, built, nullptr, 0, &ap));
    uint32_t *kept = (uint32_t *)ap.dptr, count = n, seed = 77; void *args[] = {&kept, &count, &seed};
    cudaKernelNodeParams kp = {}; kp.func = (void *)fill; kp.gridDim = dim3(10); kp.blockDim = dim3(96); kp.kernelParams = args;
    CK(cudaGraphAddKernelNode(&kernel, built, &alloc, 1, &kp));
    CK(cudaGraphInstantiate(&e2, built, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 3; i++) CK(cudaGraphLaunch(e1, s));
    for (int i = 0; i < 2; i++) {                           // the second launch frees the first one's memory by itself
        CK(cudaGraphLaunch(e2, s));
        total<<<4, 128, 0, s>>>(kept, n, sum + 1 + i);
    }
    CK(cudaFreeAsync(kept, s));
    CK(cudaMemcpyAsync(out, sum, 32, cudaMemcpyDeviceToHost, s));
    CK(cudaFreeAsync(sum, s));
    CK(cudaStreamSynchronize(s));
    uint64_t used, reserved;
    CK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    CK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    CK(cudaGraphExecDestroy(e1)); CK(cudaGraphExecDestroy(e2)); CK(cudaGraphDestroy(captured)); CK(cudaGraphDestroy(built));
    CK(cudaDeviceGraphMemTrim(0));
    uint64_t plain = 0;
    for (uint32_t i = 0; i < n; i++) plain += (uint64_t)mix(i ^ 77) * (i + 1);
    wrong += out[0] != 3 * reference(n, 5, 6); wrong += out[1] != plain; wrong += out[2] != plain; wrong += out[3] != 0; wrong += used > reserved;
    CK(cudaStreamDestroy(s));
    return out[0] * 31 + out[1];
}

int main() {
    CK(cudaSetDevice(0));
    int supported; CK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported) { printf("no pools\n"); return 1; }
    CK(cudaDeviceGetDefaultMemPool(&default_pool, 0));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned; props.location.type = cudaMemLocationTypeDevice; props.location.id = 0;
    CK(cudaMemPoolCreate(&pools[0], &props));
    props.maxSize = 256u << 20;
    CK(cudaMemPoolCreate(&pools[1], &props));
    uint64_t threshold = 8u << 20, read = 0; int off = 0, flag = -1;
    CK(cudaMemPoolSetAttribute(pools[0], cudaMemPoolAttrReleaseThreshold, &threshold));
    CK(cudaMemPoolSetAttribute(pools[1], cudaMemPoolReuseAllowOpportunistic, &off));
    CK(cudaMemPoolSetAttribute(pools[1], cudaMemPoolReuseAllowInternalDependencies, &off));
    CK(cudaMemPoolGetAttribute(pools[0], cudaMemPoolAttrReleaseThreshold, &read));
    CK(cudaMemPoolGetAttribute(pools[1], cudaMemPoolReuseAllowOpportunistic, &flag));
    wrong += read != threshold || flag != 0;
    cudaMemAccessDesc access = {}; access.location.type = cudaMemLocationTypeDevice; access.location.id = 0; access.flags = cudaMemAccessFlagsProtReadWrite;
    CK(cudaMemPoolSetAccess(pools[0], &access, 1));
    cudaMemAccessFlags got; CK(cudaMemPoolGetAccess(&got, pools[1], &access.location));
    wrong += got != cudaMemAccessFlagsProtReadWrite;

    std::vector<std::thread> threads;
    for (int t = 0; t < THREADS; t++) threads.emplace_back(worker, t);
    for (auto &t : threads) t.join();
    uint64_t sum = 0;
    cudaStream_t s; CK(cudaStreamCreate(&s));
    for (int t = 0; t < THREADS; t++) {                     // memory of a destroyed stream, waited for by its event
        Handover &h = handovers[t];
        std::vector<uint32_t> host(h.n);
        CK(cudaStreamWaitEvent(s, h.ready, 0));
        CK(cudaMemcpyAsync(host.data(), h.memory, h.n * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaFreeAsync(h.memory, s));
        CK(cudaStreamSynchronize(s));
        for (uint32_t i = 0; i < h.n; i++) wrong += host[i] != mix(i ^ h.seed);
        CK(cudaEventDestroy(h.ready));
        sum = sum * 31 + results[t];
    }
    CK(cudaDeviceSetMemPool(0, pools[0]));                  // now cudaMallocAsync takes from the own pool
    uint32_t *p; CK(cudaMallocAsync(&p, 1 << 20, s));
    cudaPointerAttributes attributes; CK(cudaPointerGetAttributes(&attributes, p));
    wrong += attributes.type != cudaMemoryTypeDevice;
    fill<<<4, 64, 0, s>>>(p, 1 << 18, 1);
    std::vector<uint32_t> host(1 << 18);
    CK(cudaMemcpyAsync(host.data(), p, 1 << 20, cudaMemcpyDeviceToHost, s));
    CK(cudaStreamSynchronize(s));
    for (uint32_t i = 0; i < host.size(); i++) wrong += host[i] != mix(i ^ 1);
    CK(cudaFree(p));                                        // the synchronous free takes pool memory too
    CK(cudaDeviceSetMemPool(0, default_pool));
    sum ^= with_graphs();
    CK(cudaDeviceSynchronize());
    uint64_t high, reset = 0, used;
    CK(cudaMemPoolGetAttribute(pools[0], cudaMemPoolAttrUsedMemHigh, &high));
    CK(cudaMemPoolSetAttribute(pools[0], cudaMemPoolAttrUsedMemHigh, &reset));
    CK(cudaMemPoolGetAttribute(pools[0], cudaMemPoolAttrUsedMemCurrent, &used));
    wrong += high == 0 || used > high;
    for (auto &q : pools) CK(cudaMemPoolDestroy(q));
    CK(cudaStreamDestroy(s));
    printf("pools: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
