// nvcc: -rdc=true -lcudadevrt
// Work that the GPU makes for itself: a quicksort that launches its halves and a tail launch that looks at the result, tables of
// function pointers (one of them filled by the CPU), recursion with another stack size, and trees kept in the device's heap
// from one kernel to the next.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }

// 1. Quicksort; a block partitions with counters in shared memory, the halves are children.
constexpr int SORTED = 20000, LEAF = 512, DEEPEST = 18;
__device__ unsigned int launches;
__global__ void enough() { launches = launches >= 8; }
__device__ void sift(uint32_t *p, int at, int n) {
    for (;;) { int c = 2 * at + 1; if (c >= n) return; if (c + 1 < n && p[c + 1] > p[c]) c++; if (p[at] >= p[c]) return; uint32_t t = p[at]; p[at] = p[c]; p[c] = t; at = c; }
}
__global__ void sort_leaf(uint32_t *p, int n) {
    __shared__ uint32_t s[LEAF];
    if (n > LEAF) {                                         // too deep: one thread's heapsort
        if (threadIdx.x == 0) { for (int i = n / 2 - 1; i >= 0; i--) sift(p, i, n); for (int i = n - 1; i > 0; i--) { uint32_t t = p[0]; p[0] = p[i]; p[i] = t; sift(p, 0, i); } }
        return;
    }
    for (int i = threadIdx.x; i < LEAF; i += blockDim.x) s[i] = i < n ? p[i] : 0xffffffffu;
    __syncthreads();
    for (int k = 2; k <= LEAF; k *= 2) for (int j = k / 2; j; j /= 2) {
        for (int i = threadIdx.x; i < LEAF; i += blockDim.x) {
            int o = i ^ j;
            if (o > i && ((i & k) == 0) == (s[i] > s[o])) { uint32_t t = s[i]; s[i] = s[o]; s[o] = t; }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = s[i];
}
__global__ void sort_part(uint32_t *p, uint32_t *other, int n, int depth) {
    __shared__ int low, equal, high; __shared__ uint32_t pivot;
    if (threadIdx.x == 0) {
        uint32_t a = p[0], b = p[n / 2], c = p[n - 1];
        pivot = max(min(a, b), min(max(a, b), c)); low = equal = high = 0;
        atomicAdd(&launches, 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) { uint32_t v = p[i]; if (v < pivot) other[atomicAdd(&low, 1)] = v; else if (v > pivot) other[n - 1 - atomicAdd(&high, 1)] = v; else atomicAdd(&equal, 1); }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = i < low ? other[i] : i < low + equal ? pivot : other[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x) return;
    int starts[2] = {0, low + equal}, sizes[2] = {low, high};
    for (int h = 0; h < 2; h++) {
        if (sizes[h] < 2) continue;
        uint32_t *q = p + starts[h];
        if (sizes[h] <= LEAF || depth >= DEEPEST) sort_leaf<<<1, 128, 0, cudaStreamFireAndForget>>>(q, sizes[h]);
        else sort_part<<<1, 256, 0, cudaStreamFireAndForget>>>(q, other + starts[h], sizes[h], depth + 1);
    }
}
__global__ void look(const uint32_t *p, int n, uint32_t *bad, unsigned long long *total) {
    unsigned long long t = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { t += (unsigned long long)p[i] * (i + 1); if (i && p[i - 1] > p[i]) atomicAdd(bad, 1); }
    atomicAdd(total, t);
}
__global__ void sort_all(uint32_t *p, uint32_t *other, int n, uint32_t *bad, unsigned long long *total) {
    sort_part<<<1, 256, 0, cudaStreamFireAndForget>>>(p, other, n, 0);
    look<<<8, 128, 0, cudaStreamTailLaunch>>>(p, n, bad, total);         // when this grid and all its children are done
}

// 2. Tables of function pointers, and recursion through them.
typedef uint32_t (*Operation)(uint32_t, uint32_t);
__device__ uint32_t op_add(uint32_t a, uint32_t b) { return a + b * 3; }
__device__ uint32_t op_xor(uint32_t a, uint32_t b) { return (a ^ b) * 5 + 1; }
__device__ uint32_t op_mul(uint32_t a, uint32_t b) { return a * (b | 1) + 7; }
__device__ __noinline__ uint32_t op_descend(uint32_t a, uint32_t b);
__device__ Operation table[4] = {op_add, op_xor, op_mul, op_descend};
__device__ Operation chosen[4];                             // filled by the CPU
__device__ __noinline__ uint32_t op_descend(uint32_t a, uint32_t b) { return b % 16 == 0 ? a : table[a % 4](a * 9 + 1, (b - 1) % 16) + b; }
__device__ __noinline__ uint32_t choose(int n, int k) { return k == 0 || k == n ? 1 : choose(n - 1, k - 1) + choose(n - 1, k); }
__global__ void calculate(uint32_t *out, int n, int turn, Operation given) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t v = mix(i + turn);
    for (int k = 0; k < 6; k++) v = (k % 2 ? table : chosen)[(v + k) % 4](v, i + k);
    out[i] = given(v, choose(6 + i % 9, i % 7)) ;
}
static uint32_t host_op(int which, uint32_t a, uint32_t b) {
    switch (which) {
        case 0: return a + b * 3; case 1: return (a ^ b) * 5 + 1; case 2: return a * (b | 1) + 7;
        default: return b % 16 == 0 ? a : host_op(a % 4, a * 9 + 1, (b - 1) % 16) + b;
    }
}
static uint32_t host_choose(int n, int k) { return k == 0 || k == n ? 1 : host_choose(n - 1, k - 1) + host_choose(n - 1, k); }

// 3. Trees in the heap of the device.
struct Node { uint32_t key, count; Node *left, *right; };
__device__ Node *roots[512]; __device__ uint32_t failures;
__global__ void grow(int trees, int turn) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= trees) return;
    for (int i = 0; i < 20 + t % 11; i++) {
        uint32_t key = mix(t * 1000 + turn * 37 + i) % 50; Node **at = &roots[t];
        while (*at && (*at)->key != key) at = key < (*at)->key ? &(*at)->left : &(*at)->right;
        if (*at) { (*at)->count++; continue; }
        Node *n = (Node *)malloc(sizeof(Node));
        if (!n) { atomicAdd(&failures, 1); continue; }
        n->key = key; n->count = 1; n->left = n->right = nullptr; *at = n;
    }
}
__device__ __noinline__ uint32_t visit(const Node *n, uint32_t so_far) { return !n ? so_far : visit(n->right, visit(n->left, so_far) * 31 + n->key * 7 + n->count); }
__global__ void visit_all(uint32_t *out, int trees) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < trees) out[t] = visit(roots[t], t); }
__device__ __noinline__ void fell(Node *n) { if (!n) return; fell(n->left); fell(n->right); free(n); }
__global__ void fell_all(int trees) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < trees) { fell(roots[t]); roots[t] = nullptr; } }

