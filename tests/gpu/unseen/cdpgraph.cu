// Work that the GPU or a graph makes: a quicksort of many levels that ends in bitonic sorts, a quadtree with a launch for each node, curves
// divided as finely as they bend with memory from the device's heap, LU factorisations in chains of launches; graphs by the API and by capture,
// memory made and freed in graphs and what it leaves behind, an iteration with two graphs in turns, conditional nodes, updates.
// nvcc: -rdc=true -lcudadevrt
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"


// ---------------------------------------------------------------- quicksort
#define SORT_SMALL 1024
struct SortPart { unsigned below, above; unsigned done; };
__global__ void smallSort(unsigned *v, int n)
{
    __shared__ unsigned s[SORT_SMALL];
    for (int i = threadIdx.x; i < SORT_SMALL; i += blockDim.x) s[i] = i < n ? v[i] : 0xffffffff;
    for (int size = 2; size <= SORT_SMALL; size *= 2) for (int stride = size / 2; stride; stride /= 2) {
        __syncthreads();
        int t = threadIdx.x, p = 2 * t - (t & (stride - 1)); bool up = (p & size) == 0;
        unsigned a = s[p], b = s[p + stride];
        if ((a > b) == up) { s[p] = b; s[p + stride] = a; }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = s[i];
}
__global__ void quickPartition(unsigned *in, unsigned *out, int n, unsigned pivot, SortPart *part, SortPart *parts, int *nextPart, int depth);
__device__ void quickLaunch(unsigned *in, unsigned *out, int n, SortPart *parts, int *nextPart, int depth, bool inOut)
{
    // data lies in `in`; the result shall lie in the first buffer, which is `out` if inOut
    if (n <= 0) return;
    if (n <= SORT_SMALL || depth > 19) {
        if (inOut) { for (int i = 0; i < n; i++) out[i] = in[i]; in = out; }
        if (n <= SORT_SMALL) { smallSort<<<1, SORT_SMALL / 2, 0, cudaStreamFireAndForget>>>(in, n); return; }
        for (int i = 1; i < n; i++) { unsigned x = in[i]; int k = i; for (; k && in[k - 1] > x; k--) in[k] = in[k - 1]; in[k] = x; }
        return;
    }
    unsigned a = in[0], b = in[n / 2], c = in[n - 1], pivot = max(min(a, b), min(max(a, b), c));
    SortPart *part = &parts[atomicAdd(nextPart, 1)];
    part->below = part->above = part->done = 0;
    __threadfence();
    quickPartition<<<(n + 1023) / 1024, 256, 0, cudaStreamFireAndForget>>>(in, out, n, pivot, part, parts, nextPart, inOut ? -depth - 1 : depth + 1);
}
// Where a value goes within its side is left to chance; that it is sorted in the end is not
__global__ void quickPartition(unsigned *in, unsigned *out, int n, unsigned pivot, SortPart *part, SortPart *parts, int *nextPart, int depth)
{
    __shared__ bool last;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned v = in[i];
        if (v < pivot) out[atomicAdd(&part->below, 1)] = v; else if (v > pivot) out[n - 1 - atomicAdd(&part->above, 1)] = v;
    }
    __threadfence(); __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&part->done, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    unsigned below = *(volatile unsigned *)&part->below, above = *(volatile unsigned *)&part->above;
    bool inOut = depth < 0;             // the result belongs to the buffer that is now `out`
    unsigned *home = inOut ? out : in;
    for (int i = below + threadIdx.x; i < n - above; i += blockDim.x) home[i] = pivot;
    if (threadIdx.x == 0) {
        int d = abs(depth);
        quickLaunch(out, in, below, parts, nextPart, d, !inOut);
        quickLaunch(out + n - above, in + n - above, above, parts, nextPart, d, !inOut);
    }
}
__global__ void quickStart(unsigned *v, unsigned *scratch, int n, SortPart *parts, int *nextPart) { *nextPart = 0; quickLaunch(v, scratch, n, parts, nextPart, 0, false); }

