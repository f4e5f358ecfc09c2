// nvcc: DRIVER
// Two workers that hand one device buffer to and fro: by events recorded by one and waited for by the other in streams, by
// synchronizing and by polling; with the legacy default stream, the threads' own default streams and non-blocking ones mixed.
#include <cuda.h>
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

constexpr uint32_t N = 50000, TURNS = 120;
__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
__global__ void stir(uint32_t *p, uint32_t n, uint32_t k) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(p[i], k); }
__global__ void swap_halves(uint32_t *p, uint32_t half) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < half) { uint32_t t = p[i]; p[i] = p[i + half]; p[i + half] = t; } }

static std::atomic<int> wrong{0};
static CUcontext context; static CUfunction stir_f, swap_f; static CUdeviceptr ball; static CUevent events[2];
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }

// Whose turn it is on the CPU. The turn is passed on when the work is enqueued, not when it is done.
static std::mutex m; static std::condition_variable cv; static uint32_t turn = 0;
static uint32_t *samples;                   // pinned: what each turn brought back

static void worker(uint32_t id) {
    CU(cuCtxSetCurrent(context));
    CUstream mine, streams[4]; CU(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    CUstream blocking; CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    streams[0] = mine; streams[1] = CU_STREAM_LEGACY; streams[2] = CU_STREAM_PER_THREAD; streams[3] = blocking;
    for (uint32_t t = id; t < TURNS; t += 2) {
        { std::unique_lock<std::mutex> l(m); cv.wait(l, [&] { return turn == t; }); }
        CUstream s = streams[(t / 2 + id * 3) % 4];
        CUevent theirs = events[1 - id], own = events[id];
        if (t) switch (t % 5) {                                 // how the other's work is waited for
            case 0: CU(cuEventSynchronize(theirs)); break;
            case 1: for (;;) { CUresult r = cuEventQuery(theirs); if (r == CUDA_SUCCESS) break; if (r != CUDA_ERROR_NOT_READY) CU(r); std::this_thread::yield(); } break;
            default: CU(cuStreamWaitEvent(s, theirs, CU_EVENT_WAIT_DEFAULT));
        }
        uint32_t n = N, k = t * 13 + 1, half = N / 2;
        void *args[] = {&ball, &n, &k}, *swap_args[] = {&ball, &half};
        CU(cuLaunchKernel(stir_f, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, nullptr));
        if (t % 3 == 0) CU(cuLaunchKernel(swap_f, (half + 255) / 256, 1, 1, 256, 1, 1, 0, s, swap_args, nullptr));
        if (t % 7 == 2) { CU(cuMemsetD32Async(ball + 4 * (t * 100), t, 50, s)); }
        CU(cuMemcpyDtoHAsync(samples + t * 16, ball + 4 * (t * 97), 64, s));
        CU(cuEventRecord(own, s));
        if (t % 11 == 5) CU(cuStreamSynchronize(s));
        if (t % 11 == 8 && s == CU_STREAM_LEGACY) { CUresult r = cuStreamQuery(s); if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) wrong++; }
        { std::lock_guard<std::mutex> l(m); turn = t + 1; }
        cv.notify_all();
    }
    CU(cuStreamSynchronize(mine)); CU(cuStreamSynchronize(blocking)); CU(cuStreamSynchronize(CU_STREAM_PER_THREAD)); CU(cuStreamSynchronize(CU_STREAM_LEGACY));
    CU(cuStreamDestroy(mine)); CU(cuStreamDestroy(blocking));
}

// The legacy stream orders blocking streams among each other with no event at all; per-thread streams are such, too.
static uint64_t implicit() {
    CUstream a, b; CU(cuStreamCreate(&a, CU_STREAM_DEFAULT)); CU(cuStreamCreate(&b, CU_STREAM_DEFAULT));
    std::vector<uint32_t> ref(N), back(N); for (uint32_t i = 0; i < N; i++) ref[i] = i;
    CUdeviceptr d; CU(cuMemAlloc(&d, N * 4)); CU(cuMemcpyHtoD(d, ref.data(), N * 4));
    CUstream order[] = {a, CU_STREAM_LEGACY, b, nullptr, CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, a, a, nullptr, b};
    for (uint32_t round = 0; round < 50; round++) {
        uint32_t n = N, k = round; void *args[] = {&d, &n, &k};
        CU(cuLaunchKernel(stir_f, (N + 63) / 64, 1, 1, 64, 1, 1, 0, order[round % 10], args, nullptr));
        if (round % 10 == 9) CU(cuMemsetD32Async(d + 4 * round, 7, 1, CU_STREAM_LEGACY));       // from b to a
        for (auto &v : ref) v = mix(v, k);
        if (round % 10 == 9) ref[round] = 7;
    }
    CU(cuMemcpyDtoH(back.data(), d, N * 4)); wrong += back != ref;
    uint64_t h = 14695981039346656037ull; for (uint32_t v : back) h = (h ^ v) * 1099511628211ull;
    CU(cuMemFree(d)); CU(cuStreamDestroy(a)); CU(cuStreamDestroy(b));
    return h;
}

