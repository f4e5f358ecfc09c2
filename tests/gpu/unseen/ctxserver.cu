// nvcc: DRIVER
// A server with three contexts on one device: requests go from context to context by peer copies ordered by events, served by
// threads that push and pop; contexts die with memory, modules and streams inside and are created anew.
#include <cuda.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

static const char *ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 identity;
.visible .entry stage(.param .u64 p, .param .u32 n, .param .u32 k)
{
    .reg .pred %p0; .reg .b32 %r<12>; .reg .b64 %d<4>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
    ld.param.u32 %r5, [k]; ld.global.u32 %r6, [identity]; xor.b32 %r5, %r5, %r6;
    ld.param.u64 %d0, [p]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r7, [%d0];
    mad.lo.u32 %r7, %r7, 1664525, %r5; shr.u32 %r8, %r7, 15; xor.b32 %r7, %r7, %r8; st.global.u32 [%d0], %r7; ret;
}
)";
constexpr uint32_t N = 30000; constexpr int SLOTS = 8;
static std::atomic<int> wrong{0};
static CUdevice device;

struct Place {                  // a context and what lives in it
    CUcontext context; CUmodule module; CUfunction stage; CUstream stream; CUdeviceptr slot[SLOTS]; CUevent done[SLOTS]; uint32_t identity;
    unsigned long long number;
    void make(uint32_t id) {
        identity = id;
        CU(cuCtxCreate(&context, nullptr, id & 1 ? CU_CTX_SCHED_BLOCKING_SYNC : CU_CTX_SCHED_AUTO, device));
        CU(cuCtxGetId(context, &number));
        CU(cuModuleLoadData(&module, ptx)); CU(cuModuleGetFunction(&stage, module, "stage"));
        CUdeviceptr g; size_t bytes; CU(cuModuleGetGlobal(&g, &bytes, module, "identity")); CU(cuMemcpyHtoD(g, &identity, 4)); CU(cuCtxSynchronize());
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < SLOTS; i++) { CU(cuMemAlloc(&slot[i], N * 4)); CU(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING)); }
        CUcontext top; CU(cuCtxPopCurrent(&top)); wrong += top != context;
    }
    // Nothing is freed: what is inside goes with the context.
    void destroy() { CU(cuCtxPushCurrent(context)); CU(cuCtxSynchronize()); CUcontext top; CU(cuCtxPopCurrent(&top)); CU(cuCtxDestroy(context)); }
};
static Place places[3];

struct Queue {
    std::mutex m; std::condition_variable cv; std::deque<int> items;
    void put(int v) { { std::lock_guard<std::mutex> l(m); items.push_back(v); } cv.notify_one(); }
    int take() { std::unique_lock<std::mutex> l(m); cv.wait(l, [&] { return !items.empty(); }); int v = items.front(); items.pop_front(); return v; }
};
static Queue queues[4];         // into the three places, and out

static uint32_t k_of(int request, int place) { return request * 101 + place * 7; }
static uint32_t step(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 15); }

static void server(int id, uint32_t *const *pinned_in, uint32_t *const *pinned_out) {
    Place &here = places[id];
    CUcontext none; CU(cuCtxGetCurrent(&none)); wrong += none != nullptr;
    for (;;) {
        int request = queues[id].take();
        if (request < 0) break;
        int slot = request % SLOTS;
        CU(cuCtxPushCurrent(here.context));
        if (id == 0) CU(cuMemcpyHtoDAsync(here.slot[slot], pinned_in[slot], N * 4, here.stream));
        else CU(cuStreamWaitEvent(here.stream, places[id - 1].done[slot], 0));          // an event of another context
        CUdeviceptr p = here.slot[slot]; uint32_t n = N, k = k_of(request, id);
        void *args[] = {&p, &n, &k};
        CU(cuLaunchKernel(here.stage, (N + 255) / 256, 1, 1, 256, 1, 1, 0, here.stream, args, nullptr));
        if (id < 2) {
            Place &next = places[id + 1];
            if (request % 3 == 1) {                     // the next one's context on top for a moment
                CUcontext top; CU(cuCtxPushCurrent(next.context));
                unsigned long long at; CU(cuCtxGetCurrent(&top)); CU(cuCtxGetId(top, &at)); wrong += at != next.number;
                CU(cuMemsetD8Async(next.slot[slot], 0xee, N, next.stream)); CU(cuStreamSynchronize(next.stream));
                CU(cuCtxPopCurrent(&top)); wrong += top != next.context;
            }
            CU(cuMemcpyPeerAsync(next.slot[slot], next.context, here.slot[slot], here.context, N * 4, here.stream));
        } else CU(cuMemcpyDtoHAsync(pinned_out[slot], here.slot[slot], N * 4, here.stream));
        CU(cuEventRecord(here.done[slot], here.stream));
        CUcontext top; CU(cuCtxPopCurrent(&top)); wrong += top != here.context;
        queues[id + 1].put(request);
    }
    if (id < 2) queues[id + 1].put(-1);
}