// ---------------------------------------------------------------- quadtree: nodes of a complete tree; a block divides its points in four, keeping their order
struct QuadNode { float x0, y0, x1, y1; int begin, end, leaf; };
__global__ void quadDivide(QuadNode *nodes, int at, int depth, int maxDepth, int minPoints, float2 *from, float2 *to)
{
    __shared__ int counts[4][128], offsets[4], totals[4];
    at = at * 4 + (int)blockIdx.x + 1 - 4 * (gridDim.x == 1); if (gridDim.x == 1) at = 0;      // children of `at`, or the root
    QuadNode node = nodes[at]; const int n = node.end - node.begin, tid = threadIdx.x;
    if (depth >= maxDepth || n <= minPoints) {
        if (depth % 2) for (int i = node.begin + tid; i < node.end; i += blockDim.x) to[i] = from[i];   // into the first buffer
        if (tid == 0) nodes[at].leaf = 1;
        return;
    }
    const float cx = .5f * (node.x0 + node.x1), cy = .5f * (node.y0 + node.y1); const int each = (n + 127) / 128, lo = node.begin + min(tid * each, n), hi = node.begin + min((tid + 1) * each, n);
    int mine[4] = {0, 0, 0, 0};
    for (int i = lo; i < hi; i++) mine[(from[i].x >= cx) + 2 * (from[i].y >= cy)]++;
    for (int q = 0; q < 4; q++) counts[q][tid] = mine[q];
    __syncthreads();
    if (tid < 4) { int s = 0; for (int i = 0; i < 128; i++) { int c = counts[tid][i]; counts[tid][i] = s; s += c; } totals[tid] = s; }
    __syncthreads();
    if (tid == 0) { int s = node.begin; for (int q = 0; q < 4; q++) { offsets[q] = s; s += totals[q]; } }
    __syncthreads();
    for (int q = 0; q < 4; q++) mine[q] = offsets[q] + counts[q][tid];
    for (int i = lo; i < hi; i++) { float2 p = from[i]; to[mine[(p.x >= cx) + 2 * (p.y >= cy)]++] = p; }
    if (tid < 4) nodes[4 * at + 1 + tid] = {tid & 1 ? cx : node.x0, tid & 2 ? cy : node.y0, tid & 1 ? node.x1 : cx, tid & 2 ? node.y1 : cy, offsets[tid], offsets[tid] + totals[tid], 0};
    __syncthreads();
    if (tid == 0) { nodes[at].leaf = 0; __threadfence(); quadDivide<<<4, 128, 0, cudaStreamFireAndForget>>>(nodes, at, depth + 1, maxDepth, minPoints, to, from); }
}

// ---------------------------------------------------------------- curves
struct Curve { float2 p[3]; float2 *points; int count; };
__global__ void curvePoints(Curve *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= c->count) return;
    float u = i / (float)(c->count - 1), a = (1 - u) * (1 - u), b = 2 * u * (1 - u), d = u * u;
    c->points[i] = make_float2(a * c->p[0].x + b * c->p[1].x + d * c->p[2].x, a * c->p[0].y + b * c->p[1].y + d * c->p[2].y);
}
__global__ void curveParents(Curve *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float mx = c[i].p[1].x - .5f * (c[i].p[0].x + c[i].p[2].x), my = c[i].p[1].y - .5f * (c[i].p[0].y + c[i].p[2].y);
    c[i].count = min(max((int)(sqrtf(mx * mx + my * my) * 64), 4), 128);
    c[i].points = (float2 *)malloc(c[i].count * sizeof(float2));
    if (c[i].points) curvePoints<<<(c[i].count + 31) / 32, 32>>>(&c[i]);
}
__global__ void curvePack(const Curve *c, float2 *out, int *counts, int n) { for (int i = blockIdx.x; i < n; i += gridDim.x) { if (threadIdx.x == 0) counts[i] = c[i].points ? c[i].count : -1; for (int k = threadIdx.x; k < 128; k += blockDim.x) out[i * 128 + k] = c[i].points && k < c[i].count ? c[i].points[k] : make_float2(0, 0); } }
__global__ void curveFree(Curve *c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { free(c[i].points); c[i].points = NULL; } }

