// Errors in the midst of work, in three threads that go on: allocations too large, arguments that are wrong, polling for
// cudaErrorNotReady, launches that want too much, captures spoiled by a forbidden call; between them the work must be right.
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
// The call must fail; its error is also the thread's last error, which is thereby cleared.
#define FAILS(x) do { cudaError_t e_ = (x); if (e_ == cudaSuccess) { wrong++; fprintf(stderr, "%s:%d: %s did not fail\n", __FILE__, __LINE__, #x); } \
    cudaGetLastError(); if (cudaPeekAtLastError() != cudaSuccess) { wrong++; fprintf(stderr, "%s:%d: the error stays\n", __FILE__, __LINE__); } } while (0)

constexpr int N = 40000, THREADS = 3, ROUNDS = 12;
static std::atomic<int> wrong{0};
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void step(uint32_t *p, uint32_t k, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(p[i] + k) + i; }
__global__ void __launch_bounds__(128) narrow(uint32_t *p, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] ^= k; }
__global__ void shared_sum(uint32_t *p, int words) {        // each block adds a rotation of its part
    extern __shared__ uint32_t s[];
    int base = blockIdx.x * words;
    for (int i = threadIdx.x; i < words; i += blockDim.x) s[i] = base + i < N ? p[base + i] : 0;
    __syncthreads();
    for (int i = threadIdx.x; i < words; i += blockDim.x) if (base + i < N) p[base + i] += s[(i + 1) % words];
}
__global__ void linger(uint32_t *p, long long cycles) {     // a while of work, whatever the clock says
    long long start = clock64();
    while (clock64() - start < cycles) { }
    if (blockIdx.x == 0 && threadIdx.x == 0) p[0] += 1;
}

struct Worker {
    int id; cudaStream_t s, other; uint32_t *p, *pinned; cudaEvent_t e; std::vector<uint32_t> ref; uint64_t h = 14695981039346656037ull;

