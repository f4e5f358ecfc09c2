// Stream-ordered memory: made in one stream, used in a second behind an event, freed in a third; own pools and the default one,
// release thresholds, trimming and the flags for reuse switched between the phases, three threads at once.
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

constexpr int THREADS = 3, ROUNDS = 40, PHASES = 4, A = 4096;
static std::atomic<int> wrong{0};

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void fill(uint32_t *p, int n, uint32_t seed) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(i + seed); }
__global__ void change(uint32_t *p, int n, uint32_t k) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = p[i] * 5 + k; }
__global__ void gather(uint32_t *acc, const uint32_t *p, int n) {       // one thread for each sum: a fixed order
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= A) return;
    uint32_t s = acc[i];
    for (int k = i; k < n; k += A) s = s * 3 + p[k];
    acc[i] = s;
}
__global__ void check(const uint32_t *p, int n, uint32_t seed, uint32_t k, uint32_t *errors) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (p[i] != mix(i + seed) * 5 + k) atomicAdd(errors, 1);
}
static int size_of(int thread, int phase, int round) { return 1000 + (int)(mix(thread * 1000003 + phase * 1009 + round) % 150000); }

static uint64_t used(cudaMemPool_t pool, cudaMemPoolAttr a) { uint64_t v = 0; CK(cudaMemPoolGetAttribute(pool, a, &v)); return v; }

static void worker(int id, int phase, cudaMemPool_t pool, uint64_t *result) {
    CK(cudaSetDevice(0));
    cudaStream_t make, use, drop; cudaEvent_t made, done, dropped;
    CK(cudaStreamCreateWithFlags(&make, cudaStreamNonBlocking)); CK(cudaStreamCreate(&use)); CK(cudaStreamCreateWithFlags(&drop, cudaStreamNonBlocking));
    for (auto e : {&made, &done, &dropped}) CK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    uint32_t *acc, *errors, *pinned;
    CK(cudaMallocAsync(&acc, A * 4, use));
    CK(cudaMallocFromPoolAsync(&errors, 4, pool, drop));
    CK(cudaMemsetAsync(acc, 0, A * 4, use)); CK(cudaMemsetAsync(errors, 0, 4, drop));
    CK(cudaMallocHost(&pinned, 200000 * 4));
    std::vector<uint32_t> reference(A, 0), copy;
    uint32_t *kept[3] = {};                                 // some live for three rounds
    for (int round = 0; round < ROUNDS; round++) {
        int n = size_of(id, phase, round); uint32_t seed = round * 7919 + id, k = phase * 100 + round, *p;
        if (round % 3 == 0) CK(cudaMallocAsync(&p, n * 4, make)); else CK(cudaMallocFromPoolAsync(&p, n * 4, pool, make));
        fill<<<64, 256, 0, make>>>(p, n, seed);
        CK(cudaEventRecord(made, make));
        CK(cudaStreamWaitEvent(use, made, 0));
        change<<<48, 256, 0, use>>>(p, n, k);
        gather<<<A / 128, 128, 0, use>>>(acc, p, n);
        CK(cudaEventRecord(done, use));
        CK(cudaStreamWaitEvent(drop, done, 0));
        check<<<32, 256, 0, drop>>>(p, n, seed, k, errors);
        if (round % 8 == 5) {                               // look at one of them as a whole
            CK(cudaMemcpyAsync(pinned, p, n * 4, cudaMemcpyDeviceToHost, drop));
            CK(cudaStreamSynchronize(drop));
            for (int i = 0; i < n; i++) if (pinned[i] != mix(i + seed) * 5 + k) { wrong++; break; }
        }
        uint32_t *&old = kept[round % 3];
        if (old) CK(cudaFreeAsync(old, drop));
        old = nullptr;
        if (round % 4 == 1) old = p; else if (round % 4 == 3) { CK(cudaStreamSynchronize(drop)); CK(cudaFree(p)); } else CK(cudaFreeAsync(p, drop));
        if (phase != 1) {                                   // the next allocation may follow the free by an event
            CK(cudaEventRecord(dropped, drop));
            CK(cudaStreamWaitEvent(make, dropped, 0));
        }
        if (round % 16 == 9) CK(cudaMemPoolTrimTo(pool, phase * 100000));
        for (int i = 0; i < A; i++) for (int j = i; j < n; j += A) reference[i] = reference[i] * 3 + mix(j + seed) * 5 + k;
    }
    for (auto p : kept) if (p) CK(cudaFreeAsync(p, drop));
    uint32_t found = 0; copy.resize(A);
    CK(cudaMemcpyAsync(&found, errors, 4, cudaMemcpyDeviceToHost, drop));
    CK(cudaFreeAsync(errors, drop));
    CK(cudaStreamSynchronize(drop));
    CK(cudaMemcpyAsync(copy.data(), acc, A * 4, cudaMemcpyDeviceToHost, use));
    CK(cudaFreeAsync(acc, use));
    CK(cudaStreamSynchronize(use)); CK(cudaStreamSynchronize(make));
    if (found || copy != reference) { wrong++; fprintf(stderr, "thread %d, phase %d: %u elements, sums %s\n", id, phase, found, copy == reference ? "good" : "differ"); }
    uint64_t h = 14695981039346656037ull;
    for (uint32_t v : copy) h = (h ^ v) * 1099511628211ull;
    *result = h;
    for (auto s : {make, use, drop}) CK(cudaStreamDestroy(s));
    for (auto e : {made, done, dropped}) CK(cudaEventDestroy(e));
    CK(cudaFreeHost(pinned));
}