// ---------------------------------------------------------------- LU in chains of launches
__global__ void luPivot(const double *a, int n, int k, int *pivots) { __shared__ double best[64]; __shared__ int at[64]; int t = threadIdx.x; double b = -1; int w = k; for (int i = k + t; i < n; i += 64) if (fabs(a[i * n + k]) > b) { b = fabs(a[i * n + k]); w = i; } best[t] = b; at[t] = w; __syncthreads(); if (t == 0) { for (int i = 1; i < 64; i++) if (best[i] > b || (best[i] == b && at[i] < w)) { b = best[i]; w = at[i]; } pivots[k] = w; } }
__global__ void luSwapScale(double *a, int n, int k, const int *pivots) { int p = pivots[k]; if (p != k) for (int j = threadIdx.x; j < n; j += blockDim.x) { double t = a[k * n + j]; a[k * n + j] = a[p * n + j]; a[p * n + j] = t; } __syncthreads(); for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) a[i * n + k] = __ddiv_rn(a[i * n + k], a[k * n + k]); }
__global__ void luUpdate(double *a, int n, int k) { int j = k + 1 + blockIdx.x * blockDim.x + threadIdx.x, i = k + 1 + blockIdx.y; if (i < n && j < n) a[i * n + j] = __dsub_rn(a[i * n + j], __dmul_rn(a[i * n + k], a[k * n + j])); }
__global__ void luChain(double *a, int n, int *pivots)
{
    a += (size_t)blockIdx.x * n * n; pivots += blockIdx.x * n;
    cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int k = 0; k < n; k++) { luPivot<<<1, 64, 0, s>>>(a, n, k, pivots); luSwapScale<<<1, 128, 0, s>>>(a, n, k, pivots); if (k < n - 1) luUpdate<<<dim3((n - k + 62) / 64, n - k - 1), 64, 0, s>>>(a, n, k); }
    cudaStreamDestroy(s);
}
__global__ void nest(int depth, int most, int *counts) { if (threadIdx.x == 0) { atomicAdd(&counts[depth], 1); if (depth < most) nest<<<2, 32>>>(depth + 1, most, counts); } }

// ---------------------------------------------------------------- graphs
__global__ void partialSums(const float *in, double *out, int n) { __shared__ double s[256]; double v = 0; for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) v += in[i]; s[threadIdx.x] = v; for (int d = 128; d; d /= 2) { __syncthreads(); if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; } if (threadIdx.x == 0) out[blockIdx.x] = s[0]; }
__global__ void totalSum(const double *in, double *out, int n) { if (threadIdx.x == 0) { double s = 0; for (int i = 0; i < n; i++) s += in[i]; *out = s; } }
__global__ void jacobiStep(const float *a, const float *b, const double *x, double *next, double *change, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; double s = b[i]; for (int j = 0; j < n; j++) if (j != i) s -= (double)a[i * n + j] * x[j]; s /= a[i * n + i]; next[i] = s; change[i] = fabs(s - x[i]); }
__global__ void largest(const double *v, double *out, int n) { __shared__ double s[256]; double m = 0; for (int i = threadIdx.x; i < n; i += 256) m = fmax(m, v[i]); s[threadIdx.x] = m; for (int d = 128; d; d /= 2) { __syncthreads(); if (threadIdx.x < d) s[threadIdx.x] = fmax(s[threadIdx.x], s[threadIdx.x + d]); } if (threadIdx.x == 0) *out = s[0]; }
__global__ void fill(int *v, int n, int with) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) v[i] = with + i; }
__global__ void accumulate(int *to, const int *from, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] += from[i]; }
__global__ void countDown(cudaGraphConditionalHandle h, int *counter, int *log) { log[*counter]++; *counter -= 1; cudaGraphSetConditional(h, *counter > 0); }
__global__ void isOdd(cudaGraphConditionalHandle h, const int *v) { cudaGraphSetConditional(h, *v & 1); }
__global__ void addOne(int *v, int by) { *v += by; }
struct HostSum { double *value; double sum; int calls; };
static void CUDART_CB gather(void *p) { HostSum *h = (HostSum *)p; h->sum += *h->value; h->calls++; }
static cudaGraphNode_t addKernel(cudaGraph_t g, std::vector<cudaGraphNode_t> after, void *f, dim3 grid, dim3 block, void **args)
{
    cudaGraphNode_t node; cudaKernelNodeParams p = {0}; p.func = f; p.gridDim = grid; p.blockDim = block; p.kernelParams = args;
    checkCuda(cudaGraphAddKernelNode(&node, g, after.data(), after.size(), &p)); return node;
}
static size_t graphMemory(cudaGraphMemAttributeType a) { unsigned long long v = 0; checkCuda(cudaDeviceGetGraphMemAttribute(0, a, &v)); return v; }

