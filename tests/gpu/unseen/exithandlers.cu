// nvcc: DRIVER
// What processes do at their edges: work in static destructors and exit handlers, threads that end with work pending, a detached
// one, the primary context reset in the middle and everything begun anew, cuInit again, a child process that does nothing.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); _exit(2); } } while (0)

static const char *ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 launches;
.visible .entry stir(.param .u64 p, .param .u32 n, .param .u32 k)
{
    .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %d<4>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    setp.eq.u32 %p1, %r3, 0; @%p1 red.global.add.u32 [launches], 1;
    ld.param.u32 %r5, [k]; ld.param.u64 %d0, [p]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r6, [%d0];
    mad.lo.u32 %r6, %r6, 1664525, %r5; shr.u32 %r7, %r6, 14; xor.b32 %r6, %r6, %r7; st.global.u32 [%d0], %r6; ret;
}
)";
static uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
constexpr uint32_t N = 20000;
static std::atomic<int> wrong{0};
static uint64_t checksum = 14695981039346656037ull;
static void fold(const std::vector<uint32_t> &v) { for (uint32_t x : v) checksum = (checksum ^ x) * 1099511628211ull; }

// All that one life of the context has.
struct Life {
    CUdevice device; CUcontext context; CUmodule module; CUfunction stir; CUdeviceptr data, launches; CUstream stream; uint32_t *pinned; uint32_t count = 0;
    std::vector<uint32_t> ref;
    void begin(uint32_t seed) {
        CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
        CU(cuModuleLoadData(&module, ptx)); CU(cuModuleGetFunction(&stir, module, "stir")); size_t bytes; CU(cuModuleGetGlobal(&launches, &bytes, module, "launches"));
        CU(cuMemAlloc(&data, N * 4)); CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); CU(cuMemAllocHost((void **)&pinned, N * 4));
        CU(cuMemsetD32Async(data, seed, N, stream)); ref.assign(N, seed); count = 0;
    }
    void work(uint32_t k, CUstream s) { uint32_t n = N; void *args[] = {&data, &n, &k}; CU(cuLaunchKernel(stir, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, nullptr)); for (auto &v : ref) v = mix(v, k); count++; }
    void check(int line) {
        uint32_t launched = 0;
        CU(cuMemcpyDtoHAsync(pinned, data, N * 4, stream)); CU(cuMemcpyDtoHAsync(&launched, launches, 4, stream)); CU(cuStreamSynchronize(stream));
        std::vector<uint32_t> back(pinned, pinned + N);
        if (back != ref || launched != count) { wrong++; fprintf(stderr, "line %d: launches %u of %u\n", line, launched, count); }
        fold(back);
    }
};
static Life life;

// Takes memory at its first use and looks at it in its destructor. One is made before main, and is destroyed when the driver may be
// gone already: then there is nothing to look at. The other is made in main after the driver was started: that one can rely on it.
struct Cache {
    CUdeviceptr p = 0; std::vector<uint32_t> ref; bool last;
    explicit Cache(bool last) : last(last) {}
    void use(uint32_t k) { CU(cuMemAlloc(&p, N * 4)); ref.resize(N); for (uint32_t i = 0; i < N; i++) ref[i] = i * k; CU(cuMemcpyHtoD(p, ref.data(), N * 4)); CU(cuCtxSynchronize()); }
    ~Cache() {
        if (!p) return;
        std::vector<uint32_t> back(N);
        if (last) {
            if (cuCtxSetCurrent(life.context) != CUDA_SUCCESS || cuMemcpyDtoH(back.data(), p, N * 4) != CUDA_SUCCESS) return;
            if (back != ref) { fprintf(stderr, "the last cache is wrong\n"); _exit(1); }
            cuMemFree(p);
            return;
        }
        CU(cuCtxSetCurrent(life.context)); CU(cuMemcpyDtoH(back.data(), p, N * 4)); wrong += back != ref; fold(back);
        CU(cuMemFree(p)); CU(cuModuleUnload(life.module)); CU(cuStreamDestroy(life.stream)); CU(cuMemFreeHost(life.pinned));
        printf("exithandlers: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong.load());
        fflush(stdout);
        if (wrong) _exit(1);
    }
};
static Cache cache(true);       // after life, and so destroyed before it
static Cache &local_cache() { static Cache c(false); return c; }

static void first_handler() { life.work(5001, life.stream); life.check(__LINE__); }
static void second_handler() {                  // registered later, runs earlier: leaves work pending for the other
    life.work(5000, life.stream);
    std::thread t([] { CU(cuCtxSetCurrent(life.context)); life.work(5002, life.stream); CU(cuStreamSynchronize(life.stream)); }); t.join();
}

static void child() {
    fflush(stdout); fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) _exit(7);
    int status = 0; waitpid(pid, &status, 0); wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
}

