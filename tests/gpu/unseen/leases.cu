// Graphs that own leases: each graph holds a user object for the staging slot that it copies from and to, is launched and destroyed at once,
// and the object's destructor alone tells that the slot may be read and filled again. Then streams and events by the thousand, destroyed with
// their work pending, so that handles are used again; updates that fail; graphs that share one lease.
#include <cuda_runtime.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int SLOTS = 5, STREAMS = 3, JOBS = 150, WORDS = 1500, CHAIN = 1200, PATCH = 40;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void transform(const uint32_t *in, uint32_t *out, uint32_t n, uint32_t job, int rounds) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t v = in[i] + in[(i + 1) % n] * 3;
        for (int r = 0; r < rounds; r++) v = mix(v + job);
        out[i] = v;
    }
}
__global__ void finish(volatile uint32_t *done, uint32_t job) { __threadfence_system(); *done = job; }
__global__ void link_step(uint32_t *chain, const uint32_t *patch, uint32_t j) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WORDS) chain[i] = mix(chain[i] + patch[i % PATCH] + j);
}
__global__ void look(const uint32_t *chain, unsigned long long *sums, uint32_t j) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WORDS) atomicAdd(sums + j % 16, (unsigned long long)chain[i] * (j + 1));
}

static std::mutex lock; static std::condition_variable changed; static int returned, lent;
struct Slot { uint32_t *in, *out, *done, *done_dev, *dev_in, *dev_out; std::atomic<uint32_t> back{0}; };
struct Lease { Slot *slot; uint32_t job; };
static void give_back(void *p) {                             // on a thread of the driver's
    Lease *l = (Lease *)p;
    if (l->slot) l->slot->back.store(l->job, std::memory_order_release);
    { std::lock_guard<std::mutex> g(lock); returned++; }
    changed.notify_all();
    delete l;
}
static cudaUserObject_t lend(Slot *slot, uint32_t job) {
    cudaUserObject_t object; lent++;
    CK(cudaUserObjectCreate(&object, new Lease{slot, job}, give_back, 1, cudaUserObjectNoDestructorSync));
    return object;
}
static cudaGraphNode_t kernel_node(cudaGraph_t g, cudaGraphNode_t *after, void *f, int blocks, void **args) {
    cudaGraphNode_t node; cudaKernelNodeParams p = {};
    p.func = f; p.gridDim = dim3(blocks); p.blockDim = dim3(blocks == 1 ? 1 : 128); p.kernelParams = args;
    CK(cudaGraphAddKernelNode(&node, g, after, after ? 1 : 0, &p));
    return node;
}
static cudaGraph_t graph_of(Slot &s, uint32_t job) {
    cudaGraph_t g; cudaGraphNode_t up, k, down; uint32_t n = WORDS - job % 17; int rounds = 20 + job % 3 * 150;
    const uint32_t *from = s.dev_in;
    CK(cudaGraphCreate(&g, 0));
    CK(cudaGraphAddMemcpyNode1D(&up, g, nullptr, 0, s.dev_in, s.in, n * 4, cudaMemcpyHostToDevice));
    void *args[] = {&from, &s.dev_out, &n, &job, &rounds};
    k = kernel_node(g, &up, (void *)transform, 6, args);
    CK(cudaGraphAddMemcpyNode1D(&down, g, &k, 1, s.out, s.dev_out, n * 4, cudaMemcpyDeviceToHost));
    void *args2[] = {&s.done_dev, &job};
    kernel_node(g, &down, (void *)finish, 1, args2);
    return g;
}

