// Streams and kinds of memory: many streams side by side and false dependencies, priorities, copies that overlap, events, callbacks, tasks of
// threads on managed memory that the CPU or cuBLAS does, allocation in stream order across streams, a window of the L2 cache, advice and
// attributes, unified addresses, copies without copies, bandwidth of every kind of memory, atomics of the whole system, topology.
// nvcc: -lcublas -Xcompiler -pthread
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cublas_v2.h>
#include <atomic>
#include <mutex>
#include <thread>

__global__ void addTo(int *v, int by, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) v[i] += by; }
__global__ void spin(int *count, long long ticks) { long long begin = clock64(); while (clock64() - begin < ticks) {} if (count) atomicAdd(count, 1); }
__global__ void sumCounts(const int *c, int n, int *out) { __shared__ int s[32]; s[threadIdx.x] = threadIdx.x < n ? c[threadIdx.x] : 0; __syncwarp(); for (int d = 16; d; d /= 2) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncwarp(); } if (threadIdx.x == 0) *out = s[0]; }
__global__ void copyLong(const int4 *in, int4 *out, int n, int repeat) { for (int r = 0; r < repeat; r++) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { int4 v = in[i]; v.x += r == 0; out[i] = v; } }
__global__ void squareInner(float *out, const float *in, int n, int repeat) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float v = in[i]; for (int k = 0; k < repeat; k++) v = v * .5f + 1; out[i] = v; } }
__global__ void hotCold(int *cold, const int *hot, int nc, int nh) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < nc) cold[i] += hot[i % nh]; }
__global__ void vectorAdd(const float *a, const float *b, float *c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
__global__ void systemAtomics(int *a, int loops)
{
    for (int i = 0; i < loops; i++) {
        atomicAdd_system(&a[0], 10); atomicExch_system(&a[1], 1 << 20); atomicMax_system(&a[2], (int)threadIdx.x + i); atomicMin_system(&a[3], -(int)threadIdx.x - i);
        atomicInc_system((unsigned *)&a[4], 16); atomicDec_system((unsigned *)&a[5], 136); atomicCAS_system(&a[6], i - 1, i); atomicAnd_system(&a[7], 2 * i + 7); atomicOr_system(&a[8], 1 << (i & 15)); atomicXor_system(&a[9], 5 + (int)threadIdx.x);
    }
}
static void CUDART_CB noteDone(cudaStream_t, cudaError_t status, void *data) { if (status == cudaSuccess) ((std::atomic<int> *)data)->fetch_add(1); }
static void CUDART_CB hostWork(void *data) { int *v = (int *)data; for (int i = 1; i < 1024; i++) v[0] += v[i]; }

// ---------------------------------------------------------------- tasks for threads
struct Task { int n, id; double *matrix, *vector, *result; };
static std::mutex taskMutex; static size_t nextTask = 0;
static void serve(std::vector<Task> *tasks, cudaStream_t stream, cublasHandle_t blas)
{
    while (1) {
        Task t; { std::lock_guard<std::mutex> lock(taskMutex); if (nextTask >= tasks->size()) return; t = (*tasks)[nextTask++]; }
        if (t.n < 100) {                                            // a small one: by the CPU
            checkCuda(cudaStreamAttachMemAsync(stream, t.matrix, 0, cudaMemAttachHost)); checkCuda(cudaStreamAttachMemAsync(stream, t.vector, 0, cudaMemAttachHost)); checkCuda(cudaStreamAttachMemAsync(stream, t.result, 0, cudaMemAttachHost));
            checkCuda(cudaStreamSynchronize(stream));
            for (int i = 0; i < t.n; i++) { t.result[i] = 0; for (int j = 0; j < t.n; j++) t.result[i] += t.matrix[i * t.n + j] * t.vector[j]; }
        } else {
            double one = 1, zero = 0;
            checkLib(cublasSetStream(blas, stream)); checkCuda(cudaStreamAttachMemAsync(stream, t.matrix, 0, cudaMemAttachSingle)); checkCuda(cudaStreamAttachMemAsync(stream, t.vector, 0, cudaMemAttachSingle)); checkCuda(cudaStreamAttachMemAsync(stream, t.result, 0, cudaMemAttachSingle));
            checkLib(cublasDgemv(blas, CUBLAS_OP_T, t.n, t.n, &one, t.matrix, t.n, t.vector, 1, &zero, t.result, 1));
            checkCuda(cudaStreamSynchronize(stream));
        }
    }
}

int main()
{
    printf("[hoststreams]\n");
    findDevice();
    cudaDeviceProp prop; checkCuda(cudaGetDeviceProperties(&prop, 0)); EventTimer timer; float ms;
    {   // topology and peers: a machine of one GPU has none
        int count; checkCuda(cudaGetDeviceCount(&count)); bool ok = true;
        for (int i = 0; i < count; i++) for (int j = 0; j < count; j++) if (i != j) { int v; for (auto a : {cudaDevP2PAttrAccessSupported, cudaDevP2PAttrPerformanceRank, cudaDevP2PAttrNativeAtomicSupported, cudaDevP2PAttrCudaArrayAccessSupported}) checkCuda(cudaDeviceGetP2PAttribute(&v, a, i, j)); }
        int can = 0; if (count > 1) checkCuda(cudaDeviceCanAccessPeer(&can, 0, 1)); else ok = cudaDeviceCanAccessPeer(&can, 0, 1) == cudaErrorInvalidDevice;
        cudaGetLastError();
        int host, native, runtime, driver; checkCuda(cudaDeviceGetAttribute(&host, cudaDevAttrPageableMemoryAccess, 0)); checkCuda(cudaDeviceGetAttribute(&native, cudaDevAttrHostNativeAtomicSupported, 0)); checkCuda(cudaRuntimeGetVersion(&runtime)); checkCuda(cudaDriverGetVersion(&driver));
        size_t limit; for (auto l : {cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize}) { checkCuda(cudaDeviceGetLimit(&limit, l)); ok &= limit > 0; }
        char bus[32]; int again = -1; checkCuda(cudaDeviceGetPCIBusId(bus, sizeof bus, 0)); checkCuda(cudaDeviceGetByPCIBusId(&again, bus)); ok &= again == 0;
        report("topology", ok && driver >= 12000);
    }
    {   // 32 streams of kernels that take their time, two in a row each, then a sum of all
        const int streams = 32; std::vector<cudaStream_t> s(streams); std::vector<cudaEvent_t> e(streams); int *counts, *d_sum, sum = 0; const long long ticks = 200000;
        checkCuda(cudaMalloc((void **)&counts, streams * 4)); checkCuda(cudaMalloc((void **)&d_sum, 4)); checkCuda(cudaMemset(counts, 0, streams * 4));
        for (int i = 0; i < streams; i++) { checkCuda(cudaStreamCreate(&s[i])); checkCuda(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming)); }
        timer.start();
        for (int i = 0; i < streams; i++) {
            spin<<<1, 1, 0, s[i]>>>(counts + i, ticks); spin<<<1, 1, 0, s[i]>>>(counts + i, ticks);
            checkCuda(cudaEventRecord(e[i], s[i])); checkCuda(cudaStreamWaitEvent(s[streams - 1], e[i], 0));
        }
        sumCounts<<<1, 32, 0, s[streams - 1]>>>(counts, streams, d_sum); checkLaunch("spin");
        checkCuda(cudaMemcpyAsync(&sum, d_sum, 4, cudaMemcpyDeviceToHost, s[streams - 1])); ms = timer.stop();
        checkCuda(cudaStreamSynchronize(s[streams - 1])); report("kernels side by side", sum == 2 * streams && ms > 0); digest(&sum, 4);
        for (int i = 0; i < streams; i++) { checkCuda(cudaStreamDestroy(s[i])); checkCuda(cudaEventDestroy(e[i])); }
        cudaFree(counts); cudaFree(d_sum);
    }
    {   // priorities: the same copies on both, timed by events, of which nothing is said
        int low, high; checkCuda(cudaDeviceGetStreamPriorityRange(&low, &high)); cudaStream_t s[2]; const int n = 1 << 20; int4 *in, *out[2]; std::vector<int4> h(n), g(n); bool ok = low >= high;
        for (int i = 0; i < n; i++) h[i] = make_int4(i, -i, i * 3, 7);
        checkCuda(cudaMalloc((void **)&in, n * 16)); checkCuda(cudaMemcpy(in, h.data(), n * 16, cudaMemcpyHostToDevice)); checkCuda(cudaDeviceSynchronize()); cudaEvent_t e[2][2];
        for (int k = 0; k < 2; k++) { checkCuda(cudaStreamCreateWithPriority(&s[k], cudaStreamNonBlocking, k ? high : low)); checkCuda(cudaMalloc((void **)&out[k], n * 16)); for (auto &x : e[k]) checkCuda(cudaEventCreate(&x)); int p; checkCuda(cudaStreamGetPriority(s[k], &p)); ok &= p == (k ? high : low); }
        for (int k = 0; k < 2; k++) checkCuda(cudaEventRecord(e[k][0], s[k]));
        for (int r = 0; r < 8; r++) for (int k = 0; k < 2; k++) copyLong<<<n / 256, 256, 0, s[k]>>>(in, out[k], n, 3);
        for (int k = 0; k < 2; k++) { checkCuda(cudaEventRecord(e[k][1], s[k])); checkCuda(cudaEventSynchronize(e[k][1])); checkCuda(cudaEventElapsedTime(&ms, e[k][0], e[k][1])); ok &= ms >= 0; checkCuda(cudaMemcpy(g.data(), out[k], n * 16, cudaMemcpyDeviceToHost)); for (int i = 0; i < n; i++) ok &= g[i].x == h[i].x && g[i].y == h[i].y; }
        report("priorities", ok); digest(g.data(), n * 16);
        for (int k = 0; k < 2; k++) { checkCuda(cudaStreamDestroy(s[k])); cudaFree(out[k]); for (auto &x : e[k]) checkCuda(cudaEventDestroy(x)); } cudaFree(in);
    }
    {   // copies in, kernels and copies out that overlap; the CPU counts while it waits; callbacks
        const int S = 4, n = 1 << 18, rounds = 12; cudaStream_t s[S]; float *hi[S], *ho[S], *di[S], *dn[S]; std::atomic<int> called{0}; int bad = 0; cudaEvent_t done; unsigned long counter = 0;
        checkCuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
        for (int k = 0; k < S; k++) { checkCuda(cudaStreamCreateWithFlags(&s[k], cudaStreamNonBlocking)); checkCuda(cudaHostAlloc((void **)&hi[k], n * 4, cudaHostAllocDefault)); checkCuda(cudaMallocHost((void **)&ho[k], n * 4)); checkCuda(cudaMalloc((void **)&di[k], n * 4)); checkCuda(cudaMalloc((void **)&dn[k], n * 4)); }
        for (int r = 0; r < rounds; r++) {
            int k = r % S; checkCuda(cudaStreamSynchronize(s[k]));
            if (r >= S) for (int i = 0; i < n; i += 97) { float v = (r - S) * 100 + i % 89; for (int q = 0; q < 20; q++) v = v * .5f + 1; bad += fabsf(v - ho[k][i]) > 1e-4f; }
            for (int i = 0; i < n; i++) hi[k][i] = r * 100 + i % 89;
            checkCuda(cudaMemcpyAsync(di[k], hi[k], n * 4, cudaMemcpyHostToDevice, s[k])); squareInner<<<n / 256, 256, 0, s[k]>>>(dn[k], di[k], n, 20); checkCuda(cudaMemcpyAsync(ho[k], dn[k], n * 4, cudaMemcpyDeviceToHost, s[k]));
            checkCuda(cudaStreamAddCallback(s[k], noteDone, &called, 0)); checkLaunch("squareInner");
            if (r == rounds - 1) checkCuda(cudaEventRecord(done, s[k]));
        }
        cudaError_t q; while ((q = cudaEventQuery(done)) == cudaErrorNotReady) counter++;
        checkCuda(q); checkCuda(cudaDeviceSynchronize());
        report("copies and kernels that overlap", bad == 0 && called == rounds); for (int k = 0; k < S; k++) digest(ho[k], n * 4);
        int *pinned; checkCuda(cudaMallocHost((void **)&pinned, 1024 * 4)); int *d; checkCuda(cudaMalloc((void **)&d, 1024 * 4)); checkCuda(cudaMemsetAsync(d, 0, 1024 * 4, s[0])); addTo<<<4, 256, 0, s[0]>>>(d, 3, 1024);
        checkCuda(cudaMemcpyAsync(pinned, d, 1024 * 4, cudaMemcpyDeviceToHost, s[0])); checkCuda(cudaLaunchHostFunc(s[0], hostWork, pinned)); checkCuda(cudaMemcpyAsync(d, pinned, 1024 * 4, cudaMemcpyHostToDevice, s[0])); addTo<<<4, 256, 0, s[0]>>>(d, 1, 1024); checkCuda(cudaMemcpyAsync(pinned, d, 1024 * 4, cudaMemcpyDeviceToHost, s[0])); checkCuda(cudaStreamSynchronize(s[0]));
        report("the CPU's work in a stream", pinned[0] == 3 * 1024 + 1 && pinned[5] == 4); digest(pinned, 4096);
        for (int k = 0; k < S; k++) { checkCuda(cudaStreamDestroy(s[k])); cudaFreeHost(hi[k]); cudaFreeHost(ho[k]); cudaFree(di[k]); cudaFree(dn[k]); } cudaFreeHost(pinned); cudaFree(d); checkCuda(cudaEventDestroy(done));
    }
    {   // tasks of four threads on managed memory
        const int threads = 4, count = 24; std::vector<Task> tasks(count); cudaStream_t s[threads]; cublasHandle_t blas[threads]; std::vector<std::thread> workers; int bad = 0;
        for (int i = 0; i < count; i++) {
            Task &t = tasks[i]; t.id = i; t.n = 40 + nextRandom() % 260;
            checkCuda(cudaMallocManaged((void **)&t.matrix, t.n * t.n * 8, cudaMemAttachHost)); checkCuda(cudaMallocManaged((void **)&t.vector, t.n * 8, cudaMemAttachHost)); checkCuda(cudaMallocManaged((void **)&t.result, t.n * 8, cudaMemAttachHost));
            for (int k = 0; k < t.n * t.n; k++) t.matrix[k] = nextRandom() % 100; for (int k = 0; k < t.n; k++) { t.vector[k] = nextRandom() % 100; t.result[k] = -1; }
        }
        for (int k = 0; k < threads; k++) { checkCuda(cudaStreamCreate(&s[k])); checkLib(cublasCreate(&blas[k])); }
        for (int k = 0; k < threads; k++) workers.emplace_back(serve, &tasks, s[k], blas[k]);
        for (auto &w : workers) w.join();
        checkCuda(cudaDeviceSynchronize());
        for (auto &t : tasks) { for (int i = 0; i < t.n; i++) { double v = 0; for (int j = 0; j < t.n; j++) v += t.matrix[i * t.n + j] * t.vector[j]; bad += v != t.result[i]; } digest(t.result, t.n * 8); cudaFree(t.matrix); cudaFree(t.vector); cudaFree(t.result); }
        report("tasks of threads, by the CPU and the GPU", bad == 0);
        for (int k = 0; k < threads; k++) { checkLib(cublasDestroy(blas[k])); checkCuda(cudaStreamDestroy(s[k])); }
    }
    {   // allocation in stream order: memory freed in one stream, used in another
        cudaMemPool_t pool; unsigned long long keep = ~0ull; cudaStream_t s[2]; cudaEvent_t freed; const int n = 1 << 20; std::vector<float> x(n), y(n), z(n); bool ok = true;
        for (int i = 0; i < n; i++) { x[i] = i % 1000; y[i] = i % 77; }
        checkCuda(cudaDeviceGetDefaultMemPool(&pool, 0)); checkCuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)); checkCuda(cudaEventCreate(&freed)); for (auto &q : s) checkCuda(cudaStreamCreateWithFlags(&q, cudaStreamNonBlocking));
        for (int r = 0; r < 6; r++) {
            float *a, *b, *c; cudaStream_t t = s[r % 2];
            if (r) checkCuda(cudaStreamWaitEvent(t, freed, 0));
            checkCuda(cudaMallocAsync((void **)&a, n * 4, t)); checkCuda(cudaMallocAsync((void **)&b, n * 4, t)); checkCuda(cudaMallocAsync((void **)&c, n * 4, t));
            checkCuda(cudaMemcpyAsync(a, x.data(), n * 4, cudaMemcpyHostToDevice, t)); checkCuda(cudaMemcpyAsync(b, y.data(), n * 4, cudaMemcpyHostToDevice, t));
            vectorAdd<<<n / 256, 256, 0, t>>>(a, b, c, n); checkLaunch("vectorAdd"); checkCuda(cudaFreeAsync(a, t)); checkCuda(cudaFreeAsync(b, t)); checkCuda(cudaMemcpyAsync(z.data(), c, n * 4, cudaMemcpyDeviceToHost, t)); checkCuda(cudaFreeAsync(c, t)); checkCuda(cudaEventRecord(freed, t));
            if (r % 3 == 2) { checkCuda(cudaStreamSynchronize(t)); checkCuda(cudaMemPoolTrimTo(pool, r == 2 ? 0 : 4 << 20)); }
        }
        checkCuda(cudaDeviceSynchronize()); for (int i = 0; i < n; i++) ok &= z[i] == x[i] + y[i];
        unsigned long long used, high; checkCuda(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used)); checkCuda(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high));
        report("allocation in stream order", ok && used == 0 && high >= 3 * n * 4); digest(z.data(), n * 4);
        for (auto &q : s) checkCuda(cudaStreamDestroy(q)); checkCuda(cudaEventDestroy(freed));
    }
    {   // a window of the L2 cache
        const int hotN = 1 << 16, coldN = 1 << 22; int *hot, *cold; std::vector<int> h(hotN), g(coldN); cudaStream_t s; bool ok = true;
        for (int i = 0; i < hotN; i++) h[i] = i; checkCuda(cudaMalloc((void **)&hot, hotN * 4)); checkCuda(cudaMalloc((void **)&cold, coldN * 4)); checkCuda(cudaMemset(cold, 0, coldN * 4)); checkCuda(cudaMemcpy(hot, h.data(), hotN * 4, cudaMemcpyHostToDevice)); checkCuda(cudaStreamCreate(&s));
        if (prop.persistingL2CacheMaxSize > 0) checkCuda(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, std::min<size_t>(prop.persistingL2CacheMaxSize, 4 << 20)));
        cudaStreamAttrValue attribute; memset(&attribute, 0, sizeof attribute); attribute.accessPolicyWindow.base_ptr = hot; attribute.accessPolicyWindow.num_bytes = std::min<size_t>(hotN * 4, prop.accessPolicyMaxWindowSize); attribute.accessPolicyWindow.hitRatio = .6f; attribute.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting; attribute.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
        checkCuda(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &attribute));
        for (int r = 0; r < 10; r++) hotCold<<<coldN / 512, 512, 0, s>>>(cold, hot, coldN, hotN);
        checkLaunch("hotCold"); attribute.accessPolicyWindow.num_bytes = 0; checkCuda(cudaStreamSynchronize(s)); checkCuda(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &attribute)); checkCuda(cudaCtxResetPersistingL2Cache());
        checkCuda(cudaMemcpy(g.data(), cold, coldN * 4, cudaMemcpyDeviceToHost)); for (int i = 0; i < coldN; i++) ok &= g[i] == 10 * (i % hotN); report("window of the L2 cache", ok); digest(g.data(), 1 << 20);
        cudaFree(hot); cudaFree(cold); checkCuda(cudaStreamDestroy(s));
    }
    {   // advice, prefetching, attributes of ranges
        const int n = 1 << 20; int *m, mostly = -1; cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0}, cpu = {cudaMemLocationTypeHost, 0}; bool ok = true; cudaPointerAttributes pa;
        checkCuda(cudaMallocManaged((void **)&m, n * 4)); for (int i = 0; i < n; i++) m[i] = i;
        if (prop.concurrentManagedAccess) { checkCuda(cudaMemAdvise(m, n * 4, cudaMemAdviseSetPreferredLocation, gpu)); checkCuda(cudaMemAdvise(m, n * 4, cudaMemAdviseSetAccessedBy, cpu)); checkCuda(cudaMemPrefetchAsync(m, n * 4, gpu, 0, 0)); }
        addTo<<<n / 256, 256>>>(m, 5, n); checkLaunch("addTo");
        if (prop.concurrentManagedAccess) { checkCuda(cudaMemAdvise(m, n * 4, cudaMemAdviseSetReadMostly, gpu)); checkCuda(cudaMemRangeGetAttribute(&mostly, 4, cudaMemRangeAttributeReadMostly, m, n * 4)); ok &= mostly == 1; checkCuda(cudaMemAdvise(m, n * 4, cudaMemAdviseUnsetReadMostly, gpu)); checkCuda(cudaMemPrefetchAsync(m, n * 4, cpu, 0, 0)); }
        checkCuda(cudaDeviceSynchronize()); checkCuda(cudaPointerGetAttributes(&pa, m)); ok &= pa.type == cudaMemoryTypeManaged; for (int i = 0; i < n; i++) ok &= m[i] == i + 5; report("advice and prefetching", ok); digest(m, n * 4); cudaFree(m);
    }
    {   // unified addresses: the kinds of pointers told apart, copies of direction default, vectors that are read where they lie
        const int n = 1 << 19; float *host, *pageable = (float *)aligned_alloc(4096, n * 4), *dev, *c, *dh, *dp; cudaPointerAttributes pa; bool ok = true;
        checkCuda(cudaHostAlloc((void **)&host, n * 4, cudaHostAllocMapped | cudaHostAllocPortable)); checkCuda(cudaHostRegister(pageable, n * 4, cudaHostRegisterMapped)); checkCuda(cudaMalloc((void **)&dev, n * 4)); checkCuda(cudaHostAlloc((void **)&c, n * 4, cudaHostAllocMapped));
        checkCuda(cudaHostGetDevicePointer((void **)&dh, host, 0)); checkCuda(cudaHostGetDevicePointer((void **)&dp, pageable, 0)); unsigned flags; checkCuda(cudaHostGetFlags(&flags, host)); ok &= (flags & cudaHostAllocMapped) != 0;
        checkCuda(cudaPointerGetAttributes(&pa, host)); ok &= pa.type == cudaMemoryTypeHost; checkCuda(cudaPointerGetAttributes(&pa, dev)); ok &= pa.type == cudaMemoryTypeDevice; checkCuda(cudaPointerGetAttributes(&pa, &n)); ok &= pa.type == cudaMemoryTypeUnregistered;
        for (int i = 0; i < n; i++) { host[i] = i % 321; pageable[i] = i % 123; }
        vectorAdd<<<n / 256, 256>>>(dh, dp, c, n); checkCuda(cudaDeviceSynchronize()); for (int i = 0; i < n; i++) ok &= c[i] == host[i] + pageable[i];
        checkCuda(cudaMemcpy(dev, host, n * 4, cudaMemcpyDefault)); vectorAdd<<<n / 256, 256>>>(dev, dp, dev, n); checkCuda(cudaMemcpy(host, dev, n * 4, cudaMemcpyDefault)); for (int i = 0; i < n; i++) ok &= host[i] == c[i];
        report("unified addresses, nothing copied", ok); digest(c, n * 4); checkCuda(cudaHostUnregister(pageable)); free(pageable); cudaFreeHost(host); cudaFreeHost(c); cudaFree(dev);
    }
    {   // bandwidth: pageable, pinned, write-combined; to, from and within the device, sizes in a row
        const size_t most = 32 << 20; unsigned char *dev, *dev2, *h[3]; h[0] = (unsigned char *)malloc(most); bool ok = true; checkCuda(cudaMallocHost((void **)&h[1], most)); checkCuda(cudaHostAlloc((void **)&h[2], most, cudaHostAllocWriteCombined)); checkCuda(cudaMalloc((void **)&dev, most)); checkCuda(cudaMalloc((void **)&dev2, most)); std::vector<unsigned char> back(most);
        for (int k = 0; k < 3; k++) {
            for (size_t i = 0; i < most; i += 4) *(unsigned *)(h[k] + i) = (unsigned)(i * 2654435761u + k);
            for (size_t size = 1024; size <= most; size *= 8) { timer.start(); for (int r = 0; r < 3; r++) checkCuda(cudaMemcpyAsync(dev, h[k], size, cudaMemcpyHostToDevice)); ms = timer.stop(); checkCuda(cudaMemcpyAsync(dev2, dev, size, cudaMemcpyDeviceToDevice)); }
            checkCuda(cudaMemcpy(dev, h[k], most, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(dev2, dev, most, cudaMemcpyDeviceToDevice)); checkCuda(cudaMemset(dev, 0xee, most)); checkCuda(cudaMemcpy(k == 1 ? h[1] : back.data(), dev2, most, cudaMemcpyDeviceToHost));
            const unsigned char *got = k == 1 ? h[1] : back.data(); for (size_t i = 0; i < most; i += 1024) ok &= *(unsigned *)(got + i) == (unsigned)(i * 2654435761u + k); digest(got, 1 << 20);
        }
        report("copies of pageable, pinned and combined memory", ok); free(h[0]); cudaFreeHost(h[1]); cudaFreeHost(h[2]); cudaFree(dev); cudaFree(dev2);
    }
    {   // atomics of the whole system: the GPU's part, then the CPU's on the same numbers
        int *a; const int threads = 64, blocks = 16, loops = 32; checkCuda(cudaMallocManaged((void **)&a, 10 * 4)); memset(a, 0, 40); a[7] = 0xff; a[8] = 0; systemAtomics<<<blocks, threads>>>(a, loops); checkLaunch("systemAtomics"); checkCuda(cudaDeviceSynchronize());
        const int all = threads * blocks * loops; int before = a[0];
        for (int i = 0; i < 100; i++) { __sync_fetch_and_add(&a[0], 10); __sync_fetch_and_xor(&a[9], 3); __sync_fetch_and_or(&a[8], 1 << 20); }
        int mask = 0xff, x = 0; for (int i = 0; i < loops; i++) mask &= 2 * i + 7; for (int t = 0; t < threads; t++) x ^= (5 + t) * (blocks * loops % 2);
        report("atomics of the whole system", before == 10 * all && a[0] == 10 * all + 1000 && a[1] == 1 << 20 && a[2] == threads - 1 + loops - 1 && a[3] == -(threads - 1 + loops - 1) && a[4] == all % 17 && a[7] == mask && a[8] == (0xffff | 1 << 20) && a[9] == x);
        digest(a, 5 * 4); digest(a + 7, 3 * 4); cudaFree(a);
    }
    FINISH("hoststreams");
}
