// Captures by several threads at once, each in its own mode, while others allocate; graphs put together from captured pieces and
// nodes, with a SWITCH, an IF with its else, and a WHILE; a host node writes pinned memory that a later node of the same graph
// uploads and that decides which branch runs; branches copy from and to pinned memory that is rewritten between the launches.
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int N = 5000, THREADS = 4, BRANCHES = 4, LAUNCHES = 30, REBUILDS = 3;
typedef std::vector<uint32_t> Vec;
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
struct State { uint32_t selector, steps, round, total; };

__global__ void affine(uint32_t *p, uint32_t a, uint32_t b) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] = p[i] * a + b; }
__global__ void merge(uint32_t *p, const uint32_t *q) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] = mix(p[i] ^ q[i]); }
__global__ void reverse(uint32_t *to, const uint32_t *from) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) to[i] = from[N - 1 - i] + 1; }
__global__ void decide(State *s, cudaGraphConditionalHandle which, cudaGraphConditionalHandle odd, cudaGraphConditionalHandle loop) {
    cudaGraphSetConditional(which, s->selector % (BRANCHES + 1));       // one value has no branch
    cudaGraphSetConditional(odd, s->selector & 1);
    s->steps = s->selector % 5; s->round++;
    cudaGraphSetConditional(loop, s->steps != 0);
}
__global__ void once_more(State *s, cudaGraphConditionalHandle loop) { s->total += s->steps; s->steps--; cudaGraphSetConditional(loop, s->steps != 0); }

static std::atomic<int> wrong{0};
static uint64_t sums[THREADS];

// What a host node does: takes the words that came down, makes the words that go up and the selector.
struct Feed { uint32_t *down, *up; State *state; uint32_t salt; int calls; };
static void feed_words(const uint32_t *down, uint32_t *up, uint32_t *selector, uint32_t salt) {
    uint32_t h = salt;
    for (int i = 0; i < N; i++) { h = h * 31 + down[i]; up[i] = down[i] * 3 + salt; }
    *selector = mix(h);
}
static void CUDART_CB feed(void *data) { Feed *f = (Feed *)data; f->calls++; feed_words(f->down, f->up, &f->state->selector, f->salt); }

struct Lane {
    int id; cudaStream_t main, side; cudaEvent_t fork, join; cudaGraphExec_t exec = nullptr;
    uint32_t *d, *e, *upload, *down, *up, *branch_in, *branch_out, *out; State *state, *state_pinned; Feed *feeding;
    uint32_t a, b; int pieces;                              // what the graph was built with
    Vec rd = Vec(N), re = Vec(N), rup = Vec(N), rin = Vec(N), rbranch = Vec(N); uint32_t total = 0, rounds = 0;