int main() {
    int wrong = 0; uint64_t checksum = 14695981039346656037ull;
    CK(cudaSetDevice(0));
    Slot slots[SLOTS]; cudaStream_t streams[STREAMS]; uint32_t *slab, *slab_dev; const int per_slot = 2 * WORDS + 4;
    CK(cudaHostAlloc(&slab, SLOTS * per_slot * 4, cudaHostAllocMapped)); CK(cudaHostGetDevicePointer(&slab_dev, slab, 0));
    memset(slab, 0, SLOTS * per_slot * 4);
    for (int i = 0; i < SLOTS; i++) {
        Slot &s = slots[i];
        s.in = slab + i * per_slot; s.out = s.in + WORDS; s.done = s.out + WORDS; s.done_dev = slab_dev + (s.done - slab);
        CK(cudaMalloc(&s.dev_in, WORDS * 4)); CK(cudaMalloc(&s.dev_out, WORDS * 4));
    }
    for (auto &s : streams) CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));

    std::vector<uint32_t> inputs[SLOTS];
    auto collect = [&](uint32_t job) {                       // jobs count from 1
        Slot &s = slots[job % SLOTS];
        auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
        while (s.back.load(std::memory_order_acquire) != job) {      // mostly told by the destructor; a nudge if nobody calls it
            std::unique_lock<std::mutex> l(lock);
            if (changed.wait_for(l, std::chrono::milliseconds(100), [&] { return s.back.load(std::memory_order_acquire) == job; })) break;
            cudaError_t e = cudaStreamQuery(streams[job % STREAMS]);
            if (e != cudaErrorNotReady) CK(e);
            if (std::chrono::steady_clock::now() > until) break;
        }
        until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (__atomic_load_n(s.done, __ATOMIC_ACQUIRE) != job)
            if (std::chrono::steady_clock::now() > until) { fprintf(stderr, "job %u is not done\n", job); _Exit(3); }
        uint32_t n = WORDS - job % 17; std::vector<uint32_t> &in = inputs[job % SLOTS]; int rounds = 20 + job % 3 * 150;
        for (uint32_t i = 0; i < n; i++) {
            if (i % 19 == job % 19) {
                uint32_t v = in[i] + in[(i + 1) % n] * 3;
                for (int r = 0; r < rounds; r++) v = mix(v + job);
                wrong += s.out[i] != v;
            }
            checksum = (checksum ^ s.out[i]) * 1099511628211ull;
        }
        *s.done = 0;
    };
    for (uint32_t job = 1; job <= JOBS; job++) {
        Slot &s = slots[job % SLOTS]; std::vector<uint32_t> &in = inputs[job % SLOTS];
        if (job > SLOTS) collect(job - SLOTS);
        in.resize(WORDS);
        for (int i = 0; i < WORDS; i++) s.in[i] = in[i] = job > SLOTS ? s.out[i] + i : mix(job * 10000 + i);
        memset(s.out, 0, WORDS * 4);
        cudaGraph_t g = graph_of(s, job), other = nullptr; cudaGraphExec_t exec;
        cudaUserObject_t object = lend(&s, job);
        if (job % 4 == 2) CK(cudaUserObjectRetain(object, 1));
        CK(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
        if (job % 4 == 1) {                                  // by a clone
            CK(cudaGraphClone(&other, g)); CK(cudaGraphDestroy(g)); g = other;
        } else if (job % 4 == 3) {                           // as the child of another
            cudaGraphNode_t child;
            CK(cudaGraphCreate(&other, 0)); CK(cudaGraphAddChildGraphNode(&child, other, nullptr, 0, g)); CK(cudaGraphDestroy(g)); g = other;
        }
        CK(cudaGraphInstantiate(&exec, g, 0));
        if (job % 2) CK(cudaGraphDestroy(g));
        CK(cudaGraphLaunch(exec, streams[job % STREAMS]));
        CK(cudaGraphExecDestroy(exec));
        if (job % 2 == 0) CK(cudaGraphDestroy(g));
        if (job % 4 == 2) CK(cudaUserObjectRelease(object, 1));
    }
    for (uint32_t job = JOBS - SLOTS + 1; job <= JOBS; job++) collect(job);

    // A chain over streams that live for one step each; what orders them is destroyed as soon as it has been said.
    uint32_t *chain, *patches, *patch; unsigned long long *sums, got[16]; cudaStream_t before = nullptr, s; cudaEvent_t told = nullptr;
    CK(cudaMalloc(&chain, WORDS * 4)); CK(cudaMalloc(&patch, CHAIN * PATCH * 4)); CK(cudaMalloc(&sums, 16 * 8)); CK(cudaMallocHost(&patches, CHAIN * PATCH * 4));
    CK(cudaMemset(chain, 0, WORDS * 4)); CK(cudaMemset(sums, 0, 16 * 8)); CK(cudaDeviceSynchronize());
    std::vector<uint32_t> model(WORDS, 0), end(WORDS); unsigned long long expected[16] = {};
    for (uint32_t j = 0; j < CHAIN; j++) {
        uint32_t *p = patches + j * PATCH, *d = patch + j * PATCH;
        for (int i = 0; i < PATCH; i++) p[i] = mix(j * 64 + i);
        CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CK(cudaMemcpyAsync(d, p, PATCH * 4, cudaMemcpyHostToDevice, s));
        if (told) { CK(cudaStreamWaitEvent(s, told, 0)); CK(cudaEventDestroy(told)); CK(cudaStreamDestroy(before)); }
        link_step<<<12, 128, 0, s>>>(chain, d, j);
        if (j % 5 == 3) look<<<12, 128, 0, s>>>(chain, sums, j);
        CK(cudaGetLastError());
        CK(cudaEventCreateWithFlags(&told, j % 2 ? cudaEventDisableTiming : cudaEventDefault));
        CK(cudaEventRecord(told, s));
        before = s;
        for (int i = 0; i < WORDS; i++) model[i] = mix(model[i] + p[i % PATCH] + j);
        if (j % 5 == 3) for (int i = 0; i < WORDS; i++) expected[j % 16] += (unsigned long long)model[i] * (j + 1);
    }
    CK(cudaEventSynchronize(told)); CK(cudaEventDestroy(told)); CK(cudaStreamDestroy(before));
    CK(cudaMemcpy(end.data(), chain, WORDS * 4, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost));
    wrong += end != model || memcmp(got, expected, sizeof got) != 0;
    for (uint32_t v : end) checksum = (checksum ^ v) * 1099511628211ull;

    // One lease for many graphs, and an update that is refused: the old graph goes on.
    cudaUserObject_t shared = lend(nullptr, 0); std::vector<cudaGraphExec_t> execs;
    for (uint32_t i = 0; i < 12; i++) {
        cudaGraph_t g = graph_of(slots[i % SLOTS], 1000 + i), empty; cudaGraphExec_t exec; cudaGraphExecUpdateResultInfo why;
        CK(cudaGraphRetainUserObject(g, shared, 1, 0));
        CK(cudaGraphInstantiate(&exec, g, 0)); CK(cudaGraphCreate(&empty, 0));
        cudaError_t refused = cudaGraphExecUpdate(exec, empty, &why);
        wrong += refused == cudaSuccess || why.result == cudaGraphExecUpdateSuccess;
        cudaGetLastError();
        CK(cudaGraphLaunch(exec, streams[0])); CK(cudaGraphDestroy(empty)); CK(cudaGraphDestroy(g));
        execs.push_back(exec);
    }
    CK(cudaUserObjectRelease(shared, 1));
    CK(cudaStreamSynchronize(streams[0]));
    { std::lock_guard<std::mutex> l(lock); wrong += returned > JOBS; }     // the last one lives as long as its executable graphs
    for (auto &slot : slots) for (int i = 0; i < WORDS; i += 7) checksum = (checksum ^ slot.out[i]) * 1099511628211ull;
    for (auto e : execs) CK(cudaGraphExecDestroy(e));
    for (auto &st : streams) { CK(cudaStreamSynchronize(st)); CK(cudaStreamDestroy(st)); }
    CK(cudaDeviceSynchronize());
    bool all;
    { std::unique_lock<std::mutex> l(lock); all = changed.wait_for(l, std::chrono::seconds(5), [] { return returned == lent; }); }
    for (auto &slot : slots) { CK(cudaFree(slot.dev_in)); CK(cudaFree(slot.dev_out)); }
    CK(cudaFree(chain)); CK(cudaFree(patch)); CK(cudaFree(sums)); CK(cudaFreeHost(patches)); CK(cudaFreeHost(slab));
    printf("leases: all came back: %s, checksum %016llx wrong %d\n", all ? "yes" : "no", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
