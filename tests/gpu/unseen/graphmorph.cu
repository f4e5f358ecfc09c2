// Graphs that change: updates in place with other parameters, an update refused for its topology and the graph made anew, nodes'
// parameters set one by one, pitched and plain copies from and to pinned memory, host nodes that feed the next launch, child
// graphs, and memory made and freed in graphs; launched in three streams in turn.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int W = 90, H = 70, N = W * H;
static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(const uint32_t *p, int n) { for (int i = 0; i < n; i++) sum = (sum ^ p[i]) * 1099511628211ull; }

__global__ void multiply(uint32_t *p, uint32_t a, uint32_t b) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] = p[i] * a + b; }
__global__ void twist(uint32_t *p, uint32_t a, uint32_t b) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p[i] = (p[i] ^ a) - b; }
__global__ void join_rows(uint32_t *p, const uint32_t *rows, int pitch, const uint32_t *marks) {      // rows is pitched
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < W) p[y * W + x] += rows[y * pitch + x] * 7 + marks[y * W + x];
}
__global__ void spread(uint32_t *to, const uint32_t *from, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] = from[i % N] * 3 + i; }
__global__ void reduce(uint32_t *to, const uint32_t *from, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) { uint32_t s = 0; for (int k = i; k < n; k += N) s = s * 5 + from[k]; to[i] += s; } }

struct Feed { uint32_t *out, *in, add; int calls; };
static void CUDART_CB feed(void *data) { Feed *f = (Feed *)data; f->calls++; for (int i = 0; i < N; i++) f->in[i] = f->out[N - 1 - i] + f->add; }
static void CUDART_CB feed_plain(void *data) { Feed *f = (Feed *)data; f->calls++; for (int i = 0; i < N; i++) f->in[i] = f->out[i] ^ f->add; }

static uint32_t *d, *rows, *marks, *in, *in2, *out; static size_t pitch;
struct Settings { uint32_t a, b; bool twisted; int extra; unsigned char mark; bool plain; Feed *feed; };
struct Nodes { cudaGraphNode_t copy_in, first, child, join, copy_out, host; };

static cudaGraph_t make_child(const Settings &s, cudaGraphNode_t *set = nullptr) {
    cudaGraph_t g; cudaGraphNode_t m, k; CK(cudaGraphCreate(&g, 0));
    cudaMemsetParams mp = {}; mp.dst = marks; mp.value = s.mark; mp.elementSize = 1; mp.width = N * 4; mp.height = 1;
    CK(cudaGraphAddMemsetNode(&m, g, nullptr, 0, &mp));
    cudaMemcpy3DParms c = {};                               // a pitched copy of another pinned picture
    c.srcPtr = make_cudaPitchedPtr(in2, W * 4, W, H); c.dstPtr = make_cudaPitchedPtr(rows, pitch, W, H);
    c.extent = make_cudaExtent(W * 4, H, 1); c.kind = cudaMemcpyHostToDevice;
    CK(cudaGraphAddMemcpyNode(&k, g, nullptr, 0, &c));
    return g;
}
static cudaGraphNode_t add_kernel(cudaGraph_t g, cudaGraphNode_t after, void *f, dim3 grid, dim3 block, void **args) {
    cudaGraphNode_t n; cudaKernelNodeParams kp = {}; kp.func = f; kp.gridDim = grid; kp.blockDim = block; kp.kernelParams = args;
    CK(cudaGraphAddKernelNode(&n, g, after ? &after : nullptr, after ? 1 : 0, &kp));
    return n;
}
static cudaGraph_t make(Settings s, Nodes *n) {
    cudaGraph_t g; CK(cudaGraphCreate(&g, 0));
    CK(cudaGraphAddMemcpyNode1D(&n->copy_in, g, nullptr, 0, d, in, N * 4, cudaMemcpyHostToDevice));
    void *args[] = {&d, &s.a, &s.b}; int p = (int)(pitch / 4);
    n->first = add_kernel(g, n->copy_in, s.twisted ? (void *)twist : (void *)multiply, dim3((N + 127) / 128), dim3(128), args);
    cudaGraphNode_t last = n->first;
    for (int i = 0; i < s.extra; i++) last = add_kernel(g, last, (void *)multiply, dim3((N + 255) / 256), dim3(256), args);
    cudaGraph_t child = make_child(s);
    CK(cudaGraphAddChildGraphNode(&n->child, g, nullptr, 0, child));
    CK(cudaGraphDestroy(child));                            // it was cloned
    void *args2[] = {&d, &rows, &p, &marks};
    n->join = add_kernel(g, last, (void *)join_rows, dim3((W + 31) / 32, H), dim3(32), args2);
    CK(cudaGraphAddDependencies(g, &n->child, &n->join, nullptr, 1));
    CK(cudaGraphAddMemcpyNode1D(&n->copy_out, g, &n->join, 1, out, d, N * 4, cudaMemcpyDeviceToHost));
    cudaHostNodeParams hp = {s.plain ? feed_plain : feed, s.feed};
    CK(cudaGraphAddHostNode(&n->host, g, &n->copy_out, 1, &hp));
    return g;
}
static std::vector<uint32_t> rin(N), rout(N), rin2(N);
static void reference(const Settings &s) {
    uint32_t mark = s.mark * 0x01010101u;
    for (int i = 0; i < N; i++) {
        uint32_t v = s.twisted ? (rin[i] ^ s.a) - s.b : rin[i] * s.a + s.b;
        for (int k = 0; k < s.extra; k++) v = v * s.a + s.b;
        rout[i] = v + rin2[i] * 7 + mark;
    }
    for (int i = 0; i < N; i++) rin[i] = s.plain ? rout[i] ^ s.feed->add : rout[N - 1 - i] + s.feed->add;
}
static void compare(const char *what, const uint32_t *p, const std::vector<uint32_t> &r) {
    if (memcmp(p, r.data(), r.size() * 4)) { wrong++; fprintf(stderr, "%s differs\n", what); }
    fold(p, (int)r.size());
}

