// Matrices and templates: eigenvalues of a tridiagonal matrix by bisection, transposes of every kind, products (tiles, cuBLAS, batches),
// kernels templated over types with extern shared memory, occupancy asked for, interval arithmetic that finds roots, alignment of types.
// nvcc: -lcublas
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cublas_v2.h>

// ---------------------------------------------------------------- eigenvalues
__host__ __device__ inline int countBelow(const double *diagonal, const double *squared, int n, double x)
{
    double delta = 1; int count = 0;
    for (int i = 0; i < n; i++) {
        double q = i ? squared[i - 1] : 0;
        delta = diagonal[i] - x - q / (fabs(delta) < 1e-300 ? 1e-300 : delta);
        count += delta < 0;
    }
    return count;
}
// One block a chunk of eigenvalues: the intervals are halved together, the sequence of Sturm read through shared memory
__global__ void bisect(const double *diagonal, const double *squared, int n, double lo, double hi, double precision, double *values, unsigned *steps)
{
    extern __shared__ double s[];
    double *sd = s, *sq = s + blockDim.x;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    double left = lo, right = hi; unsigned count = 0;
    while (1) {
        bool more = right - left > precision;
        if (!__syncthreads_or(more)) break;
        double mid = (left + right) * .5, delta = 1; int below = 0;
        for (int base = 0; base < n; base += blockDim.x) {
            if (base + threadIdx.x < n) { sd[threadIdx.x] = diagonal[base + threadIdx.x]; sq[threadIdx.x] = base + threadIdx.x ? squared[base + threadIdx.x - 1] : 0; }
            __syncthreads();
            for (int i = 0; i < min((int)blockDim.x, n - base); i++) { delta = sd[i] - mid - sq[i] / (fabs(delta) < 1e-300 ? 1e-300 : delta); below += delta < 0; }
            __syncthreads();
        }
        if (more) { if (below > k) right = mid; else left = mid; count++; }
    }
    if (k < n) { values[k] = (left + right) * .5; steps[k] = count; }
}

// ---------------------------------------------------------------- transposes
#define TILE 32
#define ROWS 8
__global__ void copyPlain(float *o, const float *in, int w, int h) { int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y; for (int i = 0; i < TILE; i += ROWS) o[(y + i) * w + x] = in[(y + i) * w + x]; }
__global__ void transposeNaive(float *o, const float *in, int w, int h) { int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y; for (int i = 0; i < TILE; i += ROWS) o[x * h + y + i] = in[(y + i) * w + x]; }
template <int PAD> __global__ void transposeTile(float *o, const float *in, int w, int h)
{
    __shared__ float tile[TILE][TILE + PAD];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * w + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x; y = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) o[(y + i) * h + x] = tile[threadIdx.x][threadIdx.y + i];
}
__global__ void transposeDiagonal(float *o, const float *in, int w, int h)
{
    __shared__ float tile[TILE][TILE + 1];
    int bid = blockIdx.x + gridDim.x * blockIdx.y, by = bid % gridDim.y, bx = (bid / gridDim.y + by) % gridDim.x;
    int x = bx * TILE + threadIdx.x, y = by * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * w + x];
    __syncthreads();
    x = by * TILE + threadIdx.x; y = bx * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) o[(y + i) * h + x] = tile[threadIdx.x][threadIdx.y + i];
}

