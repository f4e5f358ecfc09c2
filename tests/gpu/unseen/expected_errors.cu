// Every error that does not end the context, and correct work after each: bad configurations, too much shared memory, copies
// from invalid pointers, memory that is not there, double frees, destroyed handles, events that are not ready.
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static std::atomic<int> wrong{0};
static uint64_t sum = 14695981039346656037ull;
// The call must fail; with which error is counted where it is certain. The error is taken away again.
static bool fails(cudaError_t got, cudaError_t expected, const char *what, int line) {
    if (got == cudaSuccess || (expected != cudaSuccess && got != expected)) { fprintf(stderr, "line %d: %s: %s\n", line, what, cudaGetErrorName(got)); wrong++; }
    cudaGetLastError();
    if (cudaPeekAtLastError() != cudaSuccess) wrong++;
    return got != cudaSuccess;
}
#define FAILS(x, e) fails((x), (e), #x, __LINE__)
#define ANY cudaSuccess

constexpr int N = 20000;
__global__ void step(uint32_t *p, uint32_t k, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = p[i] * 1664525u + k; }
__global__ void shared_user(uint32_t *p) {
    extern __shared__ uint32_t s[];
    s[threadIdx.x] = p[threadIdx.x]; __syncthreads();
    p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] + 1;
}
__global__ void __launch_bounds__(128) narrow(uint32_t *p) { p[threadIdx.x] ^= 0xff; }
__global__ void spin(volatile uint32_t *go, uint32_t *p) { while (!*go) { } p[0] += 1; }
__constant__ uint32_t table[64];

static std::vector<uint32_t> reference(N);
static void check(uint32_t *p, cudaStream_t s, uint32_t k) {        // work goes on correctly
    step<<<(N + 255) / 256, 256, 0, s>>>(p, k, N);
    CK(cudaGetLastError());
    std::vector<uint32_t> host(N);
    CK(cudaMemcpyAsync(host.data(), p, N * 4, cudaMemcpyDeviceToHost, s));
    CK(cudaStreamSynchronize(s));
    for (auto &v : reference) v = v * 1664525u + k;
    wrong += host != reference;
    for (int i = 0; i < N; i += 61) sum = (sum ^ host[i]) * 1099511628211ull;
}