static void morph(cudaStream_t *streams) {
    Feed feeds[3] = {{out, in, 11, 0}, {out, in, 222, 0}, {out, in, 3333, 0}};
    Settings now = {3, 5, false, 0, 1, false, &feeds[0]};
    Nodes n; cudaGraph_t graph = make(now, &n); cudaGraphExec_t exec; int launches = 0, refused = 0, updated = 0;
    CK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 48; round++) {
        cudaStream_t s = streams[round % 3];
        if (round % 6 == 2) {                               // one node after the other, only in the executable graph
            now.a += 2; now.b ^= round; now.twisted = round % 4 == 2; now.feed = &feeds[round % 3]; now.plain = !now.plain; now.mark = round;
            void *args[] = {&d, &now.a, &now.b}; cudaKernelNodeParams kp = {};
            kp.func = now.twisted ? (void *)twist : (void *)multiply; kp.gridDim = dim3((N + 63) / 64); kp.blockDim = dim3(64); kp.kernelParams = args;
            int extra = now.extra; now.extra = 0;           // the further kernels have the old a and b: there must be none
            if (extra) { Nodes m; cudaGraph_t g = make(now, &m); CK(cudaDeviceSynchronize()); CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph)); graph = g; n = m; CK(cudaGraphInstantiate(&exec, graph, 0)); }
            CK(cudaGraphExecKernelNodeSetParams(exec, n.first, &kp));
            cudaHostNodeParams hp = {now.plain ? feed_plain : feed, now.feed};
            CK(cudaGraphExecHostNodeSetParams(exec, n.host, &hp));
            cudaGraph_t child = make_child(now);
            CK(cudaGraphExecChildGraphNodeSetParams(exec, n.child, child));
            CK(cudaGraphDestroy(child));
        } else if (round % 3 == 1) {                        // a new graph; sometimes of another topology
            if (round % 4 == 3) now.extra = (now.extra + 1) % 3;
            now.a = now.a * 3 + 2; now.b += round; now.feed = &feeds[round % 2]; now.mark = 3 * round;
            Nodes m; cudaGraph_t g = make(now, &m); cudaGraphExecUpdateResultInfo info; memset(&info, 0, sizeof info);
            cudaError_t e = cudaGraphExecUpdate(exec, g, &info);
            if (e == cudaErrorGraphExecUpdateFailure) {
                refused++;
                wrong += round % 4 != 3 || info.result == cudaGraphExecUpdateSuccess;
                sum = sum * 31 + (int)cudaGetLastError();
                CK(cudaGraphExecDestroy(exec));             // it may still run: it goes when it has
                CK(cudaStreamSynchronize(streams[(round + 2) % 3]));
                CK(cudaGraphInstantiateWithFlags(&exec, g, 0));
                CK(cudaGraphDestroy(graph)); graph = g; n = m;
            } else {                                        // its nodes are still named by the graph it was made of
                CK(e); updated++; wrong += info.result != cudaGraphExecUpdateSuccess || round % 4 == 3;
                CK(cudaGraphDestroy(g));
            }
        } else if (round % 9 == 6) {                        // the copy out goes to the same memory by another call
            CK(cudaGraphExecMemcpyNodeSetParams1D(exec, n.copy_out, out, d, N * 4, cudaMemcpyDeviceToHost));
        }
        CK(cudaGraphLaunch(exec, s));                       // launches of one executable graph wait for one another
        launches++;
        reference(now);
        if (round % 5 == 4) { CK(cudaStreamSynchronize(s)); compare("out", out, rout); compare("in", in, rin); }
    }
    CK(cudaDeviceSynchronize());
    compare("the last", out, rout);
    wrong += feeds[0].calls + feeds[1].calls + feeds[2].calls != launches;
    wrong += refused == 0 || updated == 0;
    sum = sum * 31 + refused * 100 + updated;
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph));
}

