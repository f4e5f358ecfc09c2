// Finance and random numbers: Black-Scholes, binomial trees, Monte Carlo options by cuRAND's host and device functions, pi by pseudo and
// quasi random numbers, Sobol sequences from cuRAND's directions, Niederreiter's with the inverse normal, generators of the host and the GPU.
// nvcc: -lcurand
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <curand.h>
#include <curand_kernel.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// ---------------------------------------------------------------- Black-Scholes
__device__ __forceinline__ float normalCdf(float d)
{
    const float A1 = .31938153f, A2 = -.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
    float k = __fdividef(1.f, 1.f + .2316419f * fabsf(d)), c = .39894228f * __expf(-.5f * d * d) * (k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5)))));
    return d > 0 ? 1.f - c : c;
}
__device__ void blackScholesBody(float &call, float &put, float s, float x, float t, float r, float v)
{
    float root = sqrtf(t), d1 = (__logf(s / x) + (r + .5f * v * v) * t) / (v * root), d2 = d1 - v * root, n1 = normalCdf(d1), n2 = normalCdf(d2), e = __expf(-r * t);
    call = s * n1 - x * e * n2; put = x * e * (1.f - n2) - s * (1.f - n1);
}
__launch_bounds__(128) __global__ void blackScholes(float2 *__restrict call, float2 *__restrict put, const float2 *__restrict s, const float2 *__restrict x, const float2 *__restrict t, float r, float v, int n2)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n2) return;
    float c1, c2, p1, p2;
    blackScholesBody(c1, p1, s[i].x, x[i].x, t[i].x, r, v); blackScholesBody(c2, p2, s[i].y, x[i].y, t[i].y, r, v);
    call[i] = make_float2(c1, c2); put[i] = make_float2(p1, p2);
}
static double cdf(double d) { return .5 * erfc(-d / sqrt(2.)); }
static double exactCall(double s, double x, double t, double r, double v) { double d1 = (log(s / x) + (r + .5 * v * v) * t) / (v * sqrt(t)), d2 = d1 - v * sqrt(t); return s * cdf(d1) - x * exp(-r * t) * cdf(d2); }

// ---------------------------------------------------------------- binomial trees
#define STEPS 1024
#define TREE_THREADS 128
#define PER_THREAD (STEPS / TREE_THREADS)
struct OptionData { float s, x, vdt, puByDf, pdByDf; };
__constant__ OptionData c_options[256];
__device__ float c_callValues[256];
__global__ void binomialTree()
{
    __shared__ float exchange[TREE_THREADS + 1];
    const OptionData o = c_options[blockIdx.x];
    const int tid = threadIdx.x;
    float call[PER_THREAD + 1];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) { float d = o.s * __expf(o.vdt * (2.f * (tid * PER_THREAD + i) - STEPS)) - o.x; call[i] = d > 0 ? d : 0; }
    if (tid == 0) { float d = o.s * __expf(o.vdt * STEPS) - o.x; exchange[TREE_THREADS] = d > 0 ? d : 0; }
    int finalIt = max(0, tid * PER_THREAD - 1);
    for (int i = STEPS; i > 0; i--) {
        exchange[tid] = call[0];
        __syncthreads();
        call[PER_THREAD] = exchange[tid + 1];
        __syncthreads();
        if (i > finalIt) {
#pragma unroll
            for (int j = 0; j < PER_THREAD; j++) call[j] = o.puByDf * call[j + 1] + o.pdByDf * call[j];
        }
    }
    if (tid == 0) c_callValues[blockIdx.x] = call[0];
}