    dim3 grid() { return dim3((N + 127) / 128); }
    void prepare(int i) {
        id = i;
        CK(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        CK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
        for (uint32_t **p : {&d, &e, &upload}) { CK(cudaMalloc(p, N * 4)); CK(cudaMemset(*p, 0, N * 4)); }
        for (uint32_t **p : {&down, &up, &branch_in, &branch_out, &out}) { CK(cudaMallocHost(p, N * 4)); memset(*p, 0, N * 4); }
        CK(cudaMalloc(&state, sizeof(State))); CK(cudaMallocHost(&state_pinned, sizeof(State))); memset(state_pinned, 0, sizeof(State));
        CK(cudaMemset(state, 0, sizeof(State))); CK(cudaDeviceSynchronize());
        feeding = new Feed{down, up, state_pinned, 0, 0};
    }
    // One body of the switch; only one of them writes branch_out for a launch, and perhaps none.
    void body(cudaGraph_t graph, int which, cudaStreamCaptureMode mode) {
        CK(cudaStreamBeginCaptureToGraph(main, graph, nullptr, nullptr, 0, mode));
        if (which == 0) { affine<<<grid(), 128, 0, main>>>(d, 7, id); }
        else if (which == 1) { CK(cudaMemcpyAsync(upload, branch_in, N * 4, cudaMemcpyHostToDevice, main)); merge<<<grid(), 128, 0, main>>>(d, upload); }
        else if (which == 2) { reverse<<<grid(), 128, 0, main>>>(upload, d); CK(cudaMemcpyAsync(d, upload, N * 4, cudaMemcpyDeviceToDevice, main)); }
        else { CK(cudaMemsetAsync(upload, 0x3c, N * 4, main)); merge<<<grid(), 128, 0, main>>>(d, upload); }
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(branch_out, d, N * 4, cudaMemcpyDeviceToHost, main));
        CK(cudaStreamEndCapture(main, &graph));
    }
    cudaGraph_t build() {
        // The threads' own captures are not disturbed by what the others do in this mode; relaxed, not even by themselves.
        const cudaStreamCaptureMode mode = id % 2 ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed;
        CK(cudaStreamBeginCapture(main, mode));
        CK(cudaMemcpyAsync(e, up, N * 4, cudaMemcpyHostToDevice, main));                // what the last launch's host node made
        CK(cudaEventRecord(fork, main)); CK(cudaStreamWaitEvent(side, fork, 0));
        for (int i = 0; i < pieces; i++) affine<<<grid(), 128, 0, side>>>(d, a, b);
        affine<<<grid(), 128, 0, main>>>(e, b | 1, a);
        CK(cudaEventRecord(join, side)); CK(cudaStreamWaitEvent(main, join, 0));
        merge<<<grid(), 128, 0, main>>>(d, e);
        if (mode == cudaStreamCaptureModeRelaxed) { void *p; CK(cudaMalloc(&p, 1000)); CK(cudaFree(p)); }
        CK(cudaMemcpyAsync(down, d, N * 4, cudaMemcpyDeviceToHost, main));
        CK(cudaLaunchHostFunc(main, feed, feeding));
        CK(cudaMemcpyAsync(&state->selector, &state_pinned->selector, 4, cudaMemcpyHostToDevice, main));   // what it wrote just now
        // The conditional nodes are put behind what was captured, into the same graph, and the capture goes on behind them.
        cudaStreamCaptureStatus status; cudaGraph_t graph; const cudaGraphNode_t *last; const cudaGraphEdgeData *edges; size_t count;
        CK(cudaStreamGetCaptureInfo(main, &status, nullptr, &graph, &last, &edges, &count));
        cudaGraphConditionalHandle which, odd, loop;
        CK(cudaGraphConditionalHandleCreate(&which, graph, 0, 0)); CK(cudaGraphConditionalHandleCreate(&odd, graph, 0, cudaGraphCondAssignDefault));
        CK(cudaGraphConditionalHandleCreate(&loop, graph, 0, 0));
        decide<<<1, 1, 0, main>>>(state, which, odd, loop); CK(cudaGetLastError());
        CK(cudaStreamGetCaptureInfo(main, &status, nullptr, &graph, &last, &edges, &count));
        cudaGraphNode_t nodes[3]; cudaGraphNodeParams p[3] = {};
        for (auto &one : p) one.type = cudaGraphNodeTypeConditional;
        p[0].conditional.handle = which; p[0].conditional.type = cudaGraphCondTypeSwitch; p[0].conditional.size = BRANCHES;
        p[1].conditional.handle = odd; p[1].conditional.type = cudaGraphCondTypeIf; p[1].conditional.size = 2;
        p[2].conditional.handle = loop; p[2].conditional.type = cudaGraphCondTypeWhile; p[2].conditional.size = 1;
        CK(cudaGraphAddNode(&nodes[0], graph, last, nullptr, count, &p[0]));
        CK(cudaGraphAddNode(&nodes[1], graph, &nodes[0], nullptr, 1, &p[1]));
        CK(cudaGraphAddNode(&nodes[2], graph, &nodes[1], nullptr, 1, &p[2]));
        CK(cudaStreamUpdateCaptureDependencies(main, &nodes[2], nullptr, 1, cudaStreamSetCaptureDependencies));
        CK(cudaMemcpyAsync(out, d, N * 4, cudaMemcpyDeviceToHost, main));
        CK(cudaMemcpyAsync(&state_pinned->steps, &state->steps, 12, cudaMemcpyDeviceToHost, main));    // not the selector
        CK(cudaStreamEndCapture(main, &graph));
        cudaGraph_t part;
        for (int i = 0; i < BRANCHES; i++) body(p[0].conditional.phGraph_out[i], i, mode);
        for (int i = 0; i < 2; i++) {
            CK(cudaStreamBeginCaptureToGraph(side, p[1].conditional.phGraph_out[i], nullptr, nullptr, 0, mode));
            affine<<<grid(), 128, 0, side>>>(d, i ? 11 : 13, id + i); CK(cudaGetLastError());
            CK(cudaStreamEndCapture(side, &part));
        }
        CK(cudaStreamBeginCaptureToGraph(side, p[2].conditional.phGraph_out[0], nullptr, nullptr, 0, mode));
        affine<<<grid(), 128, 0, side>>>(d, 3, 1); once_more<<<1, 1, 0, side>>>(state, loop); CK(cudaGetLastError());
        CK(cudaStreamEndCapture(side, &part));
        return graph;
    }
    void reference() {
        re = rup; auto step = [&](Vec &v, uint32_t m, uint32_t k) { for (auto &x : v) x = x * m + k; };
        for (int i = 0; i < pieces; i++) step(rd, a, b);
        step(re, b | 1, a);
        for (int i = 0; i < N; i++) rd[i] = mix(rd[i] ^ re[i]);
        uint32_t selector; feed_words(rd.data(), rup.data(), &selector, feeding->salt); rounds++;
        int which = selector % (BRANCHES + 1);
        if (which == 0) step(rd, 7, id);
        else if (which == 1) for (int i = 0; i < N; i++) rd[i] = mix(rd[i] ^ rin[i]);
        else if (which == 2) { Vec t = rd; for (int i = 0; i < N; i++) rd[i] = t[N - 1 - i] + 1; }
        else if (which == 3) for (auto &x : rd) x = mix(x ^ 0x3c3c3c3cu);
        if (which < BRANCHES) rbranch = rd;
        step(rd, selector & 1 ? 13 : 11, id + !(selector & 1));
        for (uint32_t s = selector % 5; s; s--) { step(rd, 3, 1); total += s; }
    }
    void run() {
        CK(cudaSetDevice(0));
        uint64_t sum = 14695981039346656037ull;
        int launches = 0;
        for (int rebuild = 0; rebuild < REBUILDS; rebuild++) {
            a = 2 * mix(rebuild + id) + 1; b = rebuild * 17 + id; pieces = 1 + (rebuild + id) % 3;
            cudaGraph_t graph = build();                    // while the other threads build theirs or run
            if (exec) CK(cudaGraphExecDestroy(exec));
            CK(cudaGraphInstantiate(&exec, graph, 0));
            CK(cudaGraphDestroy(graph));
            for (int l = 0; l < LAUNCHES / REBUILDS; l++) {
                for (int i = 0; i < N; i++) branch_in[i] = rin[i] = mix(launches * 3 + i);      // it is there even if no branch reads it
                feeding->salt = mix(launches * 7 + id);
                CK(cudaGraphLaunch(exec, launches % 2 ? side : main));
                reference(); launches++;
                CK(cudaStreamSynchronize(launches % 2 ? main : side));
                wrong += memcmp(out, rd.data(), N * 4) != 0; wrong += memcmp(up, rup.data(), N * 4) != 0; wrong += memcmp(branch_out, rbranch.data(), N * 4) != 0;
                wrong += state_pinned->round != rounds || state_pinned->total != total || state_pinned->steps != 0;
                for (int i = 0; i < N; i += 3) sum = (sum ^ out[i]) * 1099511628211ull;
                sum = (sum ^ branch_out[l]) * 1099511628211ull;
            }
        }
        wrong += feeding->calls != launches; sums[id] = sum;
    }
    void finish() {
        CK(cudaGraphExecDestroy(exec)); CK(cudaStreamDestroy(main)); CK(cudaStreamDestroy(side)); CK(cudaEventDestroy(fork)); CK(cudaEventDestroy(join));
        for (void *p : {(void *)d, (void *)e, (void *)upload, (void *)state}) CK(cudaFree(p));
        for (void *p : {(void *)down, (void *)up, (void *)branch_in, (void *)branch_out, (void *)out, (void *)state_pinned}) CK(cudaFreeHost(p));
        delete feeding;
    }
};

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    static Lane lanes[THREADS];
    for (int i = 0; i < THREADS; i++) lanes[i].prepare(i);
    std::vector<std::thread> threads;
    for (auto &l : lanes) threads.emplace_back([&l] { l.run(); });
    // Meanwhile a thread that has nothing to do with captures allocates, copies synchronously and frees: never a forbidden call to
    // others, for their captures are not global.
    std::atomic<bool> stop{false};
    std::thread stranger([&] {
        CK(cudaSetDevice(0)); cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        do {
            uint32_t *p, v = 0; CK(cudaMalloc(&p, 4096)); CK(cudaMemsetAsync(p, 0x42, 4096, s)); CK(cudaMemcpyAsync(&v, p, 4, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s)); wrong += v != 0x42424242u; CK(cudaFree(p));
        } while (!stop);
        CK(cudaStreamDestroy(s));
    });
    for (auto &t : threads) t.join();
    stop = true; stranger.join();
    uint64_t total = 14695981039346656037ull;
    for (uint64_t s : sums) total = (total ^ s) * 1099511628211ull;
    for (auto &l : lanes) l.finish();
    printf("captures: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