int main() {
    CU(cuInit(0)); CU(cuInit(0));
    int devices = 0, active = 5; unsigned flags = 0; CU(cuDeviceGetCount(&devices)); wrong += devices < 1;
    CUcontext none = (CUcontext)1; CU(cuCtxGetCurrent(&none)); wrong += none != nullptr;
    child();                                    // before there is a context
    CUdevice device; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxGetState(device, &flags, &active)); wrong += active != 0;
    CU(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_YIELD));
    life.begin(1);
    CU(cuDevicePrimaryCtxGetState(device, &flags, &active)); wrong += active != 1 || (flags & CU_CTX_SCHED_MASK) != CU_CTX_SCHED_YIELD;
    for (uint32_t k = 0; k < 5; k++) life.work(k, life.stream);
    child();                                    // with work pending
    life.check(__LINE__);

    // A thread that ends with its work pending, in the stream and in its own default stream; what it did is there later.
    CUdeviceptr second; CUevent event; CU(cuMemAlloc(&second, N * 4)); CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    std::vector<uint32_t> second_ref(N, 9), back(N);
    std::thread quitter([&] {
        CU(cuCtxSetCurrent(life.context));
        for (uint32_t k = 10; k < 30; k++) life.work(k, life.stream);
        CU(cuMemsetD32Async(second, 9, N, CU_STREAM_PER_THREAD));
        for (uint32_t k = 0; k < 20; k++) { uint32_t n = N; void *args[] = {&second, &n, &k}; CU(cuLaunchKernel(life.stir, (N + 255) / 256, 1, 1, 256, 1, 1, 0, CU_STREAM_PER_THREAD, args, nullptr)); }
        CU(cuEventRecord(event, CU_STREAM_PER_THREAD));
    });
    quitter.join();
    life.count += 20; for (uint32_t k = 0; k < 20; k++) for (auto &v : second_ref) v = mix(v, k);
    CU(cuStreamWaitEvent(life.stream, event, 0));
    CU(cuMemcpyDtoHAsync(back.data(), second, N * 4, life.stream)); CU(cuStreamSynchronize(life.stream));
    wrong += back != second_ref; fold(back); life.check(__LINE__);

    // A detached thread: it says when it has enqueued its work, and nobody joins it.
    static std::atomic<int> said{0};
    std::thread([] { CU(cuCtxSetCurrent(life.context)); for (uint32_t k = 40; k < 50; k++) life.work(k, life.stream); CU(cuStreamSynchronize(life.stream)); said = 1; }).detach();
    while (!said) std::this_thread::yield();
    life.work(50, life.stream); life.check(__LINE__);

    // The end of the first life, with memory, events, a module and streams in it, and the second.
    CU(cuMemsetD32Async(second, 1, N, life.stream)); CU(cuCtxSynchronize());
    CU(cuDevicePrimaryCtxReset(device));
    CU(cuDevicePrimaryCtxGetState(device, &flags, &active)); wrong += active != 0;
    CU(cuCtxSetCurrent(nullptr)); CU(cuInit(0));
    CU(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_AUTO));
    life.begin(2);
    for (uint32_t k = 100; k < 105; k++) life.work(k, life.stream);
    child(); life.check(__LINE__);              // the new module's counter began at nothing
    // Retained twice, released once: it lives on.
    CUcontext same; CU(cuDevicePrimaryCtxRetain(&same, device)); wrong += same != life.context; CU(cuDevicePrimaryCtxRelease(device));
    life.work(200, life.stream); life.check(__LINE__);
    cache.use(5); local_cache().use(11);
    atexit(first_handler); atexit(second_handler);
    life.work(300, life.stream);                // pending when main ends
    return 0;                                   // the last line and the status come from the destructor
}