static void memory_nodes(cudaStream_t *streams) {
    const int big = 5 * N + 123;
    cudaGraph_t g; cudaGraphExec_t exec; cudaGraphNode_t alloc, reduced, freed, outn;
    uint32_t *acc; CK(cudaMalloc(&acc, N * 4)); CK(cudaMemset(acc, 0, N * 4)); CK(cudaMemset(d, 0x11, N * 4)); CK(cudaDeviceSynchronize());
    CK(cudaGraphCreate(&g, 0));
    cudaMemAllocNodeParams ap; memset(&ap, 0, sizeof ap);
    ap.poolProps.allocType = cudaMemAllocationTypePinned; ap.poolProps.location.type = cudaMemLocationTypeDevice; ap.bytesize = big * 4;
    CK(cudaGraphAddMemAllocNode(&alloc, g, nullptr, 0, &ap));
    uint32_t *temporary = (uint32_t *)ap.dptr; int count = big;
    void *a1[] = {&temporary, &d, &count}, *a2[] = {&acc, &temporary, &count};
    cudaGraphNode_t k = add_kernel(g, alloc, (void *)spread, dim3((big + 255) / 256), dim3(256), a1);
    reduced = add_kernel(g, k, (void *)reduce, dim3((N + 127) / 128), dim3(128), a2);
    CK(cudaGraphAddMemFreeNode(&freed, g, &reduced, 1, temporary));
    CK(cudaGraphAddMemcpyNode1D(&outn, g, &reduced, 1, out, acc, N * 4, cudaMemcpyDeviceToHost));
    CK(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < 9; i++) CK(cudaGraphLaunch(exec, streams[i % 3]));
    CK(cudaDeviceSynchronize());
    std::vector<uint32_t> racc(N, 0), t(big);
    auto once = [&] {
        for (int i = 0; i < big; i++) t[i] = 0x11111111u * 3 + i;
        for (int i = 0; i < N; i++) { uint32_t s = 0; for (int j = i; j < big; j += N) s = s * 5 + t[j]; racc[i] += s; }
    };
    for (int i = 0; i < 9; i++) once();
    compare("memory nodes", out, racc);
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(g));

    // Captured: the memory outlives the graph, is used by a kernel afterwards and freed by the next launch on its own.
    cudaStream_t s = streams[0]; uint32_t *kept;
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CK(cudaMallocAsync(&kept, big * 4, s));
    spread<<<(big + 127) / 128, 128, 0, s>>>(kept, d, big);
    CK(cudaStreamEndCapture(s, &g));
    CK(cudaGraphInstantiateWithFlags(&exec, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 4; i++) {
        CK(cudaGraphLaunch(exec, s));
        reduce<<<(N + 255) / 256, 256, 0, s>>>(acc, kept, big);
        CK(cudaGetLastError());
        once();
    }
    CK(cudaFreeAsync(kept, s));
    CK(cudaMemcpyAsync(out, acc, N * 4, cudaMemcpyDeviceToHost, s));
    CK(cudaStreamSynchronize(s));
    compare("kept memory", out, racc);
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(g));
    CK(cudaDeviceGraphMemTrim(0));
    uint64_t used = 1; CK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used)); wrong += used != 0;
    CK(cudaFree(acc));
}

int main() {
    CK(cudaSetDevice(0));
    cudaStream_t streams[3];
    for (int i = 0; i < 3; i++) CK(cudaStreamCreateWithFlags(&streams[i], i == 1 ? cudaStreamDefault : cudaStreamNonBlocking));
    CK(cudaMalloc(&d, N * 4)); CK(cudaMalloc(&marks, N * 4)); CK(cudaMallocPitch(&rows, &pitch, W * 4, H));
    CK(cudaMallocHost(&in, N * 4)); CK(cudaMallocHost(&in2, N * 4)); CK(cudaHostAlloc(&out, N * 4, cudaHostAllocPortable));
    for (int i = 0; i < N; i++) { in[i] = rin[i] = i * 2654435761u; in2[i] = rin2[i] = i * i + 1; }
    morph(streams);
    memory_nodes(streams);
    for (auto s : streams) CK(cudaStreamDestroy(s));
    CK(cudaFree(d)); CK(cudaFree(marks)); CK(cudaFree(rows)); CK(cudaFreeHost(in)); CK(cudaFreeHost(in2)); CK(cudaFreeHost(out));
    printf("graphmorph: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