// Two independent buffers changing owners each round: both threads at work at once, meeting at a barrier on the CPU.
static uint64_t crossing() {
    CUdeviceptr d[2]; CUevent done[2][2]; std::vector<uint32_t> ref[2] = {std::vector<uint32_t>(N, 0), std::vector<uint32_t>(N, 1)}, back(N);
    for (int i = 0; i < 2; i++) { CU(cuMemAlloc(&d[i], N * 4)); CU(cuMemsetD32(d[i], i, N)); for (int j = 0; j < 2; j++) CU(cuEventCreate(&done[i][j], j ? CU_EVENT_DISABLE_TIMING : CU_EVENT_BLOCKING_SYNC)); }
    CU(cuCtxSynchronize());
    std::mutex bm; std::condition_variable bcv; int arrived = 0, phase = 0;
    auto barrier = [&] { std::unique_lock<std::mutex> l(bm); int p = phase; if (++arrived == 2) { arrived = 0; phase++; bcv.notify_all(); } else bcv.wait(l, [&] { return phase != p; }); };
    auto body = [&](uint32_t id) {
        CU(cuCtxSetCurrent(context));
        CUstream s; CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t which = (round + id) & 1, n = N, k = round * 2 + id;       // the other one had this buffer in the round before
            CUstream now = round % 4 == 3 ? CU_STREAM_PER_THREAD : s;
            if (round) {
                CU(cuStreamWaitEvent(now, done[1 - id][(round - 1) & 1], 0));   // its user in the last round
                CU(cuStreamWaitEvent(now, done[id][(round - 1) & 1], 0));       // and the order of this thread's own streams
            }
            void *args[] = {&d[which], &n, &k};
            CU(cuLaunchKernel(stir_f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, now, args, nullptr));
            CU(cuEventRecord(done[id][round & 1], now));
            barrier();                                                          // both have recorded before either waits
        }
        CU(cuEventSynchronize(done[id][1])); CU(cuStreamSynchronize(s)); CU(cuStreamDestroy(s));
    };
    std::thread one(body, 1); body(0); one.join();
    for (uint32_t round = 0; round < 30; round++) for (uint32_t id = 0; id < 2; id++) for (auto &v : ref[(round + id) & 1]) v = mix(v, round * 2 + id);
    uint64_t h = 14695981039346656037ull;
    for (int i = 0; i < 2; i++) {
        CU(cuMemcpyDtoH(back.data(), d[i], N * 4)); wrong += back != ref[i];
        for (uint32_t v : back) h = (h ^ v) * 1099511628211ull;
        CU(cuMemFree(d[i])); for (auto e : done[i]) CU(cuEventDestroy(e));
    }
    return h;
}

int main() {
    CU(cuInit(0));
    CUdevice device; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    stir_f = function((const void *)stir); swap_f = function((const void *)swap_halves);
    CU(cuMemAlloc(&ball, N * 4)); CU(cuMemAllocHost((void **)&samples, TURNS * 64)); CU(cuMemsetD32(ball, 1, N)); CU(cuCtxSynchronize());
    CU(cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING)); CU(cuEventCreate(&events[1], CU_EVENT_DEFAULT));
    std::thread a(worker, 0), b(worker, 1); a.join(); b.join();
    std::vector<uint32_t> ref(N, 1), back(N);
    uint64_t sum = 14695981039346656037ull;
    for (uint32_t t = 0; t < TURNS; t++) {
        for (auto &v : ref) v = mix(v, t * 13 + 1);
        if (t % 3 == 0) for (uint32_t i = 0; i < N / 2; i++) std::swap(ref[i], ref[i + N / 2]);
        if (t % 7 == 2) for (uint32_t i = 0; i < 50; i++) ref[t * 100 + i] = t;
        if (memcmp(samples + t * 16, &ref[t * 97], 64)) { wrong++; fprintf(stderr, "turn %u\n", t); }
        for (int i = 0; i < 16; i++) sum = (sum ^ samples[t * 16 + i]) * 1099511628211ull;
    }
    CU(cuMemcpyDtoH(back.data(), ball, N * 4)); wrong += back != ref;
    sum = sum * 31 + implicit(); sum = sum * 31 + crossing();
    CU(cuMemFree(ball)); CU(cuMemFreeHost(samples)); for (auto e : events) CU(cuEventDestroy(e));
    printf("pingpong: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