    void normal(uint32_t k) { step<<<50, 256, 0, s>>>(p, k, N); CK(cudaGetLastError()); for (int i = 0; i < N; i++) ref[i] = mix(ref[i] + k) + i; }
    void check(const char *after) {
        CK(cudaMemcpyAsync(pinned, p, N * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        if (memcmp(pinned, ref.data(), N * 4)) { wrong++; fprintf(stderr, "thread %d: wrong after %s\n", id, after); }
        for (int i = 0; i < N; i += 5) h = (h ^ pinned[i]) * 1099511628211ull;
    }
    void allocations(int round) {
        void *q = (void *)0x1234, *r = nullptr; size_t pitch;
        normal(round);
        FAILS(cudaMalloc(&q, (size_t)1 << 46));
        FAILS(cudaMallocAsync(&r, (size_t)1 << 45, s));
        FAILS(cudaMallocPitch(&r, &pitch, (size_t)1 << 30, (size_t)1 << 20));
        FAILS(cudaHostAlloc(&r, (size_t)1 << 50, cudaHostAllocDefault));
        FAILS(cudaHostAlloc(&r, 4096, 0xff00));
        cudaArray_t a; cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
        FAILS(cudaMallocArray(&a, &d, 1 << 20, 1 << 20));
        normal(round + 1);
        CK(cudaMalloc(&q, N * 4)); CK(cudaMallocAsync(&r, N * 4, s));       // smaller ones are there
        CK(cudaMemcpyAsync(q, p, N * 4, cudaMemcpyDeviceToDevice, s)); CK(cudaMemcpyAsync(r, q, N * 4, cudaMemcpyDefault, s));
        CK(cudaMemsetAsync(p, 0, N * 4, s)); CK(cudaMemcpyAsync(p, r, N * 4, cudaMemcpyDeviceToDevice, s));
        CK(cudaFreeAsync(r, s)); CK(cudaStreamSynchronize(s)); CK(cudaFree(q));
        check("allocations");
    }
    void arguments(int round) {
        uint32_t local = 0; normal(round * 3);
        FAILS(cudaMemcpyAsync(p, pinned, 64, (cudaMemcpyKind)77, s));
        FAILS(cudaMemcpy2DAsync(p, 16, pinned, 64, 32, 4, cudaMemcpyHostToDevice, s));          // the pitch is below the width
        FAILS(cudaMemcpy(nullptr, pinned, 16, cudaMemcpyHostToDevice));
        FAILS(cudaMemcpyToSymbolAsync((const void *)&local, pinned, 4, 0, cudaMemcpyHostToDevice, s));
        FAILS(cudaFree((void *)&local)); FAILS(cudaFreeHost((void *)&local));
        FAILS(cudaHostRegister(nullptr, 4096, 0)); FAILS(cudaHostUnregister(&local));
        FAILS(cudaEventCreateWithFlags(nullptr, 0)); FAILS(cudaSetDevice(-5)); FAILS(cudaDeviceSetLimit((cudaLimit)999, 1));
        cudaEvent_t timed; float ms; CK(cudaEventCreate(&timed)); FAILS(cudaEventElapsedTime(&ms, timed, timed)); CK(cudaEventDestroy(timed));    // not recorded
        cudaTextureObject_t t; cudaResourceDesc r = {}; cudaTextureDesc d = {}; r.resType = (cudaResourceType)55; FAILS(cudaCreateTextureObject(&t, &r, &d, nullptr));
        CK(cudaFree(nullptr)); CK(cudaFreeHost(nullptr)); CK(cudaMemcpyAsync(p, p, 0, cudaMemcpyDeviceToDevice, s));        // all three are well
        check("arguments");
    }
    void launches(int round) {
        void *args[3]; uint32_t k = 99, *q = p; int n = N, words = 15000; args[0] = &q; args[1] = &k; args[2] = &n;
        normal(round * 5 + 1);
        step<<<1, 2048, 0, s>>>(p, 1, N); FAILS(cudaGetLastError());
        step<<<0, 64, 0, s>>>(p, 1, N); FAILS(cudaGetLastError());
        step<<<dim3(1, 70000), 64, 0, s>>>(p, 1, N); FAILS(cudaGetLastError());
        narrow<<<4, 512, 0, s>>>(p, 3); FAILS(cudaGetLastError());          // more than its bounds allow
        FAILS(cudaLaunchKernel((const void *)step, dim3(1), dim3(1, 1, 65), args, 0, s));       // z goes to 64
        FAILS(cudaLaunchKernel((const void *)step, dim3(1), dim3(32), args, 1 << 20, s));
        FAILS(cudaLaunchKernel((const void *)&wrong, dim3(1), dim3(32), args, 0, s));
        FAILS(cudaFuncSetAttribute((const void *)shared_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
        if (id == 0) {                                      // only this thread launches it: the attribute is the function's
            if (round < 3) { shared_sum<<<3, 256, words * 4, s>>>(p, words); FAILS(cudaGetLastError()); }
            CK(cudaFuncSetAttribute((const void *)shared_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, words * 4));
            shared_sum<<<(N + words - 1) / words, 256, words * 4, s>>>(p, words); CK(cudaGetLastError());
            std::vector<uint32_t> old = ref; old.resize(N + words, 0);
            for (int i = 0; i < N; i++) { int base = i / words * words; ref[i] += old[base + (i - base + 1) % words]; }
        }
        narrow<<<(N + 127) / 128, 128, 0, s>>>(p, 3); CK(cudaGetLastError());
        for (auto &v : ref) v ^= 3;
        CK(cudaLaunchKernel((const void *)step, dim3(9), dim3(96), args, 0, s));
        for (int i = 0; i < N; i++) ref[i] = mix(ref[i] + k) + i;
        check("launches");
    }
    void polling(int round) {
        normal(round + 1000);
        linger<<<1, 32, 0, s>>>(p, 3000000); CK(cudaGetLastError()); ref[0] += 1;
        CK(cudaEventRecord(e, s));
        cudaError_t q; long polls = 0;
        while ((q = round % 2 ? cudaEventQuery(e) : cudaStreamQuery(s)) == cudaErrorNotReady) {
            polls++;                                        // not an error that stays
            if (cudaPeekAtLastError() != cudaSuccess && cudaGetLastError() != cudaErrorNotReady) wrong++;
        }
        CK(q); cudaGetLastError();
        wrong += cudaStreamQuery(s) != cudaSuccess || cudaEventQuery(e) != cudaSuccess;
        check("polling");
    }
    void captures(int round) {
        cudaGraph_t graph = nullptr; cudaGraphExec_t exec; cudaStreamCaptureStatus status; void *q = nullptr;
        CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        step<<<50, 256, 0, s>>>(p, 1, N); CK(cudaGetLastError());
        if (round % 3 == 0) FAILS(cudaStreamSynchronize(s));
        else if (round % 3 == 1) FAILS(cudaStreamQuery(s));
        else { CK(cudaEventRecord(e, s)); cudaEventQuery(e); cudaGetLastError(); FAILS(cudaStreamSynchronize(s)); }
        CK(cudaStreamIsCapturing(s, &status));
        if (status == cudaStreamCaptureStatusInvalidated) { step<<<50, 256, 0, s>>>(p, 1, N); FAILS(cudaGetLastError()); } else wrong++;
        FAILS(cudaStreamEndCapture(s, &graph));
        CK(cudaStreamIsCapturing(s, &status)); wrong += status != cudaStreamCaptureStatusNone;
        normal(round + 7);                                  // nothing of the capture has run
        check("a capture spoiled");
        // An allocation in the capture is forbidden, too, and may spoil it; then once more with what is there.
        CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        step<<<50, 256, 0, s>>>(p, 2, N);
        FAILS(cudaMalloc(&q, 4096));
        if (cudaStreamEndCapture(s, &graph) == cudaSuccess) CK(cudaGraphDestroy(graph));
        cudaGetLastError();
        FAILS(cudaStreamEndCapture(s, &graph));             // there is none
        CK(cudaEventDestroy(e)); CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
        CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        step<<<50, 256, 0, s>>>(p, 3, N);
        CK(cudaThreadExchangeStreamCaptureMode(&relaxed));
        CK(cudaMalloc(&q, N * 4));                          // now it is allowed
        CK(cudaThreadExchangeStreamCaptureMode(&relaxed));
        CK(cudaEventRecord(e, s)); CK(cudaStreamWaitEvent(other, e, 0));
        CK(cudaMemcpyAsync(q, p, N * 4, cudaMemcpyDeviceToDevice, other));
        CK(cudaEventRecord(e, other)); CK(cudaStreamWaitEvent(s, e, 0));
        step<<<50, 256, 0, s>>>((uint32_t *)q, 4, N);
        CK(cudaMemcpyAsync(p, q, N * 4, cudaMemcpyDeviceToDevice, s));
        CK(cudaStreamEndCapture(s, &graph)); CK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; i++) {
            CK(cudaGraphLaunch(exec, i % 2 ? other : s)); CK(cudaStreamSynchronize(i % 2 ? other : s));
            for (int j = 0; j < N; j++) { ref[j] = mix(ref[j] + 3) + j; ref[j] = mix(ref[j] + 4) + j; }
        }
        CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph)); CK(cudaFree(q));
        check("a capture made anew");
    }
    void run() {
        CK(cudaSetDevice(0));
        CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming)); CK(cudaMalloc(&p, N * 4)); CK(cudaMallocHost(&pinned, N * 4));
        ref.resize(N); for (int i = 0; i < N; i++) pinned[i] = ref[i] = mix(i + id * 31);
        CK(cudaMemcpyAsync(p, pinned, N * 4, cudaMemcpyHostToDevice, s));
        for (int round = 0; round < ROUNDS; round++) switch ((round + id) % 5) {
            case 0: allocations(round); break; case 1: arguments(round); break; case 2: launches(round); break;
            case 3: polling(round); break; default: captures(round);
        }
        CK(cudaStreamSynchronize(s)); CK(cudaStreamSynchronize(other));     // not the device: another thread may be capturing
        CK(cudaFree(p)); CK(cudaFreeHost(pinned)); CK(cudaEventDestroy(e)); CK(cudaStreamDestroy(s)); CK(cudaStreamDestroy(other));
    }
};

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(0));
    uint64_t sum = 0; Worker workers[THREADS]; std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) { workers[i].id = i; threads.emplace_back(&Worker::run, &workers[i]); }
    for (auto &t : threads) t.join();
    for (auto &w : workers) sum = sum * 1000003 + w.h;
    CK(cudaDeviceSynchronize()); wrong += cudaGetLastError() != cudaSuccess;
    printf("errwork: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