int main() {
    CK(cudaSetDevice(0));
    int supported = 0; CK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported) { fprintf(stderr, "no memory pools\n"); return 2; }
    cudaMemPool_t standard, pool;
    CK(cudaDeviceGetDefaultMemPool(&standard, 0));
    uint64_t sum = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        cudaMemPoolProps props; memset(&props, 0, sizeof props);
        props.allocType = cudaMemAllocationTypePinned; props.handleTypes = cudaMemHandleTypeNone;
        props.location.type = cudaMemLocationTypeDevice; props.location.id = 0;
        if (phase == 3) props.maxSize = 512u << 20;
        CK(cudaMemPoolCreate(&pool, &props));
        cudaMemAccessDesc access; memset(&access, 0, sizeof access);
        access.location = props.location; access.flags = cudaMemAccessFlagsProtReadWrite;
        CK(cudaMemPoolSetAccess(pool, &access, 1));
        cudaMemAccessFlags flags; CK(cudaMemPoolGetAccess(&flags, pool, &access.location));
        wrong += flags != cudaMemAccessFlagsProtReadWrite;
        uint64_t threshold = phase == 0 ? 0 : phase == 1 ? 16u << 20 : ~0ull, seen;
        CK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
        CK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &seen));
        wrong += seen != threshold;
        int follow = phase != 2, opportunistic = phase & 1, internal = phase >= 2, value;
        for (cudaMemPool_t q : {pool, standard}) {
            CK(cudaMemPoolSetAttribute(q, cudaMemPoolReuseFollowEventDependencies, &follow));
            CK(cudaMemPoolSetAttribute(q, cudaMemPoolReuseAllowOpportunistic, &opportunistic));
            CK(cudaMemPoolSetAttribute(q, cudaMemPoolReuseAllowInternalDependencies, &internal));
            CK(cudaMemPoolGetAttribute(q, cudaMemPoolReuseAllowOpportunistic, &value)); wrong += value != opportunistic;
            CK(cudaMemPoolGetAttribute(q, cudaMemPoolReuseFollowEventDependencies, &value)); wrong += value != follow;
        }
        if (phase == 2) CK(cudaDeviceSetMemPool(0, pool));  // cudaMallocAsync takes from it, too
        cudaMemPool_t current; CK(cudaDeviceGetMemPool(&current, 0));
        wrong += current != (phase == 2 ? pool : standard);

        uint64_t results[THREADS];
        std::vector<std::thread> threads;
        for (int i = 0; i < THREADS; i++) threads.emplace_back(worker, i, phase, pool, &results[i]);
        for (auto &t : threads) t.join();
        for (auto h : results) sum = sum * 1000003 + h;

        CK(cudaDeviceSynchronize());
        wrong += used(pool, cudaMemPoolAttrUsedMemCurrent) != 0;
        wrong += used(pool, cudaMemPoolAttrUsedMemHigh) == 0;
        wrong += used(pool, cudaMemPoolAttrReservedMemHigh) < used(pool, cudaMemPoolAttrUsedMemHigh);
        uint64_t zero = 0; CK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
        CK(cudaMemPoolTrimTo(pool, 0));
        wrong += used(pool, cudaMemPoolAttrReservedMemCurrent) != 0;
        if (phase == 2) CK(cudaDeviceSetMemPool(0, standard));

        // A pool is destroyed while something of it lives: it goes when that is freed.
        cudaStream_t s; CK(cudaStreamCreate(&s));
        uint32_t *last, n = 50000; std::vector<uint32_t> out(n);
        CK(cudaMallocFromPoolAsync(&last, n * 4, pool, s));
        fill<<<40, 128, 0, s>>>(last, n, phase);
        CK(cudaMemPoolDestroy(pool));
        change<<<40, 128, 0, s>>>(last, n, 9);
        CK(cudaMemcpyAsync(out.data(), last, n * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaFreeAsync(last, s));
        CK(cudaStreamSynchronize(s));
        for (uint32_t i = 0; i < n; i++) { if (out[i] != mix(i + phase) * 5 + 9) { wrong++; break; } sum = sum * 31 + out[i]; }
        CK(cudaStreamDestroy(s));
    }
    CK(cudaMemPoolTrimTo(standard, 0));
    printf("poolstreams: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
