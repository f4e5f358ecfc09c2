// A tool that operates on graphs which others have captured: it lists nodes and edges, recognises kernels by the function and the parameters that
// their nodes tell, patches those in place, in a clone, and in the executable graph, cuts edges and puts new nodes between, hangs copies to and
// from symbols on it, and appends captured work. The pieces run in turn, with inputs and outputs in changing slots.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int N = 50000, SLOTS = 3;
__constant__ uint32_t coefficients[16];
__device__ uint32_t tally[64];

__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = (v ^ k) * 2654435761u; return v ^ (v >> 15); }
__global__ void scale(uint32_t *out, const uint32_t *in, int n, uint32_t k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = mix(in[i], k) + coefficients[i & 15];
}
__global__ void fold(uint32_t *out, const uint32_t *a, const uint32_t *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + 3 * b[n - 1 - i];
}
__global__ void rotate(uint32_t *values, int n, int bits)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = (values[i] << bits) | (values[i] >> (32 - bits));
}
__global__ void count(const uint32_t *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&tally[values[i] & 63], 1u);
}

static int wrong = 0;
static unsigned long long checksum = 14695981039346656037ull;
static uint32_t *in[SLOTS], *out[SLOTS], *counts[SLOTS], *table[SLOTS], *A, *B, *C, *D, *E, *tally_at;
static cudaStream_t s, t;
// What a run should have left in an output slot
static void check(const char *what, int round, int source, int target, int coef, uint32_t k1, uint32_t k2, int bits, uint32_t again = 0)
{
    static std::vector<uint32_t> b(N), c(N);
    uint32_t expected[64] = {}; int bad = 0;
    for (int i = 0; i < N; i++) { b[i] = mix(in[source][i], k1) + table[coef][i & 15]; c[i] = mix(in[source][i], k2) + table[coef][i & 15]; }
    for (int i = 0; i < N; i++) {
        uint32_t v = b[i] + 3 * c[N - 1 - i];
        if (bits) v = (v << bits) | (v >> (32 - bits));
        expected[v & 63]++;
        if (again) v = mix(v, again) + table[coef][i & 15];
        bad += out[target][i] != v;
        checksum = (checksum ^ out[target][i]) * 1099511628211ull;
    }
    for (int i = 0; i < 64; i++) { bad += counts[target][i] != expected[i]; checksum = (checksum ^ counts[target][i]) * 1099511628211ull; }
    if (bad) { wrong++; printf("  %s, round %d: %d wrong\n", what, round, bad); }
}
// The pipeline as its owner captures it: two streams, that meet again
static cudaGraph_t capture(uint32_t k1, uint32_t k2, int source, int target)
{
    cudaEvent_t forked, joined; CK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CK(cudaMemcpyAsync(A, in[source], N * 4, cudaMemcpyHostToDevice, s));
    CK(cudaEventRecord(forked, s)); CK(cudaStreamWaitEvent(t, forked, 0));
    scale<<<(N + 255) / 256, 256, 0, s>>>(B, A, N, k1);
    scale<<<(N + 127) / 128, 128, 0, t>>>(C, A, N, k2);
    CK(cudaMemsetAsync(tally_at, 0, sizeof tally, t));
    CK(cudaEventRecord(joined, t)); CK(cudaStreamWaitEvent(s, joined, 0));
    fold<<<(N + 255) / 256, 256, 0, s>>>(D, B, C, N);
    CK(cudaMemcpyAsync(E, D, N * 4, cudaMemcpyDeviceToDevice, s));
    count<<<(N + 255) / 256, 256, 0, s>>>(E, N);
    CK(cudaMemcpyFromSymbolAsync(counts[target], tally, sizeof tally, 0, cudaMemcpyDeviceToHost, s));
    CK(cudaMemcpyAsync(out[target], E, N * 4, cudaMemcpyDeviceToHost, s));
    cudaGraph_t graph; CK(cudaStreamEndCapture(s, &graph));
    CK(cudaEventDestroy(forked)); CK(cudaEventDestroy(joined));
    return graph;
}
struct Anatomy {
    std::vector<cudaGraphNode_t> nodes, roots, scales, copies;
    cudaGraphNode_t fold_node = nullptr, count_node = nullptr, inner_copy = nullptr, up = nullptr, down = nullptr, tally_down = nullptr;
    std::map<int, int> kinds;
    size_t edges = 0;
    explicit Anatomy(cudaGraph_t g)
    {
        size_t n = 0; CK(cudaGraphGetNodes(g, nullptr, &n)); nodes.resize(n); CK(cudaGraphGetNodes(g, nodes.data(), &n));
        CK(cudaGraphGetRootNodes(g, nullptr, &n)); roots.resize(n); CK(cudaGraphGetRootNodes(g, roots.data(), &n));
        CK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
        for (cudaGraphNode_t node : nodes) {
            cudaGraphNodeType type; CK(cudaGraphNodeGetType(node, &type)); kinds[type]++;
            if (type == cudaGraphNodeTypeKernel) {
                cudaKernelNodeParams p; CK(cudaGraphKernelNodeGetParams(node, &p));
                if (p.func == (void *)scale) scales.push_back(node);
                if (p.func == (void *)fold) fold_node = node;
                if (p.func == (void *)count) count_node = node;
            } else if (type == cudaGraphNodeTypeMemcpy) {
                cudaMemcpy3DParms p; CK(cudaGraphMemcpyNodeGetParams(node, &p)); copies.push_back(node);
                if (p.dstPtr.ptr == A) up = node;
                else if (p.dstPtr.ptr == E && p.srcPtr.ptr == D) inner_copy = node;
                else if (p.srcPtr.ptr == E) down = node;
                else if (p.srcPtr.ptr == tally_at) tally_down = node;
            }
        }
    }
    bool whole() const { return scales.size() >= 2 && fold_node && count_node && inner_copy && up && down && tally_down; }
};
// Patches one parameter of a kernel node, from what the node itself says of the others
static cudaKernelNodeParams patched(cudaGraphNode_t node, uint32_t k, uint32_t **o, const uint32_t **i, int *n, uint32_t *kept, void **args)
{
    cudaKernelNodeParams p; CK(cudaGraphKernelNodeGetParams(node, &p));
    *o = *(uint32_t **)p.kernelParams[0]; *i = *(const uint32_t **)p.kernelParams[1]; *n = *(int *)p.kernelParams[2]; *kept = k;
    args[0] = o; args[1] = i; args[2] = n; args[3] = kept; p.kernelParams = args;
    return p;
}
static bool writes_to(cudaGraphNode_t node, const uint32_t *where)
{
    cudaKernelNodeParams p; CK(cudaGraphKernelNodeGetParams(node, &p)); return *(uint32_t **)p.kernelParams[0] == where;
}
int main()
{
    CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    for (uint32_t **p : {&A, &B, &C, &D, &E}) CK(cudaMalloc(p, N * 4));
    CK(cudaGetSymbolAddress((void **)&tally_at, tally));
    for (int j = 0; j < SLOTS; j++) {
        CK(cudaMallocHost(&in[j], N * 4)); CK(cudaMallocHost(&out[j], N * 4)); CK(cudaMallocHost(&counts[j], 256)); CK(cudaMallocHost(&table[j], 64));
        for (int i = 0; i < N; i++) in[j][i] = mix(i, 77 + j);
        for (int i = 0; i < 16; i++) table[j][i] = mix(i, 1000 + j);
    }
    CK(cudaMemcpyToSymbol(coefficients, table[0], 64)); CK(cudaDeviceSynchronize());
    cudaGraph_t graph = capture(11, 22, 0, 0);
    Anatomy a(graph);
    printf("captured: %zu nodes (%d kernels, %d copies, %d memsets), %zu edges, %zu roots\n", a.nodes.size(), a.kinds[cudaGraphNodeTypeKernel],
           a.kinds[cudaGraphNodeTypeMemcpy], a.kinds[cudaGraphNodeTypeMemset], a.edges, a.roots.size());
    if (!a.whole()) { printf("a part of the graph was not recognised\n"); return 1; }
    cudaGraphNode_t first = writes_to(a.scales[0], B) ? a.scales[0] : a.scales[1], second = first == a.scales[0] ? a.scales[1] : a.scales[0];
    // 1. The executable graph is patched: constants of kernels, places of copies
    cudaGraphExec_t exec; CK(cudaGraphInstantiate(&exec, graph, 0));
    uint32_t *o, k; const uint32_t *i; int n; void *args[4];
    for (int round = 0; round < 9; round++) {
        int from = round % SLOTS, to = (round * 2 + 1) % SLOTS;
        cudaKernelNodeParams p = patched(first, 100 + round, &o, &i, &n, &k, args); CK(cudaGraphExecKernelNodeSetParams(exec, first, &p));
        p = patched(second, 200 + round, &o, &i, &n, &k, args); p.blockDim.x = 256; p.gridDim.x = (N + 255) / 256;
        CK(cudaGraphExecKernelNodeSetParams(exec, second, &p));
        CK(cudaGraphExecMemcpyNodeSetParams1D(exec, a.up, A, in[from], N * 4, cudaMemcpyHostToDevice));
        CK(cudaGraphExecMemcpyNodeSetParams1D(exec, a.down, out[to], E, N * 4, cudaMemcpyDeviceToHost));
        CK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, a.tally_down, counts[to], tally, sizeof tally, 0, cudaMemcpyDeviceToHost));
        CK(cudaGraphLaunch(exec, s)); CK(cudaStreamSynchronize(s));
        check("patched executable", round, from, to, 0, 100 + round, 200 + round, 0);
        in[from][round * 31] ^= round;                          // the slot's owner writes it again, as soon as it is free
    }
    // 2. The graph itself is patched, in a clone: the original stays as it was
    cudaGraph_t clone; CK(cudaGraphClone(&clone, graph));
    cudaGraphNode_t first_c, up_c, down_c, tally_c, fold_c, copy_c;
    CK(cudaGraphNodeFindInClone(&first_c, first, clone)); CK(cudaGraphNodeFindInClone(&up_c, a.up, clone));
    CK(cudaGraphNodeFindInClone(&down_c, a.down, clone));
    CK(cudaGraphNodeFindInClone(&tally_c, a.tally_down, clone)); CK(cudaGraphNodeFindInClone(&fold_c, a.fold_node, clone));
    CK(cudaGraphNodeFindInClone(&copy_c, a.inner_copy, clone));
    cudaKernelNodeParams p = patched(first_c, 5, &o, &i, &n, &k, args); CK(cudaGraphKernelNodeSetParams(first_c, &p));
    cudaMemcpy3DParms m; CK(cudaGraphMemcpyNodeGetParams(up_c, &m)); m.srcPtr.ptr = in[1]; CK(cudaGraphMemcpyNodeSetParams(up_c, &m));
    CK(cudaGraphMemcpyNodeSetParams1D(down_c, out[2], E, N * 4, cudaMemcpyDeviceToHost));
    CK(cudaGraphMemcpyNodeSetParamsFromSymbol(tally_c, counts[2], tally, sizeof tally, 0, cudaMemcpyDeviceToHost));
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphInstantiate(&exec, graph, 0));
    cudaGraphExec_t exec_c; CK(cudaGraphInstantiate(&exec_c, clone, 0));
    CK(cudaGraphLaunch(exec, s)); CK(cudaGraphLaunch(exec_c, s)); CK(cudaStreamSynchronize(s));
    check("original", 0, 0, 0, 0, 11, 22, 0); check("clone", 0, 1, 2, 0, 5, 22, 0);
    CK(cudaGraphExecDestroy(exec_c));
    // 3. Cut between the sum and its copy: a rotation goes between, and the coefficients come by a copy to a symbol, before everything else
    CK(cudaGraphRemoveDependencies(clone, &fold_c, &copy_c, nullptr, 1));
    cudaGraphNode_t rotation, coef_node;
    cudaGraphNodeParams q = {cudaGraphNodeTypeKernel};
    int bits = 7, length = N; void *rotate_args[] = {&D, &length, &bits};
    q.kernel.func = (void *)rotate; q.kernel.gridDim = dim3((N + 255) / 256); q.kernel.blockDim = dim3(256); q.kernel.kernelParams = rotate_args;
    CK(cudaGraphAddNode(&rotation, clone, &fold_c, nullptr, 1, &q));
    CK(cudaGraphAddDependencies(clone, &rotation, &copy_c, nullptr, 1));
    CK(cudaGraphAddMemcpyNodeToSymbol(&coef_node, clone, nullptr, 0, coefficients, table[1], 64, 0, cudaMemcpyHostToDevice));
    CK(cudaGraphAddDependencies(clone, &coef_node, &up_c, nullptr, 1));
    CK(cudaGraphInstantiate(&exec_c, clone, 0));
    for (int round = 0; round < 6; round++) {
        bits = 3 + round;
        CK(cudaGraphExecNodeSetParams(exec_c, rotation, &q));
        CK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec_c, coef_node, coefficients, table[round % SLOTS], 64, 0, cudaMemcpyHostToDevice));
        CK(cudaGraphLaunch(exec_c, t)); CK(cudaStreamSynchronize(t));
        check("cut open", round, 1, 2, round % SLOTS, 5, 22, bits);
        table[round % SLOTS][round] += 3;
    }
    // 4. Captured work is appended after the copy back to E: it changes E once more, before the last copy takes it; then the owner's fresh
    //    captures bring the executable original up to date
    cudaGraphNode_t count_c; CK(cudaGraphNodeFindInClone(&count_c, a.count_node, clone));
    CK(cudaGraphRemoveDependencies(clone, &tally_c, &down_c, nullptr, 1));
    CK(cudaStreamBeginCaptureToGraph(t, clone, &tally_c, nullptr, 1, cudaStreamCaptureModeRelaxed));
    scale<<<(N + 255) / 256, 256, 0, t>>>(E, E, N, 99);
    cudaStreamCaptureStatus status; const cudaGraphNode_t *last; const cudaGraphEdgeData *data; size_t last_n;
    CK(cudaStreamGetCaptureInfo(t, &status, nullptr, nullptr, &last, &data, &last_n));
    CK(cudaGraphAddDependencies(clone, last, &down_c, nullptr, 1));
    CK(cudaStreamUpdateCaptureDependencies(t, &down_c, nullptr, 1, cudaStreamSetCaptureDependencies));
    cudaGraph_t same; CK(cudaStreamEndCapture(t, &same));
    CK(cudaGraphExecDestroy(exec_c)); CK(cudaGraphInstantiate(&exec_c, clone, 0));
    bits = 7;                                                   // the nodes of the graph still have what they were given when added
    for (int round = 0; round < 4; round++) {
        CK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec_c, coef_node, coefficients, table[(round + 1) % SLOTS], 64, 0, cudaMemcpyHostToDevice));
        CK(cudaGraphLaunch(exec_c, t)); CK(cudaStreamSynchronize(t));
        check("appended", round, 1, 2, (round + 1) % SLOTS, 5, 22, 7, 99);
        cudaGraph_t fresh = capture(300 + round, 400 + round, round % SLOTS, 1);
        cudaGraphExecUpdateResultInfo info; CK(cudaGraphExecUpdate(exec, fresh, &info));
        CK(cudaGraphDestroy(fresh));
        CK(cudaGraphLaunch(exec, t)); CK(cudaStreamSynchronize(t));
        check("updated", round, round % SLOTS, 1, (round + 1) % SLOTS, 300 + round, 400 + round, 0);
        in[round % SLOTS][round] += 17;
    }
    cudaGraphExecUpdateResultInfo info;
    cudaError_t refused = cudaGraphExecUpdate(exec, clone, &info); cudaGetLastError();
    printf("clone has %zu nodes now, update with it %s\n", Anatomy(clone).nodes.size(), refused == cudaErrorGraphExecUpdateFailure ? "refused" : "?");
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphExecDestroy(exec_c)); CK(cudaGraphDestroy(clone)); CK(cudaGraphDestroy(graph));
    printf("graphsurgery: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