int main()
{
    printf("[cdpgraph]\n");
    findDevice();
    checkCuda(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 8192)); checkCuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    {
        const int n = 200000; std::vector<unsigned> in(n), out(n); unsigned *v, *scratch; SortPart *parts; int *next; for (auto &x : in) x = nextRandom() * 251u;
        checkCuda(cudaMalloc((void **)&v, n * 4)); checkCuda(cudaMalloc((void **)&scratch, n * 4)); checkCuda(cudaMalloc((void **)&parts, 65536 * sizeof(SortPart))); checkCuda(cudaMalloc((void **)&next, 4)); checkCuda(cudaMemcpy(v, in.data(), n * 4, cudaMemcpyHostToDevice));
        quickStart<<<1, 1>>>(v, scratch, n, parts, next); checkLaunch("quickStart"); checkCuda(cudaDeviceSynchronize()); checkCuda(cudaMemcpy(out.data(), v, n * 4, cudaMemcpyDeviceToHost));
        std::sort(in.begin(), in.end()); report("quicksort that launches its halves", out == in); digest(out.data(), n * 4); cudaFree(v); cudaFree(scratch); cudaFree(parts); cudaFree(next);
    }
    {
        const int n = 20000, maxDepth = 6, minPoints = 24; int total = 0; for (int d = 0, k = 1; d <= maxDepth; d++, k *= 4) total += k; std::vector<float2> p(n), q(n); std::vector<QuadNode> nodes(total); float2 *a, *b; QuadNode *dn;
        for (auto &x : p) { float r = frand(), t = frand() * 6.28f; x = make_float2(.5f + .49f * r * r * cosf(t), .5f + .49f * r * sinf(t)); }
        nodes[0] = {0, 0, 1, 1, 0, n, 0}; for (int i = 1; i < total; i++) nodes[i] = {0, 0, 0, 0, 0, 0, -1};
        checkCuda(cudaMalloc((void **)&a, n * 8)); checkCuda(cudaMalloc((void **)&b, n * 8)); checkCuda(cudaMalloc((void **)&dn, total * sizeof(QuadNode))); checkCuda(cudaMemcpy(a, p.data(), n * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(dn, nodes.data(), total * sizeof(QuadNode), cudaMemcpyHostToDevice)); checkCuda(cudaMemset(b, 0, n * 8));
        quadDivide<<<1, 128>>>(dn, 0, 0, maxDepth, minPoints, a, b); checkLaunch("quadDivide"); checkCuda(cudaDeviceSynchronize()); checkCuda(cudaMemcpy(q.data(), a, n * 8, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(nodes.data(), dn, total * sizeof(QuadNode), cudaMemcpyDeviceToHost));
        int bad = 0, covered = 0, leaves = 0; double sumBefore = 0, sumAfter = 0;
        for (int k = 0; k < total; k++) if (nodes[k].leaf == 1) { QuadNode &m = nodes[k]; leaves++; covered += m.end - m.begin; for (int i = m.begin; i < m.end; i++) bad += !(q[i].x >= m.x0 && q[i].x <= m.x1 && q[i].y >= m.y0 && q[i].y <= m.y1); }
        for (int i = 0; i < n; i++) { sumBefore += p[i].x + 3 * p[i].y; sumAfter += q[i].x + 3 * q[i].y; }
        report("quadtree", bad == 0 && covered == n && leaves > 500 && fabs(sumBefore - sumAfter) < 1e-6 * sumBefore); digest(q.data(), n * 8); digest(nodes.data(), total * sizeof(QuadNode)); cudaFree(a); cudaFree(b); cudaFree(dn);
    }
    {
        const int n = 256; std::vector<Curve> c(n); std::vector<float2> out(n * 128); std::vector<int> counts(n); Curve *d; float2 *points; int *dc, bad = 0; memset(c.data(), 0, n * sizeof(Curve)); for (auto &k : c) for (auto &p : k.p) p = make_float2(frand() * 3, frand() * 3);
        checkCuda(cudaMalloc((void **)&d, n * sizeof(Curve))); checkCuda(cudaMalloc((void **)&points, n * 128 * 8)); checkCuda(cudaMalloc((void **)&dc, n * 4)); checkCuda(cudaMemcpy(d, c.data(), n * sizeof(Curve), cudaMemcpyHostToDevice));
        curveParents<<<n / 64, 64>>>(d, n); curvePack<<<32, 64>>>(d, points, dc, n); curveFree<<<n / 64, 64>>>(d, n); checkLaunch("curves"); checkCuda(cudaMemcpy(out.data(), points, n * 128 * 8, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(counts.data(), dc, n * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) { bad += counts[i] < 4; for (int k = 0; k < counts[i]; k++) { float u = k / (float)(counts[i] - 1); bad += fabsf(out[i * 128 + k].x - ((1 - u) * (1 - u) * c[i].p[0].x + 2 * u * (1 - u) * c[i].p[1].x + u * u * c[i].p[2].x)) > 1e-4f; } }
        report("curves in memory of the device's heap", bad == 0); digest(out.data(), n * 128 * 8); cudaFree(d); cudaFree(points); cudaFree(dc);
    }
    {
        const int n = 64, count = 8; std::vector<double> a(count * n * n), lu(a.size()); std::vector<int> pivots(count * n); double *d; int *dp; for (auto &v : a) v = frand() - .5; checkCuda(cudaMalloc((void **)&d, a.size() * 8)); checkCuda(cudaMalloc((void **)&dp, count * n * 4)); checkCuda(cudaMemcpy(d, a.data(), a.size() * 8, cudaMemcpyHostToDevice));
        luChain<<<count, 1>>>(d, n, dp); checkLaunch("luChain"); checkCuda(cudaDeviceSynchronize()); checkCuda(cudaMemcpy(lu.data(), d, a.size() * 8, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(pivots.data(), dp, count * n * 4, cudaMemcpyDeviceToHost)); double worst = 0;
        for (int m = 0; m < count; m++) { double *A = &a[m * n * n], *F = &lu[m * n * n]; for (int k = 0; k < n; k++) { int p = pivots[m * n + k]; if (p != k && p >= 0 && p < n) for (int j = 0; j < n; j++) std::swap(A[k * n + j], A[p * n + j]); } for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { double s = 0; for (int k = 0; k <= std::min(i, j); k++) s += (k == i ? 1 : F[i * n + k]) * F[k * n + j]; worst = fmax(worst, fabs(s - A[i * n + j])); } }
        report("LU factorisations in chains of launches", worst < 1e-10); digest(lu.data(), lu.size() * 8); digest(pivots.data(), count * n * 4); cudaFree(d); cudaFree(dp);
        int *counts, h[8]; checkCuda(cudaMalloc((void **)&counts, 32)); checkCuda(cudaMemset(counts, 0, 32)); nest<<<2, 32>>>(0, 5, counts); checkLaunch("nest"); checkCuda(cudaMemcpy(h, counts, 32, cudaMemcpyDeviceToHost)); bool ok = true; for (int k = 0; k < 8; k++) ok &= h[k] == (k <= 5 ? 2 << k : 0); report("nested launches", ok); digest(h, 32); cudaFree(counts);
    }
    cudaStream_t stream; checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {   // the same sum: nodes by the API, and captured from three streams
        const int n = 1 << 20, blocks = 64; float *pinned, *in; double *parts, *sum, value = 0, want = 0; checkCuda(cudaMallocHost((void **)&pinned, n * 4)); checkCuda(cudaMalloc((void **)&in, n * 4)); checkCuda(cudaMalloc((void **)&parts, blocks * 8)); checkCuda(cudaMalloc((void **)&sum, 8)); for (int i = 0; i < n; i++) { pinned[i] = frand(); want += pinned[i]; }
        for (int way = 0; way < 2; way++) {
            cudaGraph_t g, clone; cudaGraphExec_t exec, cloned; HostSum h = {&value, 0, 0}; size_t count = 0; int size = n, b = blocks; cudaGraphNode_t unused;
            if (way == 0) {
                checkCuda(cudaGraphCreate(&g, 0)); cudaGraphNode_t copy, clear, clear2, back, host; cudaMemcpy3DParms c = {0}; c.srcPtr = make_cudaPitchedPtr(pinned, n * 4, n, 1); c.dstPtr = make_cudaPitchedPtr(in, n * 4, n, 1); c.extent = make_cudaExtent(n * 4, 1, 1); c.kind = cudaMemcpyHostToDevice; checkCuda(cudaGraphAddMemcpyNode(&copy, g, NULL, 0, &c));
                cudaMemsetParams m = {0}; m.dst = parts; m.elementSize = 4; m.width = blocks * 2; m.height = 1; checkCuda(cudaGraphAddMemsetNode(&clear, g, NULL, 0, &m)); m.dst = sum; m.width = 2; checkCuda(cudaGraphAddMemsetNode(&clear2, g, NULL, 0, &m));
                void *a1[] = {&in, &parts, &size}, *a2[] = {&parts, &sum, &b}; cudaGraphNode_t k1 = addKernel(g, {copy, clear}, (void *)partialSums, dim3(blocks), dim3(256), a1), k2 = addKernel(g, {k1, clear2}, (void *)totalSum, dim3(1), dim3(32), a2);
                checkCuda(cudaGraphAddMemcpyNode1D(&back, g, &k2, 1, &value, sum, 8, cudaMemcpyDeviceToHost)); cudaHostNodeParams hp = {gather, &h}; checkCuda(cudaGraphAddHostNode(&host, g, &back, 1, &hp));
            } else {
                cudaStream_t s2, s3; cudaEvent_t fork, e2, e3; checkCuda(cudaStreamCreate(&s2)); checkCuda(cudaStreamCreate(&s3)); checkCuda(cudaEventCreate(&fork)); checkCuda(cudaEventCreate(&e2)); checkCuda(cudaEventCreate(&e3));
                checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); checkCuda(cudaEventRecord(fork, stream)); checkCuda(cudaStreamWaitEvent(s2, fork, 0)); checkCuda(cudaStreamWaitEvent(s3, fork, 0));
                checkCuda(cudaMemcpyAsync(in, pinned, n * 4, cudaMemcpyDefault, stream)); checkCuda(cudaMemsetAsync(parts, 0, blocks * 8, s2)); checkCuda(cudaEventRecord(e2, s2)); checkCuda(cudaMemsetAsync(sum, 0, 8, s3)); checkCuda(cudaEventRecord(e3, s3)); checkCuda(cudaStreamWaitEvent(stream, e2, 0)); partialSums<<<blocks, 256, 0, stream>>>(in, parts, n); checkCuda(cudaStreamWaitEvent(stream, e3, 0)); totalSum<<<1, 32, 0, stream>>>(parts, sum, blocks); checkCuda(cudaMemcpyAsync(&value, sum, 8, cudaMemcpyDefault, stream)); checkCuda(cudaLaunchHostFunc(stream, gather, &h)); checkCuda(cudaStreamEndCapture(stream, &g));
                checkCuda(cudaStreamDestroy(s2)); checkCuda(cudaStreamDestroy(s3)); checkCuda(cudaEventDestroy(fork)); checkCuda(cudaEventDestroy(e2)); checkCuda(cudaEventDestroy(e3));
            }
            checkCuda(cudaGraphGetNodes(g, NULL, &count)); checkCuda(cudaGraphClone(&clone, g)); checkCuda(cudaGraphInstantiate(&exec, g, 0)); checkCuda(cudaGraphInstantiate(&cloned, clone, 0));
            for (int i = 0; i < 3; i++) { checkCuda(cudaGraphLaunch(exec, stream)); checkCuda(cudaGraphLaunch(cloned, stream)); } checkCuda(cudaStreamSynchronize(stream));
            report(way ? "graph captured" : "graph by nodes", count == 7 && h.calls == 6 && fabs(h.sum / 6 - want) < 1e-6 * want); digest(&value, 8);
            checkCuda(cudaGraphExecDestroy(exec)); checkCuda(cudaGraphExecDestroy(cloned)); checkCuda(cudaGraphDestroy(clone)); checkCuda(cudaGraphDestroy(g));
        }
        cudaFreeHost(pinned); cudaFree(in); cudaFree(parts); cudaFree(sum);
    }
    {   // memory of graphs: sizes that share, kept by one graph for another, what stays and is given back
        const int n = 1 << 20; cudaGraphExec_t execs[4]; std::vector<int> out(n); int *result; bool ok = true; checkCuda(cudaMalloc((void **)&result, n * 4)); checkCuda(cudaMemset(result, 0, n * 4)); checkCuda(cudaDeviceSynchronize());
        for (int k = 0; k < 4; k++) {
            cudaGraph_t g; checkCuda(cudaGraphCreate(&g, 0)); cudaMemAllocNodeParams p; memset(&p, 0, sizeof p); p.poolProps.allocType = cudaMemAllocationTypePinned; p.poolProps.location.type = cudaMemLocationTypeDevice; p.poolProps.location.id = 0; p.bytesize = n * 4; cudaGraphNode_t alloc, release; checkCuda(cudaGraphAddMemAllocNode(&alloc, g, NULL, 0, &p));
            int *m = (int *)p.dptr, size = n, with = k * 1000; void *a1[] = {&m, &size, &with}, *a2[] = {&result, &m, &size}; cudaGraphNode_t f = addKernel(g, {alloc}, (void *)fill, dim3(n / 256), dim3(256), a1), s = addKernel(g, {f}, (void *)accumulate, dim3(n / 256), dim3(256), a2); checkCuda(cudaGraphAddMemFreeNode(&release, g, &s, 1, m)); checkCuda(cudaGraphInstantiate(&execs[k], g, 0)); checkCuda(cudaGraphDestroy(g));
        }
        for (int r = 0; r < 3; r++) for (auto e : execs) checkCuda(cudaGraphLaunch(e, stream)); checkCuda(cudaStreamSynchronize(stream));
        size_t reserved = graphMemory(cudaGraphMemAttrReservedMemCurrent); ok &= reserved >= n * 4;
        // captured, freed outside of the graph
        cudaGraph_t g; cudaGraphExec_t e; int *outside; checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); checkCuda(cudaMallocAsync((void **)&outside, n * 4, stream)); fill<<<n / 256, 256, 0, stream>>>(outside, n, 7); checkCuda(cudaStreamEndCapture(stream, &g)); checkCuda(cudaGraphInstantiate(&e, g, 0)); checkCuda(cudaGraphLaunch(e, stream)); accumulate<<<n / 256, 256, 0, stream>>>(result, outside, n); checkCuda(cudaFreeAsync(outside, stream)); checkCuda(cudaStreamSynchronize(stream)); checkCuda(cudaGraphExecDestroy(e)); checkCuda(cudaGraphDestroy(g));
        checkCuda(cudaMemcpy(out.data(), result, n * 4, cudaMemcpyDeviceToHost)); for (int i = 0; i < n; i++) ok &= out[i] == 3 * (6000 + 4 * i) + 7 + i;
        for (auto x : execs) checkCuda(cudaGraphExecDestroy(x)); checkCuda(cudaDeviceGraphMemTrim(0)); report("memory of graphs", ok && graphMemory(cudaGraphMemAttrReservedMemCurrent) <= reserved); digest(out.data(), n * 4); cudaFree(result);
    }
    {   // Jacobi: a graph updated for each step
        const int n = 384; std::vector<float> a(n * n), b(n); std::vector<double> x(n); float *da, *db; double *x0, *x1, *change, *most, h; for (int i = 0; i < n; i++) { b[i] = frand(); for (int j = 0; j < n; j++) a[i * n + j] = i == j ? n : frand() - .5f; }
        checkCuda(cudaMalloc((void **)&da, n * n * 4)); checkCuda(cudaMalloc((void **)&db, n * 4)); for (double **p : {&x0, &x1, &change, &most}) { checkCuda(cudaMalloc((void **)p, n * 8)); checkCuda(cudaMemset(*p, 0, n * 8)); } checkCuda(cudaMemcpy(da, a.data(), n * n * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyHostToDevice)); checkCuda(cudaDeviceSynchronize());
        cudaGraphExec_t exec = NULL; int steps = 0, fresh = 0;
        do {
            cudaGraph_t g; checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); jacobiStep<<<n / 64, 64, 0, stream>>>(da, db, steps % 2 ? x1 : x0, steps % 2 ? x0 : x1, change, n); largest<<<1, 256, 0, stream>>>(change, most, n); checkCuda(cudaMemcpyAsync(&h, most, 8, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamEndCapture(stream, &g));
            cudaGraphExecUpdateResultInfo info; if (exec && cudaGraphExecUpdate(exec, g, &info) != cudaSuccess) { cudaGetLastError(); checkCuda(cudaGraphExecDestroy(exec)); exec = NULL; } if (!exec) { checkCuda(cudaGraphInstantiate(&exec, g, 0)); fresh++; } checkCuda(cudaGraphDestroy(g)); checkCuda(cudaGraphLaunch(exec, stream)); checkCuda(cudaStreamSynchronize(stream)); steps++;
        } while (h > 1e-12 && steps < 200);
        checkCuda(cudaMemcpy(x.data(), steps % 2 ? x1 : x0, n * 8, cudaMemcpyDeviceToHost)); double worst = 0; for (int i = 0; i < n; i++) { double s = b[i]; for (int j = 0; j < n; j++) s -= (double)a[i * n + j] * x[j]; worst = fmax(worst, fabs(s)); }
        printf("  %d steps\n", steps); report("Jacobi by a graph that is updated", worst < 1e-8 && fresh == 1); digest(x.data(), n * 8); checkCuda(cudaGraphExecDestroy(exec)); cudaFree(da); cudaFree(db); cudaFree(x0); cudaFree(x1); cudaFree(change); cudaFree(most);
    }
    {   // conditional nodes: while a counter is above zero, and within it an if
        cudaGraph_t g; cudaGraphExec_t exec; cudaGraphConditionalHandle hw, hi; int *v, h[16]; checkCuda(cudaMalloc((void **)&v, 64)); checkCuda(cudaMemset(v, 0, 64)); checkCuda(cudaDeviceSynchronize()); int *counter = v, *odd = v + 1, *log = v + 4; checkCuda(cudaGraphCreate(&g, 0)); checkCuda(cudaGraphConditionalHandleCreate(&hw, g, 1, cudaGraphCondAssignDefault));
        cudaGraphNode_t start, loop, branch; int by = 9; void *a1[] = {&counter, &by}; start = addKernel(g, {}, (void *)addOne, dim3(1), dim3(1), a1); cudaGraphNodeParams p = {cudaGraphNodeTypeConditional}; p.conditional.handle = hw; p.conditional.type = cudaGraphCondTypeWhile; p.conditional.size = 1; checkCuda(cudaGraphAddNode(&loop, g, &start, NULL, 1, &p)); cudaGraph_t body = p.conditional.phGraph_out[0];
        checkCuda(cudaGraphConditionalHandleCreate(&hi, body, 0, cudaGraphCondAssignDefault)); void *a2[] = {&hi, &counter}; cudaGraphNode_t test = addKernel(body, {}, (void *)isOdd, dim3(1), dim3(1), a2); p = cudaGraphNodeParams{cudaGraphNodeTypeConditional}; p.conditional.handle = hi; p.conditional.type = cudaGraphCondTypeIf; p.conditional.size = 1; checkCuda(cudaGraphAddNode(&branch, body, &test, NULL, 1, &p)); int one = 1; void *a3[] = {&odd, &one}; addKernel(p.conditional.phGraph_out[0], {}, (void *)addOne, dim3(1), dim3(1), a3); void *a4[] = {&hw, &counter, &log}; addKernel(body, {branch}, (void *)countDown, dim3(1), dim3(1), a4);
        checkCuda(cudaGraphInstantiate(&exec, g, 0)); for (int i = 0; i < 4; i++) checkCuda(cudaGraphLaunch(exec, stream)); checkCuda(cudaStreamSynchronize(stream)); checkCuda(cudaMemcpy(h, v, 64, cudaMemcpyDeviceToHost)); bool ok = h[0] == 0 && h[1] == 4 * 5; for (int k = 1; k <= 9; k++) ok &= h[4 + k] == 4; report("conditional nodes", ok); digest(h, 64); checkCuda(cudaGraphExecDestroy(exec)); checkCuda(cudaGraphDestroy(g)); cudaFree(v);
    }
    checkCuda(cudaStreamDestroy(stream));
    FINISH("cdpgraph");
}
