// Host functions that make the input of the next copy, stream callbacks that wake threads which submit more work, and graphs
// having host nodes whose function and data are changed between the launches.
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int N = 16384, ROUNDS = 25, RELAYS = 30;
static std::atomic<int> wrong{0};

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void transform(uint32_t *p, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] = mix(p[i] + k); }
__global__ void accumulate(uint32_t *to, const uint32_t *from) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) to[i] = to[i] * 3 + from[i]; }

// 1. A chain in one stream: the CPU's function reads what the last copy brought and writes what the next one takes.
struct Link { uint32_t *out, *in; uint32_t round; };
static void host_step(uint32_t *to, const uint32_t *from, uint32_t round) {        // a prefix sum, turned round: not for the GPU
    uint32_t running = round;
    for (int i = 0; i < N; i++) { running = running * 5 + from[N - 1 - i]; to[i] = running; }
}
static void CUDART_CB link_function(void *data) { Link *l = (Link *)data; host_step(l->in, l->out, l->round); delete l; }

static uint64_t hash(const uint32_t *p, size_t n) { uint64_t h = 14695981039346656037ull; for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull; return h; }

static uint64_t chain(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    uint32_t *d, *sum, *in, *out;
    CK(cudaMalloc(&d, N * 4)); CK(cudaMalloc(&sum, N * 4)); CK(cudaMallocHost(&in, N * 4)); CK(cudaMallocHost(&out, N * 4));
    CK(cudaMemsetAsync(sum, 0, N * 4, s));
    std::vector<uint32_t> value(N), back(N), total(N);
    for (int i = 0; i < N; i++) in[i] = value[i] = mix(i + id);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CK(cudaMemcpyAsync(d, in, N * 4, cudaMemcpyHostToDevice, s));
        transform<<<N / 256, 256, 0, s>>>(d, round);
        accumulate<<<N / 128, 128, 0, s>>>(sum, d);
        CK(cudaMemcpyAsync(out, d, N * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaLaunchHostFunc(s, link_function, new Link{out, in, round}));
    }
    CK(cudaMemcpyAsync(out, sum, N * 4, cudaMemcpyDeviceToHost, s));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) { back[i] = mix(value[i] + round); total[i] = total[i] * 3 + back[i]; }
        host_step(value.data(), back.data(), round);
    }
    CK(cudaStreamSynchronize(s));
    wrong += memcmp(out, total.data(), N * 4) != 0; wrong += memcmp(in, value.data(), N * 4) != 0;
    uint64_t h = hash(out, N) + hash(in, N);
    CK(cudaFree(d)); CK(cudaFree(sum)); CK(cudaFreeHost(in)); CK(cudaFreeHost(out)); CK(cudaStreamDestroy(s));
    return h;
}

// 2. A relay of three threads: the callback of one's work wakes the next, which takes the result on.
struct Relay {
    std::mutex m; std::condition_variable cv; int turn = 0;
    uint32_t *pinned, *device[3]; cudaEvent_t done;
} relay;
static void CUDART_CB wake(cudaStream_t, cudaError_t status, void *data) {
    if (status != cudaSuccess) wrong++;
    int *next = (int *)data;
    for (int i = *next % 7; i < N; i += 7) relay.pinned[i] ^= (uint32_t)*next;     // the callback works on the data, too
    std::lock_guard<std::mutex> l(relay.m);
    relay.turn = *next;
    delete next;
    relay.cv.notify_all();
}
static void runner(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, id ? cudaStreamNonBlocking : cudaStreamDefault));
    for (int turn = id; turn < RELAYS; turn += 3) {
        { std::unique_lock<std::mutex> l(relay.m); relay.cv.wait(l, [&] { return relay.turn >= turn; }); }
        CK(cudaMemcpyAsync(relay.device[id], relay.pinned, N * 4, cudaMemcpyHostToDevice, s));
        transform<<<N / 64, 64, 0, s>>>(relay.device[id], turn * 11);
        CK(cudaGetLastError());
        if (turn % 4 == 2) { CK(cudaEventRecord(relay.done, s)); CK(cudaStreamWaitEvent(s, relay.done, 0)); }
        CK(cudaMemcpyAsync(relay.pinned, relay.device[id], N * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamAddCallback(s, wake, new int(turn + 1), 0));
    }
    CK(cudaStreamSynchronize(s));
    CK(cudaStreamDestroy(s));
}