int main() {
    uint32_t *p; cudaStream_t s; cudaEvent_t e;
    CK(cudaMalloc(&p, N * 4)); CK(cudaStreamCreate(&s)); CK(cudaEventCreate(&e));
    for (int i = 0; i < N; i++) reference[i] = i * 3;
    CK(cudaMemcpy(p, reference.data(), N * 4, cudaMemcpyHostToDevice));
    check(p, s, 1);

    // Launches that never come to be.
    step<<<1, 2048, 0, s>>>(p, 5, N); FAILS(cudaGetLastError(), ANY);
    step<<<0, 32, 0, s>>>(p, 5, N); FAILS(cudaGetLastError(), ANY);
    step<<<dim3(1, 70000), 32, 0, s>>>(p, 5, N); FAILS(cudaGetLastError(), ANY);
    narrow<<<1, 256, 0, s>>>(p); FAILS(cudaPeekAtLastError(), ANY);
    shared_user<<<1, 64, 60 * 1024, s>>>(p); FAILS(cudaGetLastError(), cudaErrorInvalidValue);
    FAILS(cudaFuncSetAttribute(shared_user, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), cudaErrorInvalidValue);
    check(p, s, 2);
    CK(cudaFuncSetAttribute(shared_user, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
    shared_user<<<1, 64, 60 * 1024, s>>>(p); CK(cudaGetLastError());                // now it may
    { std::vector<uint32_t> old(reference.begin(), reference.begin() + 64); for (int i = 0; i < 64; i++) reference[i] = old[63 - i] + 1; }
    check(p, s, 3);
    void *args[] = {&p};
    FAILS(cudaLaunchCooperativeKernel((const void *)narrow, dim3(1 << 20), dim3(64), args, 0, s), cudaErrorCooperativeLaunchTooLarge);
    FAILS(cudaLaunchKernel((const void *)&reference, dim3(1), dim3(1), args, 0, s), ANY);
    { cudaLaunchConfig_t c = {}; cudaLaunchAttribute a[1]; c.gridDim = dim3(5); c.blockDim = dim3(32); c.stream = s; c.attrs = a; c.numAttrs = 1;
      a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = 4; a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
      FAILS(cudaLaunchKernelEx(&c, narrow, p), ANY); }                              // 5 is no multiple of 4

    // Copies that are refused.
    std::vector<uint32_t> host(N);
    int pageable; CK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0));
    if (!pageable) {                                                                // else any address may be good
        FAILS(cudaMemcpy(host.data(), (void *)0x10, 64, cudaMemcpyDeviceToHost), ANY);
        FAILS(cudaMemcpyAsync(p, (char *)p + (1ull << 46), 64, cudaMemcpyDeviceToDevice, s), ANY);
        FAILS(cudaMemset((void *)0x1000, 1, 16), ANY);
    }
    FAILS(cudaMemcpy(host.data(), p, (size_t)1 << 40, cudaMemcpyDeviceToHost), ANY);
    FAILS(cudaMemcpy2D(host.data(), 16, p, 64, 32, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidPitchValue);
    FAILS(cudaMemcpy(host.data(), p, 16, (cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
    FAILS(cudaMemcpyToSymbol(table, host.data(), 65 * 4), cudaErrorInvalidValue);
    FAILS(cudaMemcpyToSymbol((const void *)&reference, host.data(), 4), cudaErrorInvalidSymbol);
    CK(cudaMemcpy(host.data(), p, 0, cudaMemcpyDeviceToHost));                      // nothing is no error
    check(p, s, 4);

    // Memory: far too much, then smaller until it fits; frees of what is not ours.
    char *big = nullptr; size_t wanted = (size_t)1 << 46; int tries = 0;
    while (true) {
        cudaError_t r = cudaMalloc(&big, wanted);
        tries++;
        if (r == cudaSuccess) break;
        if (r != cudaErrorMemoryAllocation || big) wrong++;
        cudaGetLastError();
        wanted >>= 7;                                                               // 64 TB, 512 GB, 4 GB, 32 MB
        if (wanted > ((size_t)1 << 28) && wanted < ((size_t)1 << 36)) wanted = (size_t)1 << 25;
    }
    wrong += tries != 3;
    CK(cudaMemset(big, 0x11, wanted));
    FAILS(cudaFree(big + 4096), cudaErrorInvalidValue);
    CK(cudaFree(big));
    FAILS(cudaFree(big), cudaErrorInvalidValue);
    CK(cudaFree(nullptr));
    FAILS(cudaMallocAsync((void **)&big, (size_t)1 << 46, s), cudaErrorMemoryAllocation);
    FAILS(cudaFreeHost(host.data()), cudaErrorInvalidValue);
    FAILS(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
    { void *m = nullptr; if (posix_memalign(&m, 4096, 8192)) return 2;
      CK(cudaHostRegister(m, 8192, cudaHostRegisterDefault));
      FAILS(cudaHostRegister(m, 8192, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
      CK(cudaHostUnregister(m)); FAILS(cudaHostUnregister(m), cudaErrorHostMemoryNotRegistered); free(m); }
    FAILS(cudaHostAlloc((void **)&big, 4096, 0x7000), cudaErrorInvalidValue);
    check(p, s, 5);

    // Not ready: the GPU waits for the CPU.
    uint32_t *go; CK(cudaHostAlloc(&go, 64, cudaHostAllocMapped)); *go = 0;
    uint32_t *counter; CK(cudaMalloc(&counter, 4)); CK(cudaMemset(counter, 0, 4)); CK(cudaDeviceSynchronize());
    CK(cudaEventRecord(e, s)); CK(cudaEventSynchronize(e));
    spin<<<1, 1, 0, s>>>(go, counter);
    CK(cudaEventRecord(e, s));
    FAILS(cudaEventQuery(e), cudaErrorNotReady); FAILS(cudaStreamQuery(s), cudaErrorNotReady);
    float ms; cudaEvent_t first; CK(cudaEventCreate(&first));
    FAILS(cudaEventElapsedTime(&ms, first, e), cudaErrorInvalidResourceHandle);     // never recorded
    *(volatile uint32_t *)go = 1;
    while (cudaEventQuery(e) == cudaErrorNotReady) std::this_thread::yield();
    CK(cudaStreamSynchronize(s));
    cudaGetLastError();
    cudaEvent_t untimed; CK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming)); CK(cudaEventRecord(untimed, s)); CK(cudaEventRecord(first, s)); CK(cudaDeviceSynchronize());
    FAILS(cudaEventElapsedTime(&ms, first, untimed), cudaErrorInvalidResourceHandle);
    uint32_t counted; CK(cudaMemcpy(&counted, counter, 4, cudaMemcpyDeviceToHost)); wrong += counted != 1;
    check(p, s, 6);

    // Captures that go wrong, and the stream afterwards.
    cudaGraph_t graph = nullptr; cudaGraphExec_t exec = nullptr; cudaStream_t other; CK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    step<<<4, 64, 0, s>>>(p, 9, N);
    FAILS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    FAILS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    wrong += graph != nullptr;
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CK(cudaEventRecord(untimed, s)); CK(cudaStreamWaitEvent(other, untimed, 0));
    step<<<4, 64, 0, other>>>(p, 9, N);
    FAILS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureUnjoined);
    FAILS(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
    check(p, s, 7);
    CK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t n1, n2; CK(cudaGraphAddEmptyNode(&n1, graph, nullptr, 0)); CK(cudaGraphAddEmptyNode(&n2, graph, &n1, 1));
    if (cudaGraphAddDependencies(graph, &n2, &n1, nullptr, 1) == cudaSuccess) {     // a circle shows when it is instantiated
        FAILS(cudaGraphInstantiate(&exec, graph, 0), ANY);
        CK(cudaGraphRemoveDependencies(graph, &n2, &n1, nullptr, 1));
    }
    cudaGetLastError();
    CK(cudaGraphInstantiate(&exec, graph, 0)); CK(cudaGraphLaunch(exec, other)); CK(cudaStreamSynchronize(other));
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph));

    // Handles and devices that are none.
    FAILS(cudaSetDevice(1000), cudaErrorInvalidDevice);
    cudaDeviceProp properties; FAILS(cudaGetDeviceProperties(&properties, -1), cudaErrorInvalidDevice);
    int value; FAILS(cudaDeviceGetAttribute(&value, (cudaDeviceAttr)99999, 0), cudaErrorInvalidValue);
    FAILS(cudaStreamCreateWithFlags(&other, 0x40), cudaErrorInvalidValue);
    FAILS(cudaEventRecord(nullptr, s), cudaErrorInvalidResourceHandle);
    FAILS(cudaEventCreateWithFlags(&first, 0x800), cudaErrorInvalidValue);
    cudaArray_t array; cudaChannelFormatDesc odd = {8, 16, 0, 0, cudaChannelFormatKindUnsigned};
    FAILS(cudaMallocArray(&array, &odd, 16, 16), ANY);
    cudaTextureObject_t texture; cudaResourceDesc r = {}; cudaTextureDesc t = {}; r.resType = cudaResourceTypeLinear; r.res.linear.devPtr = p;
    r.res.linear.desc = cudaCreateChannelDesc<uint32_t>(); r.res.linear.sizeInBytes = N * 4; t.filterMode = cudaFilterModeLinear;
    if (cudaCreateTextureObject(&texture, &r, &t, nullptr) == cudaSuccess) CK(cudaDestroyTextureObject(texture));    // whole numbers are not filtered
    cudaGetLastError();
    r.res.linear.sizeInBytes = 0; r.res.linear.devPtr = nullptr;
    FAILS(cudaCreateTextureObject(&texture, &r, &t, nullptr), ANY);
    // Errors belong to the thread that made them.
    step<<<1, 4096, 0, s>>>(p, 5, N);
    std::thread([&] { wrong += cudaPeekAtLastError() != cudaSuccess; narrow<<<1, 999, 0, 0>>>(p); wrong += cudaGetLastError() == cudaSuccess; }).join();
    FAILS(cudaGetLastError(), ANY);
    check(p, s, 8);
    // A stream is destroyed while it works: the work is done all the same.
    { cudaStream_t brief; CK(cudaStreamCreate(&brief)); step<<<(N + 255) / 256, 256, 0, brief>>>(p, 77, N); CK(cudaStreamDestroy(brief));
      for (auto &v : reference) v = v * 1664525u + 77; CK(cudaDeviceSynchronize()); }
    check(p, s, 9);
    CK(cudaFree(counter)); CK(cudaFreeHost(go)); CK(cudaEventDestroy(e)); CK(cudaEventDestroy(untimed));
    CK(cudaStreamDestroy(s)); CK(cudaFree(p));
    printf("expected_errors: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