// ---------------------------------------------------------------- Monte Carlo
struct McOption { float s, x, muByT, vBySqrtT; };
struct McValue { float expected, confidence; };
template <class T> __device__ T reduceBlock(T v, T *s)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    for (int i = 16; i; i /= 2) v += tile.shfl_down(v, i);
    if (tile.thread_rank() == 0) s[tile.meta_group_rank()] = v;
    cg::sync(block);
    if (block.thread_rank() == 0) for (int i = 1; i < tile.meta_group_size(); i++) v += s[i];
    cg::sync(block);
    return v;
}
__global__ void initGenerators(curandState *states, unsigned long long s) { int i = blockIdx.x * blockDim.x + threadIdx.x; curand_init(s + i, 0, 0, &states[i]); }
__global__ void monteCarlo(curandState *states, const McOption *options, McValue *values, int paths, int count)
{
    __shared__ double s[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state = states[at];
    for (int o = blockIdx.x; o < count; o += gridDim.x) {
        McOption opt = options[o]; double sum = 0, sum2 = 0;
        for (int p = threadIdx.x; p < paths; p += blockDim.x) {
            float r = curand_normal(&state), payoff = opt.s * __expf(opt.muByT + opt.vBySqrtT * r) - opt.x;
            payoff = payoff > 0 ? payoff : 0;
            sum += payoff; sum2 += payoff * payoff;
        }
        sum = reduceBlock(sum, s); sum2 = reduceBlock(sum2, s);
        if (threadIdx.x == 0) values[o] = {(float)sum, (float)sum2};
    }
    states[at] = state;
}
__global__ void pathsFromSamples(const float *samples, McOption opt, double *parts, int n)
{
    __shared__ double s[32];
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += fmaxf(opt.s * __expf(opt.muByT + opt.vBySqrtT * samples[i]) - opt.x, 0.f);
    sum = reduceBlock(sum, s);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
template <class State> __global__ void piHits(State *x, State *y, unsigned *hits, int tries)
{
    __shared__ unsigned s[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned count = 0;
    for (int k = 0; k < tries; k++) { float a = curand_uniform(&x[i]), b = curand_uniform(&y[i]); count += a * a + b * b < 1; }
    count = reduceBlock(count, s);
    if (threadIdx.x == 0) hits[blockIdx.x] = count;
}
__global__ void initPhilox(curandStatePhilox4_32_10_t *x, curandStatePhilox4_32_10_t *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; curand_init(1, i, 0, &x[i]); curand_init(2, i, 0, &y[i]); }
__global__ void initSobol(curandDirectionVectors32_t *v, curandStateSobol32 *x, curandStateSobol32 *y, int tries)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(v[0], i * tries + 1, &x[i]); curand_init(v[1], i * tries + 1, &y[i]);
}

// ---------------------------------------------------------------- quasi random sequences
__global__ void sobol(unsigned n, unsigned dimensions, const unsigned *directions, float *out)
{
    __shared__ unsigned v[32];
    directions += 32 * blockIdx.y; out += n * blockIdx.y;
    if (threadIdx.x < 32) v[threadIdx.x] = directions[threadIdx.x];
    __syncthreads();
    unsigned i0 = threadIdx.x + blockIdx.x * blockDim.x, stride = gridDim.x * blockDim.x, g = i0 ^ (i0 >> 1), x = 0, mask;
    for (unsigned k = 0; k < __ffs(stride) - 1; k++) { mask = -(g & 1); x ^= mask & v[k]; g >>= 1; }
    // the rest of the bits change with each stride
    for (unsigned k = __ffs(stride) - 1; k < 32; k++) { mask = -(g & 1); x ^= mask & v[k]; g >>= 1; }
    if (i0 < n) out[i0] = x * 2.3283064365387e-10f;
    for (unsigned i = i0 + stride; i < n; i += stride) {
        x ^= v[__ffs(stride) - 2] ^ v[__ffs(~((i - stride) | (stride - 1))) - 1];
        out[i] = x * 2.3283064365387e-10f;
    }
}
#define QDIM 3
#define QBITS 31
__constant__ unsigned c_table[QDIM][QBITS];
__global__ void niederreiter(float *out, unsigned from, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, dim = threadIdx.y;
    for (; i < n; i += blockDim.x * gridDim.x) {
        unsigned r = 0, data = from + i;
        for (int bit = 0; bit < QBITS; bit++, data >>= 1) if (data & 1) r ^= c_table[dim][bit];
        out[dim * n + i] = (r + 1) * (1.f / 2147483648.f);
    }
}
__global__ void inverseNormal(float *v, unsigned n) { for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v[i] = normcdfinvf(v[i]); }

int main()
{
    printf("[finance]\n");
    findDevice();
    EventTimer timer;
    const float R = .02f, V = .3f;
    {
        const int n = 1 << 20; std::vector<float> s(n), x(n), t(n), call(n), put(n); float *d[5];
        for (int i = 0; i < n; i++) { s[i] = 5 + 25 * frand(); x[i] = 1 + 99 * frand(); t[i] = .25f + 9.75f * frand(); }
        for (auto &p : d) checkCuda(cudaMalloc((void **)&p, n * 4));
        checkCuda(cudaMemcpy(d[2], s.data(), n * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(d[3], x.data(), n * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(d[4], t.data(), n * 4, cudaMemcpyHostToDevice));
        checkCuda(cudaDeviceSynchronize()); timer.start();
        for (int i = 0; i < 64; i++) { blackScholes<<<iDivUp(n / 2, 128), 128>>>((float2 *)d[0], (float2 *)d[1], (float2 *)d[2], (float2 *)d[3], (float2 *)d[4], R, V, n / 2); checkLaunch("blackScholes"); }
        timer.stop();
        checkCuda(cudaMemcpy(call.data(), d[0], n * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(put.data(), d[1], n * 4, cudaMemcpyDeviceToHost));
        double sum = 0, size = 0, parity = 0;
        for (int i = 0; i < n; i += 7) { double e = exactCall(s[i], x[i], t[i], R, V); sum += fabs(e - call[i]); size += e; parity = fmax(parity, fabs(call[i] - put[i] - s[i] + x[i] * exp(-R * t[i]))); }
        report("Black-Scholes", sum / size < 1e-4); report("Black-Scholes, parity of call and put", parity < 1e-3);
        digest(call.data(), n * 4); digest(put.data(), n * 4);
        for (auto &p : d) cudaFree(p);
    }
    {
        OptionData o[256]; double exact[256]; float values[256], seenWorst = 0;
        for (int i = 0; i < 256; i++) {
            float s = 5 + 25 * frand(), x = 1 + 49 * frand(), t = .25f + 9.75f * frand(), dt = t / STEPS, vdt = V * sqrtf(dt), rdt = R * dt, df = expf(-rdt), u = expf(vdt), d = expf(-vdt), pu = (expf(rdt) - d) / (u - d);
            o[i] = {s, x, vdt, pu * df, (1 - pu) * df}; exact[i] = exactCall(s, x, t, R, V);
        }
        checkCuda(cudaMemcpyToSymbol(c_options, o, sizeof o));
        binomialTree<<<256, TREE_THREADS>>>(); checkLaunch("binomialTree");
        checkCuda(cudaMemcpyFromSymbol(values, c_callValues, sizeof values));
        for (int i = 0; i < 256; i++) seenWorst = fmax(seenWorst, fabs(values[i] - exact[i]));
        report("binomial trees near Black-Scholes", seenWorst < .1f);
        digest(values, sizeof values);
    }
    {
        const int count = 64, paths = 1 << 16, blocks = 32, threads = 256; McOption o[count]; double exact[count]; McValue v[count];
        for (int i = 0; i < count; i++) { float s = 5 + 45 * frand(), x = 10 + 15 * frand(), t = 1 + 4 * frand(); o[i] = {s, x, (R - .5f * V * V) * t, V * sqrtf(t)}; exact[i] = exactCall(s, x, t, R, V) * exp(R * t); }
        curandState *states; McOption *d_o; McValue *d_v;
        checkCuda(cudaMalloc((void **)&states, blocks * threads * sizeof(curandState))); checkCuda(cudaMalloc((void **)&d_o, sizeof o)); checkCuda(cudaMallocManaged((void **)&d_v, sizeof v));
        cudaStream_t stream; checkCuda(cudaStreamCreate(&stream));
        initGenerators<<<blocks, threads, 0, stream>>>(states, 777);
        int bad = 0;
        for (int turn = 0; turn < 2; turn++) {
            checkCuda(cudaMemcpyAsync(d_o, o, sizeof o, cudaMemcpyHostToDevice, stream));
            monteCarlo<<<blocks, threads, 0, stream>>>(states, d_o, d_v, paths, count); checkLaunch("monteCarlo");
            checkCuda(cudaMemcpyAsync(v, d_v, sizeof v, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
            for (int i = 0; i < count; i++) { double mean = v[i].expected / paths, dev = sqrt(fmax(0., v[i].confidence / paths - mean * mean) / paths); bad += fabs(mean - exact[i]) > 5 * dev + 1e-3; }
            digest(v, sizeof v);
        }
        report("Monte Carlo, numbers made in the kernel", bad == 0);
        const int n = 1 << 22; float *samples; double *parts, h_parts[64], mean = 0; curandGenerator_t g;
        checkCuda(cudaMalloc((void **)&samples, n * 4)); checkCuda(cudaMalloc((void **)&parts, sizeof h_parts));
        checkLib(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_MTGP32)); checkLib(curandSetPseudoRandomGeneratorSeed(g, 4242)); checkLib(curandSetStream(g, stream));
        checkLib(curandGenerateNormal(g, samples, n, 0, 1));
        pathsFromSamples<<<64, 256, 0, stream>>>(samples, o[3], parts, n); checkLaunch("pathsFromSamples");
        checkCuda(cudaMemcpyAsync(h_parts, parts, sizeof h_parts, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
        for (double p : h_parts) mean += p / n;
        report("Monte Carlo, numbers made before", fabs(mean - exact[3]) < .02 * exact[3] + .02);
        digest(h_parts, sizeof h_parts);
        checkLib(curandDestroyGenerator(g));
        // the same generator on the host and on the GPU
        const int m = 100000; std::vector<float> a(m), b(m);
        curandGenerator_t host;
        checkLib(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_MTGP32)); checkLib(curandCreateGeneratorHost(&host, CURAND_RNG_PSEUDO_MTGP32));
        checkLib(curandSetPseudoRandomGeneratorSeed(g, 31)); checkLib(curandSetPseudoRandomGeneratorSeed(host, 31));
        checkLib(curandGenerateUniform(g, samples, m)); checkLib(curandGenerateUniform(host, a.data(), m));
        checkCuda(cudaMemcpy(b.data(), samples, m * 4, cudaMemcpyDeviceToHost));
        double difference = 0, size = 0;
        for (int i = 0; i < m; i++) { difference += fabs(a[i] - b[i]); size += b[i]; }
        report("Mersenne Twister, host and GPU", difference / size < 1e-6);
        digest(b.data(), m * 4);
        checkLib(curandDestroyGenerator(g)); checkLib(curandDestroyGenerator(host));
        cudaFree(states); cudaFree(d_o); cudaFree(d_v); cudaFree(samples); cudaFree(parts); checkCuda(cudaStreamDestroy(stream));
    }
    {
        const int blocks = 64, threads = 128, tries = 512; unsigned *hits, h[blocks]; double pi[2] = {0, 0};
        checkCuda(cudaMalloc((void **)&hits, sizeof h));
        curandStatePhilox4_32_10_t *px, *py; curandStateSobol32 *sx, *sy; curandDirectionVectors32_t *vectors, *d_vectors;
        checkCuda(cudaMalloc((void **)&px, blocks * threads * sizeof *px)); checkCuda(cudaMalloc((void **)&py, blocks * threads * sizeof *py));
        checkCuda(cudaMalloc((void **)&sx, blocks * threads * sizeof *sx)); checkCuda(cudaMalloc((void **)&sy, blocks * threads * sizeof *sy));
        checkLib(curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
        checkCuda(cudaMalloc((void **)&d_vectors, 2 * sizeof *vectors)); checkCuda(cudaMemcpy(d_vectors, vectors, 2 * sizeof *vectors, cudaMemcpyHostToDevice));
        initPhilox<<<blocks, threads>>>(px, py); initSobol<<<blocks, threads>>>(d_vectors, sx, sy, tries);
        for (int k = 0; k < 2; k++) {
            if (k == 0) piHits<<<blocks, threads>>>(px, py, hits, tries); else piHits<<<blocks, threads>>>(sx, sy, hits, tries);
            checkLaunch("piHits");
            checkCuda(cudaMemcpy(h, hits, sizeof h, cudaMemcpyDeviceToHost));
            for (unsigned c : h) pi[k] += 4. * c / (blocks * threads * (double)tries);
            digest(h, sizeof h);
        }
        report("pi, pseudo random", fabs(pi[0] - M_PI) < 5e-3); report("pi, quasi random", fabs(pi[1] - M_PI) < 1e-3);
        cudaFree(hits); cudaFree(px); cudaFree(py); cudaFree(sx); cudaFree(sy);
        // Sobol by the kernel here; the same directions
        const unsigned n = 100000, dims = 20; std::vector<float> got(n * dims); float *out; unsigned *d;
        checkCuda(cudaMalloc((void **)&out, n * dims * 4)); checkCuda(cudaMalloc((void **)&d, dims * 32 * 4));
        checkCuda(cudaMemcpy(d, vectors, dims * 32 * 4, cudaMemcpyHostToDevice));
        sobol<<<dim3(64, dims), 64>>>(n, dims, d, out); checkLaunch("sobol");
        checkCuda(cudaMemcpy(got.data(), out, n * dims * 4, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (unsigned k = 0; k < dims; k++) { unsigned x = 0; for (unsigned i = 0; i < n; i++) { if (i) x ^= vectors[k][__builtin_ctz(i)]; bad += got[k * n + i] != x * 2.3283064365387e-10f; } }
        report("Sobol sequences", bad == 0);
        digest(got.data(), n * dims * 4);
        cudaFree(out); cudaFree(d); cudaFree(d_vectors);
    }
    {
        const unsigned n = 1 << 20; std::vector<float> got(QDIM * n); unsigned table[QDIM][QBITS]; float *out;
        for (int d = 0; d < QDIM; d++) for (int b = 0; b < QBITS; b++) table[d][b] = b < 31 ? (1u << (30 - b)) ^ (d ? (nextRandom() & ((1u << (30 - b)) - 1)) : 0) : 0;
        checkCuda(cudaMemcpyToSymbol(c_table, table, sizeof table));
        checkCuda(cudaMalloc((void **)&out, QDIM * n * 4)); checkCuda(cudaMemset(out, 0, QDIM * n * 4));
        niederreiter<<<128, dim3(128, QDIM)>>>(out, 0, n); checkLaunch("niederreiter");
        checkCuda(cudaMemcpy(got.data(), out, QDIM * n * 4, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int d = 0; d < QDIM; d++) for (unsigned i = 0; i < n; i += 3) { unsigned r = 0; for (unsigned k = i, b = 0; k; k >>= 1, b++) if (k & 1) r ^= table[d][b]; bad += got[d * n + i] != (r + 1) * (1.f / 2147483648.f); }
        report("Niederreiter sequences", bad == 0);
        digest(got.data(), QDIM * n * 4);
        inverseNormal<<<128, 128>>>(out, QDIM * n); checkLaunch("inverseNormal");
        checkCuda(cudaMemcpy(got.data(), out, QDIM * n * 4, cudaMemcpyDeviceToHost));
        double mean = 0, square = 0; int off = 0;
        for (unsigned i = 0; i < n; i++) { if (!std::isfinite(got[i])) { off++; continue; } mean += got[i] / n; square += got[i] * got[i] / n; }
        report("inverse normal", fabs(mean) < 1e-3 && fabs(square - 1) < 1e-2 && off <= 1);
        digest(got.data(), QDIM * n * 4);
        cudaFree(out);
    }
    FINISH("finance");
}