// 3. A graph: copy in - kernel - copy out - host node - copy in - kernel; the host node gets other data and functions.
struct Job { uint32_t *p; uint32_t k; int calls; };
static void CUDART_CB add_k(void *data) { Job *j = (Job *)data; j->calls++; for (int i = 0; i < N; i++) j->p[i] += j->k * i; }
static void CUDART_CB reverse(void *data) { Job *j = (Job *)data; j->calls++; for (int i = 0; i < N / 2; i++) { uint32_t t = j->p[i]; j->p[i] = j->p[N - 1 - i]; j->p[N - 1 - i] = t; } }

static uint64_t graphs() {
    cudaStream_t s; CK(cudaStreamCreate(&s));
    uint32_t *d, *p; CK(cudaMalloc(&d, N * 4)); CK(cudaMallocHost(&p, N * 4));
    std::vector<uint32_t> ref(N);
    for (int i = 0; i < N; i++) p[i] = ref[i] = i * i;
    Job jobs[4] = {{p, 1, 0}, {p, 22, 0}, {p, 333, 0}, {p, 4444, 0}};
    cudaGraph_t graph; cudaGraphExec_t exec; cudaGraphNode_t in, kernel, out, host, tail;
    CK(cudaGraphCreate(&graph, 0));
    CK(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, d, p, N * 4, cudaMemcpyHostToDevice));
    uint32_t k = 5; void *args[] = {&d, &k};
    cudaKernelNodeParams kp = {}; kp.func = (void *)transform; kp.gridDim = dim3(N / 128); kp.blockDim = dim3(128); kp.kernelParams = args;
    CK(cudaGraphAddKernelNode(&kernel, graph, &in, 1, &kp));
    CK(cudaGraphAddMemcpyNode1D(&out, graph, &kernel, 1, p, d, N * 4, cudaMemcpyDeviceToHost));
    cudaHostNodeParams hp = {add_k, &jobs[0]};
    CK(cudaGraphAddHostNode(&host, graph, &out, 1, &hp));
    cudaHostNodeParams hp2 = {reverse, &jobs[3]};
    CK(cudaGraphAddHostNode(&tail, graph, &host, 1, &hp2));
    CK(cudaGraphInstantiate(&exec, graph, 0));
    int calls[4] = {};
    for (int launch = 0; launch < 18; launch++) {
        int j = launch % 3; bool flipped = launch % 5 == 4;
        if (launch == 9) {                                  // in the graph itself: only what is instantiated next sees it
            cudaHostNodeParams other = {reverse, &jobs[1]}; CK(cudaGraphHostNodeSetParams(tail, &other));
            cudaHostNodeParams seen; CK(cudaGraphHostNodeGetParams(tail, &seen)); wrong += seen.fn != reverse || seen.userData != &jobs[1];
            cudaGraphExecUpdateResultInfo info;
            CK(cudaGraphExecUpdate(exec, graph, &info));
        }
        cudaHostNodeParams now = {flipped ? reverse : add_k, &jobs[j]};
        CK(cudaGraphExecHostNodeSetParams(exec, host, &now));
        k = 5 + launch; CK(cudaGraphExecKernelNodeSetParams(exec, kernel, &kp));
        CK(cudaGraphLaunch(exec, s));
        if (launch % 2) CK(cudaStreamSynchronize(s));       // else the next change is made while this one runs
        for (auto &v : ref) v = mix(v + k);
        auto turn = [&] { for (int i = 0; i < N / 2; i++) std::swap(ref[i], ref[N - 1 - i]); };
        if (flipped) turn(); else for (int i = 0; i < N; i++) ref[i] += jobs[j].k * i;
        turn();
        calls[j]++; calls[launch < 9 ? 3 : 1]++;
    }
    CK(cudaStreamSynchronize(s));
    for (int i = 0; i < 4; i++) wrong += calls[i] != jobs[i].calls;
    wrong += memcmp(p, ref.data(), N * 4) != 0;
    uint64_t h = hash(p, N);

    // Captured: host functions in two branches of a captured graph, launched while the first launch may still run.
    cudaStream_t side; cudaEvent_t fork, join; cudaGraph_t captured; cudaGraphExec_t e2;
    CK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking)); CK(cudaEventCreate(&fork)); CK(cudaEventCreate(&join));
    uint32_t *q, *d2; CK(cudaMallocHost(&q, N * 4)); CK(cudaMalloc(&d2, N * 4));
    for (int i = 0; i < N; i++) q[i] = i;
    Job left = {p, 9, 0}, right = {q, 10, 0};
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    CK(cudaEventRecord(fork, s)); CK(cudaStreamWaitEvent(side, fork, 0));
    CK(cudaLaunchHostFunc(s, add_k, &left)); CK(cudaLaunchHostFunc(side, reverse, &right)); CK(cudaLaunchHostFunc(side, add_k, &right));
    CK(cudaMemcpyAsync(d, p, N * 4, cudaMemcpyHostToDevice, s)); CK(cudaMemcpyAsync(d2, q, N * 4, cudaMemcpyHostToDevice, side));
    CK(cudaEventRecord(join, side)); CK(cudaStreamWaitEvent(s, join, 0));
    accumulate<<<N / 256, 256, 0, s>>>(d, d2);
    CK(cudaMemcpyAsync(q, d, N * 4, cudaMemcpyDeviceToHost, s));
    CK(cudaStreamEndCapture(s, &captured));
    CK(cudaGraphInstantiate(&e2, captured, 0));
    std::vector<uint32_t> rq(N); for (int i = 0; i < N; i++) rq[i] = i;
    for (int launch = 0; launch < 4; launch++) {
        CK(cudaGraphLaunch(e2, s));
        std::vector<uint32_t> turned(rq.rbegin(), rq.rend());
        for (uint32_t i = 0; i < N; i++) { ref[i] += 9 * i; rq[i] = ref[i] * 3 + turned[i] + 10 * i; }
    }
    CK(cudaStreamSynchronize(s));
    wrong += memcmp(q, rq.data(), N * 4) != 0 || left.calls != 4 || right.calls != 8;
    h = h * 31 + hash(q, N);
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph)); CK(cudaGraphExecDestroy(e2)); CK(cudaGraphDestroy(captured));
    CK(cudaFree(d)); CK(cudaFree(d2)); CK(cudaFreeHost(p)); CK(cudaFreeHost(q)); CK(cudaStreamDestroy(s)); CK(cudaStreamDestroy(side));
    CK(cudaEventDestroy(fork)); CK(cudaEventDestroy(join));
    return h;
}