int main() {
    CU(cuInit(0)); CU(cuDeviceGet(&device, 0));
    uint64_t sum = 14695981039346656037ull;
    unsigned long long last_number = 0;
    for (int generation = 0; generation < 2; generation++) {
        for (int i = 0; i < 3; i++) places[i].make(generation * 16 + i + 1);
        if (generation) {                               // the middle one is replaced before it has served, and something is left in it
            CU(cuCtxPushCurrent(places[1].context));
            CUdeviceptr lost; CU(cuMemAlloc(&lost, 3 << 20)); CU(cuMemsetD32(lost, 7, (3 << 20) / 4));
            CUcontext top; CU(cuCtxPopCurrent(&top));
            places[1].destroy(); places[1].make(77);
        }
        wrong += places[1].number == last_number; last_number = places[1].number;       // numbers are never used twice
        uint32_t *in[SLOTS], *out[SLOTS];
        CU(cuCtxPushCurrent(places[0].context));
        for (int i = 0; i < SLOTS; i++) { CU(cuMemHostAlloc((void **)&in[i], N * 4, CU_MEMHOSTALLOC_PORTABLE)); CU(cuMemHostAlloc((void **)&out[i], N * 4, CU_MEMHOSTALLOC_PORTABLE)); }
        CUcontext top; CU(cuCtxPopCurrent(&top));
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; i++) threads.emplace_back(server, i, in, out);
        const int requests = 24;
        auto check = [&](int request) {
            int slot = request % SLOTS;
            CUcontext top; CU(cuCtxPushCurrent(places[1].context));         // the event is another context's
            CU(cuEventSynchronize(places[2].done[slot])); CU(cuCtxPopCurrent(&top));
            for (uint32_t i = 0; i < N; i++) {
                uint32_t v = i * 3 + request * 1000;
                for (int p = 0; p < 3; p++) v = step(v, k_of(request, p) ^ places[p].identity);
                if (v != out[slot][i]) { wrong++; break; }
            }
            for (uint32_t i = 0; i < N; i += 7) sum = (sum ^ out[slot][i]) * 1099511628211ull;
        };
        int arrived = 0;
        for (int request = 0; request < requests; request++) {
            if (request >= SLOTS) { int r = queues[3].take(); wrong += r != request - SLOTS; check(r); arrived++; }     // the slot is free again
            for (uint32_t i = 0; i < N; i++) in[request % SLOTS][i] = i * 3 + request * 1000;
            queues[0].put(request);
        }
        queues[0].put(-1);
        while (arrived < requests) { int r = queues[3].take(); wrong += r != arrived; check(r); arrived++; }
        for (auto &t : threads) t.join();

        // Whose is what.
        CUcontext of; unsigned owner_ok = 0;
        CU(cuCtxPushCurrent(places[0].context));
        CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, places[2].slot[3])); owner_ok += of == places[2].context;
        CU(cuStreamGetCtx(places[1].stream, &of)); owner_ok += of == places[1].context;
        wrong += owner_ok != 2;
        // Synchronous peer copies: last context to first and back with an offset, then read in the first.
        CU(cuMemcpyPeer(places[0].slot[0] + 400, places[0].context, places[2].slot[1], places[2].context, 4000));
        CU(cuCtxSynchronize());
        CU(cuMemcpyPeerAsync(places[0].slot[2], places[0].context, places[0].slot[0] + 404, places[0].context, 2000, places[0].stream));    // within one
        std::vector<uint32_t> piece(500);
        CU(cuMemcpyDtoHAsync(piece.data(), places[0].slot[2], 2000, places[0].stream)); CU(cuStreamSynchronize(places[0].stream));
        wrong += memcmp(piece.data(), out[1] + 1, 2000) != 0;
        for (uint32_t v : piece) sum = (sum ^ v) * 1099511628211ull;
        // Leaks, and a stream with work in it that nobody waits for by name.
        CUdeviceptr leak; CU(cuMemAlloc(&leak, 5 << 20)); CU(cuMemsetD32Async(leak, generation, (5 << 20) / 4, places[0].stream));
        for (int i = 0; i < SLOTS; i++) if (i & 1) CU(cuMemFreeHost(in[i]));
        CU(cuCtxPopCurrent(&top));
        for (int i : {1, 0, 2}) places[i].destroy();
        CU(cuCtxGetCurrent(&of)); wrong += of != nullptr;
    }
    // At last the primary context, after all that.
    CUcontext primary; CU(cuDevicePrimaryCtxRetain(&primary, device)); CU(cuCtxSetCurrent(primary));
    CUdeviceptr d; uint32_t back[100]; CU(cuMemAlloc(&d, 400)); CU(cuMemsetD32(d, 0xabcdef, 100)); CU(cuMemcpyDtoH(back, d, 400));
    for (uint32_t v : back) wrong += v != 0xabcdef;
    CU(cuMemFree(d)); CU(cuDevicePrimaryCtxRelease(device));
    printf("ctxserver: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