// ---------------------------------------------------------------- products
template <int B> __global__ void matrixMul(float *C, const float *A, const float *M, int wA, int wB)
{
    float sum = 0;
    const int row = blockIdx.y * B + threadIdx.y, col = blockIdx.x * B + threadIdx.x;
    for (int t = 0; t < wA; t += B) {
        __shared__ float a[B][B], b[B][B];
        a[threadIdx.y][threadIdx.x] = A[row * wA + t + threadIdx.x]; b[threadIdx.y][threadIdx.x] = M[(t + threadIdx.y) * wB + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < B; k++) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[row * wB + col] = sum;
}

// ---------------------------------------------------------------- templates over types, with a wrapper for the shared memory
template <class T> struct SharedMemory;
#define SHARED(T) template <> struct SharedMemory<T> { __device__ T *get() { extern __shared__ T s_##T[]; return s_##T; } }
SHARED(int); SHARED(float); SHARED(double); SHARED(char);
template <class T> __global__ void typedKernel(const T *in, T *out)
{
    SharedMemory<T> memory; T *s = memory.get();
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = (T)blockDim.x * s[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
template <class T> static void runTyped(const char *name, int n)
{
    T *in, *out; std::vector<T> h(n), got(n); int bad = 0;
    for (int i = 0; i < n; i++) h[i] = (T)i;
    checkCuda(cudaMalloc((void **)&in, n * sizeof(T))); checkCuda(cudaMalloc((void **)&out, n * sizeof(T)));
    checkCuda(cudaMemcpy(in, h.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    typedKernel<T><<<1, n, n * sizeof(T)>>>(in, out); checkLaunch(name);
    checkCuda(cudaMemcpy(got.data(), out, n * sizeof(T), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) bad += got[i] != (T)((T)n * h[n - 1 - i]);
    report(name, bad == 0); digest(got.data(), n * sizeof(T));
    cudaFree(in); cudaFree(out);
}

// ---------------------------------------------------------------- structures with and without alignment
struct RGB8 { unsigned char r, g, b; };
struct __align__(16) RGBA32 { unsigned r, g, b, a; };
struct LA32 { unsigned l, a; };
struct __align__(16) Two16 { RGBA32 c1, c2; };
template <class T> __global__ void copyTyped(T *o, const T *in, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) o[i] = in[i]; }
template <class T> static bool runAligned(unsigned char *out, const unsigned char *in, const std::vector<unsigned char> &h)
{
    int n = h.size() / sizeof(T); std::vector<unsigned char> got(h.size());
    checkCuda(cudaMemset(out, 0, h.size()));
    copyTyped<<<64, 256>>>((T *)out, (const T *)in, n); checkLaunch("copyTyped");
    checkCuda(cudaMemcpy(got.data(), out, h.size(), cudaMemcpyDeviceToHost));
    return memcmp(got.data(), h.data(), n * sizeof(T)) == 0;
}

// ---------------------------------------------------------------- intervals: roots of a polynomial by halving
struct Interval {
    double lo, hi;
    __device__ Interval(double a, double b) : lo(a), hi(b) {}
    __device__ Interval operator+(Interval o) const { return Interval(__dadd_rd(lo, o.lo), __dadd_ru(hi, o.hi)); }
    __device__ Interval operator-(Interval o) const { return Interval(__dadd_rd(lo, -o.hi), __dadd_ru(hi, -o.lo)); }
    __device__ Interval operator*(Interval o) const
    {
        return Interval(fmin(fmin(__dmul_rd(lo, o.lo), __dmul_rd(lo, o.hi)), fmin(__dmul_rd(hi, o.lo), __dmul_rd(hi, o.hi))),
                        fmax(fmax(__dmul_ru(lo, o.lo), __dmul_ru(lo, o.hi)), fmax(__dmul_ru(hi, o.lo), __dmul_ru(hi, o.hi))));
    }
    __device__ bool hasZero() const { return lo <= 0 && hi >= 0; }
};
template <class T, int N> struct Stack { T data[N]; int top; __device__ Stack() : top(0) {} __device__ void push(T v) { data[top++] = v; } __device__ T pop() { return data[--top]; } __device__ bool empty() const { return top == 0; } };
struct Range { double lo, hi; };
__device__ Interval polynomial(Interval x, double a) { return ((x - Interval(a, a)) * (x - Interval(2, 2))) * (x - Interval(-a, -a)); }
__global__ void findRoots(Range *roots, int *counts, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    double a = .1 + t * .001; Stack<Range, 64> work; int found = 0;
    work.push({-4, 4.7});
    while (!work.empty()) {
        Range r = work.pop();
        if (!polynomial(Interval(r.lo, r.hi), a).hasZero()) continue;
        if (r.hi - r.lo < 1e-6) {
            // joined with the one before if they touch
            if (found && roots[t * 8 + found - 1].lo <= r.hi && roots[t * 8 + found - 1].hi >= r.lo) { Range &q = roots[t * 8 + found - 1]; q.lo = fmin(q.lo, r.lo); q.hi = fmax(q.hi, r.hi); }
            else if (found < 8) roots[t * 8 + found++] = r;
            continue;
        }
        double mid = (r.lo + r.hi) * .5;
        work.push({r.lo, mid}); work.push({mid, r.hi});
    }
    counts[t] = found;
}
__global__ void squareAll(int *v, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) v[i] *= v[i]; }

int main()
{
    printf("[matrixlab]\n");
    findDevice();
    EventTimer timer;
    {
        const int n = 1024; std::vector<double> d(n), s(n), got(n); std::vector<unsigned> steps(n); double lo = 1e30, hi = -1e30, trace = 0, sum = 0, squares = 0, frob = 0;
        for (int i = 0; i < n; i++) { d[i] = frand() * 8 - 4; s[i] = frand(); trace += d[i]; frob += d[i] * d[i] + (i < n - 1 ? 2 * s[i] : 0); }
        for (int i = 0; i < n; i++) { double r = (i ? sqrt(s[i - 1]) : 0) + (i < n - 1 ? sqrt(s[i]) : 0); lo = fmin(lo, d[i] - r); hi = fmax(hi, d[i] + r); }
        double *dd, *ds, *dv; unsigned *dn;
        checkCuda(cudaMalloc((void **)&dd, n * 8)); checkCuda(cudaMalloc((void **)&ds, n * 8)); checkCuda(cudaMalloc((void **)&dv, n * 8)); checkCuda(cudaMalloc((void **)&dn, n * 4));
        checkCuda(cudaMemcpy(dd, d.data(), n * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(ds, s.data(), n * 8, cudaMemcpyHostToDevice));
        timer.start(); bisect<<<n / 128, 128, 2 * 128 * 8>>>(dd, ds, n, lo - 1e-3, hi + 1e-3, 1e-9, dv, dn); checkLaunch("bisect"); timer.stop();
        checkCuda(cudaMemcpy(got.data(), dv, n * 8, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(steps.data(), dn, n * 4, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int i = 0; i < n; i++) { sum += got[i]; squares += got[i] * got[i]; if (i % 5 == 0) bad += countBelow(d.data(), s.data(), n, got[i] - 1e-6) > i || countBelow(d.data(), s.data(), n, got[i] + 1e-6) <= i; bad += i && got[i] < got[i - 1] - 1e-9; }
        report("eigenvalues by bisection", bad == 0 && fabs(sum - trace) < 1e-5 && fabs(squares - frob) < 1e-3);
        digest(got.data(), n * 8); digest(steps.data(), n * 4);
        cudaFree(dd); cudaFree(ds); cudaFree(dv); cudaFree(dn);
    }
    {
        const int W = 1024, H = 768; std::vector<float> in(W * H), got(W * H); float *a, *b;
        for (int i = 0; i < W * H; i++) in[i] = i;
        checkCuda(cudaMalloc((void **)&a, W * H * 4)); checkCuda(cudaMalloc((void **)&b, W * H * 4)); checkCuda(cudaMemcpy(a, in.data(), W * H * 4, cudaMemcpyHostToDevice));
        void (*kernels[])(float *, const float *, int, int) = {copyPlain, transposeNaive, transposeTile<0>, transposeTile<1>, transposeDiagonal};
        const char *names[] = {"copy", "transpose, naive", "transpose, tiles", "transpose, tiles without conflicts", "transpose, diagonal order"};
        for (int k = 0; k < 5; k++) {
            checkCuda(cudaMemset(b, 0, W * H * 4)); timer.start();
            for (int i = 0; i < 20; i++) { kernels[k]<<<dim3(W / TILE, H / TILE), dim3(TILE, ROWS)>>>(b, a, W, H); checkLaunch(names[k]); }
            timer.stop(); checkCuda(cudaMemcpy(got.data(), b, W * H * 4, cudaMemcpyDeviceToHost));
            int bad = 0;
            for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) bad += in[y * W + x] != (k ? got[x * H + y] : got[y * W + x]);
            report(names[k], bad == 0); digest(got.data(), W * H * 4);
        }
        cudaFree(a); cudaFree(b);
    }
    {   // C = A B, row by row
        const int hA = 320, wA = 256, wB = 384; std::vector<float> A(hA * wA), B(wA * wB), C(hA * wB), D(hA * wB); float *a, *b, *c;
        for (auto &v : A) v = nextRandom() % 8; for (auto &v : B) v = (int)(nextRandom() % 8) - 3;
        checkCuda(cudaMalloc((void **)&a, A.size() * 4)); checkCuda(cudaMalloc((void **)&b, B.size() * 4)); checkCuda(cudaMalloc((void **)&c, C.size() * 4)); 
        cudaStream_t stream; checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); float *pinned; checkCuda(cudaMallocHost((void **)&pinned, C.size() * 4));
        checkCuda(cudaMemcpyAsync(a, A.data(), A.size() * 4, cudaMemcpyHostToDevice, stream)); checkCuda(cudaMemcpyAsync(b, B.data(), B.size() * 4, cudaMemcpyHostToDevice, stream));
        timer.start(stream);
        for (int i = 0; i < 50; i++) if (i % 2) matrixMul<16><<<dim3(wB / 16, hA / 16), dim3(16, 16), 0, stream>>>(c, a, b, wA, wB); else matrixMul<32><<<dim3(wB / 32, hA / 32), dim3(32, 32), 0, stream>>>(c, a, b, wA, wB);
        checkLaunch("matrixMul"); timer.stop(stream);
        checkCuda(cudaMemcpyAsync(pinned, c, C.size() * 4, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
        int bad = 0;
        for (int i = 0; i < hA; i += 2) for (int j = 0; j < wB; j += 3) { float s = 0; for (int k = 0; k < wA; k++) s += A[i * wA + k] * B[k * wB + j]; bad += s != pinned[i * wB + j]; }
        report("product by tiles", bad == 0); digest(pinned, C.size() * 4);
        cublasHandle_t h; checkLib(cublasCreate(&h)); checkLib(cublasSetStream(h, stream)); float one = 1, zero = 0;
        checkLib(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, wB, hA, wA, &one, b, wB, a, wA, &zero, c, wB));
        checkCuda(cudaMemcpyAsync(D.data(), c, D.size() * 4, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
        report("product by cuBLAS", memcmp(D.data(), pinned, D.size() * 4) == 0);
        // many small ones: arrays of pointers, and strides
        const int m = 32, batch = 40; float **pointers; std::vector<float *> hp(3 * batch); float *big; std::vector<float> hb(3 * batch * m * m), g1(batch * m * m), g2(batch * m * m);
        for (auto &v : hb) v = nextRandom() % 5;
        checkCuda(cudaMalloc((void **)&big, hb.size() * 4)); checkCuda(cudaMalloc((void **)&pointers, hp.size() * sizeof(float *)));
        for (int i = 0; i < 3 * batch; i++) hp[i] = big + i * m * m;
        checkLib(cublasSetVector(hb.size(), 4, hb.data(), 1, big, 1)); checkCuda(cudaMemcpy(pointers, hp.data(), hp.size() * sizeof(float *), cudaMemcpyHostToDevice)); checkCuda(cudaDeviceSynchronize());
        checkLib(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_T, m, m, m, &one, pointers, m, pointers + batch, m, &zero, pointers + 2 * batch, m, batch));
        checkCuda(cudaStreamSynchronize(stream)); checkLib(cublasGetVector(g1.size(), 4, big + 2 * batch * m * m, 1, g1.data(), 1));
        checkLib(cublasSgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_T, m, m, m, &one, big, m, m * m, big + batch * m * m, m, m * m, &zero, big + 2 * batch * m * m, m, m * m, batch));
        checkCuda(cudaStreamSynchronize(stream)); checkLib(cublasGetMatrix(m * m, batch, 4, big + 2 * batch * m * m, m * m, g2.data(), m * m));
        bad = g1 != g2;
        for (int t = 0; t < batch; t += 3) for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) { float s = 0; for (int k = 0; k < m; k++) s += hb[t * m * m + k * m + i] * hb[(batch + t) * m * m + k * m + j]; bad += s != g1[t * m * m + j * m + i]; }
        report("products in batches", bad == 0); digest(g1.data(), g1.size() * 4);
        checkLib(cublasDestroy(h)); checkCuda(cudaFreeHost(pinned)); checkCuda(cudaStreamDestroy(stream)); cudaFree(a); cudaFree(b); cudaFree(c); cudaFree(big); cudaFree(pointers);
    }
    runTyped<int>("template over int", 256); runTyped<float>("template over float", 128); runTyped<double>("template over double", 64); runTyped<char>("template over char", 32);
    {
        std::vector<unsigned char> h(6 * 1000 * 1000); for (auto &v : h) v = nextRandom(); unsigned char *in, *out;
        checkCuda(cudaMalloc((void **)&in, h.size())); checkCuda(cudaMalloc((void **)&out, h.size())); checkCuda(cudaMemcpy(in, h.data(), h.size(), cudaMemcpyHostToDevice));
        bool ok = runAligned<unsigned char>(out, in, h) & runAligned<unsigned short>(out, in, h) & runAligned<RGB8>(out, in, h) & runAligned<LA32>(out, in, h) & runAligned<RGBA32>(out, in, h) & runAligned<Two16>(out, in, h);
        report("types with and without alignment", ok);
        cudaFree(in); cudaFree(out);
    }
    {
        const int n = 1500; Range *roots; int *counts; std::vector<Range> h(n * 8); std::vector<int> c(n); int bad = 0;
        checkCuda(cudaMalloc((void **)&roots, n * 8 * sizeof(Range))); checkCuda(cudaMalloc((void **)&counts, n * 4)); checkCuda(cudaMemset(roots, 0, n * 8 * sizeof(Range)));
        checkCuda(cudaFuncSetCacheConfig(findRoots, cudaFuncCachePreferL1));
        findRoots<<<iDivUp(n, 64), 64>>>(roots, counts, n); checkLaunch("findRoots");
        checkCuda(cudaMemcpy(h.data(), roots, h.size() * sizeof(Range), cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(c.data(), counts, n * 4, cudaMemcpyDeviceToHost));
        for (int t = 0; t < n; t++) { double a = .1 + t * .001; for (double root : {a, 2., -a}) { int in = 0; for (int k = 0; k < c[t]; k++) in += h[t * 8 + k].lo - 1e-12 <= root && root <= h[t * 8 + k].hi + 1e-12; bad += in < 1; } bad += c[t] > 6; }
        report("interval arithmetic, roots found", bad == 0); digest(h.data(), h.size() * sizeof(Range)); digest(c.data(), n * 4);
        cudaFree(roots); cudaFree(counts);
    }
    {   // occupancy chooses the block
        const int n = 1000000; int minGrid, blockSize, active, *v; size_t dynamic; cudaFuncAttributes attributes; std::vector<int> h(n);
        for (int i = 0; i < n; i++) h[i] = i % 40000;
        checkCuda(cudaMalloc((void **)&v, n * 4)); checkCuda(cudaMemcpy(v, h.data(), n * 4, cudaMemcpyHostToDevice));
        checkCuda(cudaOccupancyMaxPotentialBlockSize(&minGrid, &blockSize, squareAll, 0, n)); checkCuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, squareAll, blockSize, 0));
        checkCuda(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, squareAll, 2, 256)); checkCuda(cudaFuncGetAttributes(&attributes, squareAll));
        cudaLaunchConfig_t config = {0}; config.gridDim = dim3(iDivUp(n, blockSize)); config.blockDim = dim3(blockSize);
        checkCuda(cudaLaunchKernelEx(&config, squareAll, v, n));
        checkCuda(cudaMemcpy(h.data(), v, n * 4, cudaMemcpyDeviceToHost));
        int bad = 0; for (int i = 0; i < n; i++) bad += h[i] != (i % 40000) * (i % 40000);
        report("occupancy chooses the block", bad == 0 && active > 0 && dynamic > 0 && attributes.maxThreadsPerBlock >= blockSize); digest(h.data(), n * 4);
        cudaFree(v);
    }
    FINISH("matrixlab");
}