int main() {
    CK(cudaSetDevice(0));
    size_t value, before; CK(cudaDeviceGetLimit(&before, cudaLimitStackSize));
    CK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24u << 20));
    CK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 4096));
    CK(cudaDeviceSetLimit(cudaLimitStackSize, 3072));
    CK(cudaDeviceGetLimit(&value, cudaLimitStackSize)); wrong += value < 3072;
    CK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize)); wrong += value < (24u << 20);
    cudaStream_t streams[2]; for (auto &s : streams) CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));

    struct Sorter { uint32_t *p, *other, *bad; unsigned long long *total; std::vector<uint32_t> host; } sorters[2];
    for (int k = 0; k < 2; k++) {
        Sorter &x = sorters[k];
        CK(cudaMalloc(&x.p, SORTED * 4)); CK(cudaMalloc(&x.other, SORTED * 4)); CK(cudaMalloc(&x.bad, 4)); CK(cudaMalloc(&x.total, 8));
    }
    unsigned zero = 0; CK(cudaMemcpyToSymbol(launches, &zero, 4));
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < 2; k++) {
            Sorter &x = sorters[k]; cudaStream_t s = streams[k];
            x.host.resize(SORTED - round * 777);
            for (size_t i = 0; i < x.host.size(); i++) x.host[i] = round == 3 ? (uint32_t)i * (k + 1) : round == 2 ? mix(i + k) % 300 : mix(i * 7 + k + round);
            CK(cudaMemcpyAsync(x.p, x.host.data(), x.host.size() * 4, cudaMemcpyHostToDevice, s));
            CK(cudaMemsetAsync(x.bad, 0, 4, s)); CK(cudaMemsetAsync(x.total, 0, 8, s));
            sort_all<<<1, 1, 0, s>>>(x.p, x.other, (int)x.host.size(), x.bad, x.total);
            CK(cudaGetLastError());
        }
        for (int k = 0; k < 2; k++) {
            Sorter &x = sorters[k]; std::vector<uint32_t> got(x.host.size()); uint32_t bad; unsigned long long total, expected = 0;
            CK(cudaMemcpyAsync(got.data(), x.p, got.size() * 4, cudaMemcpyDeviceToHost, streams[k]));
            CK(cudaMemcpyAsync(&bad, x.bad, 4, cudaMemcpyDeviceToHost, streams[k])); CK(cudaMemcpyAsync(&total, x.total, 8, cudaMemcpyDeviceToHost, streams[k]));
            CK(cudaStreamSynchronize(streams[k]));
            std::sort(x.host.begin(), x.host.end());
            for (size_t i = 0; i < got.size(); i++) expected += (unsigned long long)x.host[i] * (i + 1);
            wrong += got != x.host; wrong += bad != 0; wrong += total != expected; fold(total);
        }
    }
    // How many depends on pivots that atomics chose.
    enough<<<1, 1>>>(); CK(cudaMemcpyFromSymbol(&zero, launches, 4)); wrong += zero != 1;
    for (auto &x : sorters) { CK(cudaFree(x.p)); CK(cudaFree(x.other)); CK(cudaFree(x.bad)); CK(cudaFree(x.total)); }

    const int n = 6000; uint32_t *out; CK(cudaMalloc(&out, n * 4)); std::vector<uint32_t> got(n);
    Operation ops[4], rotated[4]; CK(cudaMemcpyFromSymbol(ops, table, sizeof ops));
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < 4; i++) rotated[i] = ops[(i + turn) % 4];
        CK(cudaMemcpyToSymbol(chosen, rotated, sizeof rotated));
        if (turn == 3) CK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
        calculate<<<(n + 127) / 128, 128>>>(out, n, turn, ops[turn % 3]);
        CK(cudaMemcpy(got.data(), out, n * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) {
            uint32_t v = mix(i + turn);
            for (int k = 0; k < 6; k++) { int w = (v + k) % 4; v = host_op(k % 2 ? w : (w + turn) % 4, v, i + k); }
            v = host_op(turn % 3, v, host_choose(6 + i % 9, i % 7));
            if (v != got[i]) { wrong++; break; }
            fold(v);
        }
    }

    const int trees = 500;
    for (int again = 0; again < 2; again++) {
        std::vector<std::vector<uint32_t>> counts(trees, std::vector<uint32_t>(50, 0));
        for (int turn = 0; turn < 4; turn++) {
            grow<<<(trees + 63) / 64, 64>>>(trees, turn + again * 9);
            visit_all<<<(trees + 127) / 128, 128>>>(out, trees);
            CK(cudaGetLastError());
            CK(cudaMemcpy(got.data(), out, trees * 4, cudaMemcpyDeviceToHost));
            for (int t = 0; t < trees; t++) {
                for (int i = 0; i < 20 + t % 11; i++) counts[t][mix(t * 1000 + (turn + again * 9) * 37 + i) % 50]++;
                uint32_t h = t; for (uint32_t k = 0; k < 50; k++) if (counts[t][k]) h = h * 31 + k * 7 + counts[t][k];
                wrong += h != got[t]; fold(h);
            }
        }
        fell_all<<<(trees + 63) / 64, 64>>>(trees);
        CK(cudaDeviceSynchronize());
    }
    uint32_t failed; CK(cudaMemcpyFromSymbol(&failed, failures, 4)); wrong += failed != 0;
    CK(cudaDeviceSetLimit(cudaLimitStackSize, before));
    CK(cudaFree(out)); for (auto s : streams) CK(cudaStreamDestroy(s));
    printf("devrecursion: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