int main() {
    CK(cudaSetDevice(0));
    CK(cudaMallocHost(&relay.pinned, N * 4)); CK(cudaEventCreateWithFlags(&relay.done, cudaEventDisableTiming));
    for (auto &d : relay.device) CK(cudaMalloc(&d, N * 4));
    std::vector<uint32_t> ref(N);
    for (int i = 0; i < N; i++) relay.pinned[i] = ref[i] = i * 77;
    uint64_t sums[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) threads.emplace_back([&sums, i] { sums[i] = chain(i); });
    for (int i = 0; i < 3; i++) threads.emplace_back(runner, i);
    for (auto &t : threads) t.join();
    for (int turn = 0; turn < RELAYS; turn++) {
        for (auto &v : ref) v = mix(v + turn * 11);
        for (int i = (turn + 1) % 7; i < N; i += 7) ref[i] ^= (uint32_t)(turn + 1);
    }
    wrong += memcmp(relay.pinned, ref.data(), N * 4) != 0;
    uint64_t sum = hash(relay.pinned, N) + sums[0] * 3 + sums[1] * 5 + graphs() * 7;
    CK(cudaFreeHost(relay.pinned)); CK(cudaEventDestroy(relay.done));
    for (auto d : relay.device) CK(cudaFree(d));
    CK(cudaDeviceSynchronize());
    printf("hostfuncs: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
