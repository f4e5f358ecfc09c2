// What newer kernels are made of: copies to shared memory in pipelines and with barriers, bulk copies, tensor cores of every type, clusters
// with a distributed histogram, votes and matches, binary partitions, aggregated atomics, atomics of every kind, reductions with fences and
// over the whole grid, split barriers, shuffles for an integral image, the clock and PTX in between, printf.
// nvcc: --extended-lambda
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <thrust/device_ptr.h>
#include <thrust/sort.h>
namespace cg = cooperative_groups;
using namespace nvcuda;

// ---------------------------------------------------------------- products whose tiles come asynchronously
#define BS 16
#define STAGES 3
template <int kind> __global__ void matrixMulAsync(float *C, const float *A, const float *B, int wA, int wB)
{
    __shared__ alignas(16) float as[STAGES][BS][BS], bs[STAGES][BS][BS];
    const int row = blockIdx.y * BS + threadIdx.y, col = blockIdx.x * BS + threadIdx.x, tiles = wA / BS;
    float sum = 0;
    if (kind == 0) {            // one pipeline for each thread
        cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
        for (int t = 0, fetch = 0; t < tiles; t++) {
            for (; fetch < tiles && fetch < t + STAGES; fetch++) {
                pipe.producer_acquire(); int s = fetch % STAGES;
                cuda::memcpy_async(&as[s][threadIdx.y][threadIdx.x], &A[row * wA + fetch * BS + threadIdx.x], sizeof(float), pipe);
                cuda::memcpy_async(&bs[s][threadIdx.y][threadIdx.x], &B[(fetch * BS + threadIdx.y) * wB + col], sizeof(float), pipe);
                pipe.producer_commit();
            }
            pipe.consumer_wait(); __syncthreads();
            for (int k = 0; k < BS; k++) sum += as[t % STAGES][threadIdx.y][k] * bs[t % STAGES][k][threadIdx.x];
            __syncthreads(); pipe.consumer_release();
        }
    } else if (kind == 1) {     // four values at a time, by the first quarter of the threads, and a barrier
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        auto block = cg::this_thread_block();
        if (block.thread_rank() == 0) init(&bar, block.size());
        block.sync();
        const int r = block.thread_rank() / 4, c = block.thread_rank() % 4 * 4;
        for (int t = 0; t < tiles; t++) {
            if (block.thread_rank() < BS * BS / 4) {
                cuda::memcpy_async(&as[0][r][c], &A[(blockIdx.y * BS + r) * wA + t * BS + c], cuda::aligned_size_t<16>(16), bar);
                cuda::memcpy_async(&bs[0][r][c], &B[(t * BS + r) * wB + blockIdx.x * BS + c], cuda::aligned_size_t<16>(16), bar);
            }
            bar.arrive_and_wait();
            for (int k = 0; k < BS; k++) sum += as[0][threadIdx.y][k] * bs[0][k][threadIdx.x];
            block.sync();
        }
    } else {                    // the group copies row by row
        auto block = cg::this_thread_block();
        for (int t = 0; t < tiles; t++) {
            for (int r = 0; r < BS; r++) { cg::memcpy_async(block, as[0][r], &A[(blockIdx.y * BS + r) * wA + t * BS], sizeof(float) * BS); cg::memcpy_async(block, bs[0][r], &B[(t * BS + r) * wB + blockIdx.x * BS], sizeof(float) * BS); }
            cg::wait(block);
            for (int k = 0; k < BS; k++) sum += as[0][threadIdx.y][k] * bs[0][k][threadIdx.x];
            block.sync();
        }
    }
    C[row * wB + col] = sum;
}
__global__ void bulkCopy(const int *in, int *out, int n)       // a whole tile by one thread's request
{
    __shared__ alignas(128) int tile[1024];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) { init(&bar, blockDim.x); cuda::device::experimental::fence_proxy_async_shared_cta(); }
    __syncthreads();
    for (int t = blockIdx.x; t < n / 1024; t += gridDim.x) {
        cuda::barrier<cuda::thread_scope_block>::arrival_token token;
        if (threadIdx.x == 0) { cuda::device::memcpy_async_tx(tile, in + t * 1024, cuda::aligned_size_t<16>(sizeof tile), bar); token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile); }
        else token = bar.arrive();
        bar.wait(std::move(token));
        for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[t * 1024 + i] = tile[1023 - i] * 2 + t;
        __syncthreads();
    }
}

// ---------------------------------------------------------------- tensor cores: D = A B, a warp a tile
template <class In, class Acc, int M, int N, int K, class Out> __global__ void tensorProduct(Out *d, const In *a, const In *b, int n)
{
    wmma::fragment<wmma::matrix_a, M, N, K, Acc, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, M, N, K, Acc, wmma::col_major> fb; wmma::fragment<wmma::accumulator, M, N, K, Out> fc;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = warp / (n / N) * M, col = warp % (n / N) * N;
    if (row >= n) return;
    wmma::fill_fragment(fc, Out(0));
    for (int k = 0; k < n; k += K) {
        wmma::load_matrix_sync(fa, a + row * n + k, n); wmma::load_matrix_sync(fb, b + col * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(d + row * n + col, fc, n, wmma::mem_row_major);
}
template <class In, class Acc, int M, int N, int K, class Out> static void runTensor(const char *name)
{
    const int n = 256; std::vector<In> a(n * n), b(n * n); std::vector<Out> got(n * n); std::vector<int> ia(n * n), ib(n * n); In *da, *db; Out *dd; int bad = 0;
    for (int i = 0; i < n * n; i++) { ia[i] = nextRandom() % 5 - 2; ib[i] = nextRandom() % 7 - 3; a[i] = In((float)ia[i]); b[i] = In((float)ib[i]); }
    checkCuda(cudaMalloc((void **)&da, n * n * sizeof(In))); checkCuda(cudaMalloc((void **)&db, n * n * sizeof(In))); checkCuda(cudaMalloc((void **)&dd, n * n * sizeof(Out)));
    checkCuda(cudaMemcpy(da, a.data(), n * n * sizeof(In), cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(db, b.data(), n * n * sizeof(In), cudaMemcpyHostToDevice));
    int warps = (n / M) * (n / N);
    for (int i = 0; i < 5; i++) tensorProduct<In, Acc, M, N, K, Out><<<iDivUp(warps, 4), 128>>>(dd, da, db, n);
    checkLaunch(name); checkCuda(cudaMemcpy(got.data(), dd, n * n * sizeof(Out), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i += 3) for (int j = 0; j < n; j += 5) { int s = 0; for (int k = 0; k < n; k++) s += ia[i * n + k] * ib[j * n + k]; bad += (float)got[i * n + j] != (float)s; }
    report(name, bad == 0); digest(got.data(), n * n * sizeof(Out)); cudaFree(da); cudaFree(db); cudaFree(dd);
}

// ---------------------------------------------------------------- a histogram over the shared memory of a cluster
__global__ void clusterHistogram(int *bins, int nbins, int binsPerBlock, const int *in, int n)
{
    extern __shared__ int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < binsPerBlock; i += blockDim.x) mine[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { int bin = min(max(in[i], 0), nbins - 1), *theirs = cluster.map_shared_rank(mine, bin / binsPerBlock); atomicAdd(theirs + bin % binsPerBlock, 1); }
    cluster.sync();
    int *to = bins + cluster.block_rank() * binsPerBlock;
    for (int i = threadIdx.x; i < binsPerBlock; i += blockDim.x) atomicAdd(&to[i], mine[i]);
}

// ---------------------------------------------------------------- votes, matches, partitions, aggregates
__global__ void votes(const unsigned *in, unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; unsigned v = in[i], lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    int pred; unsigned same = __match_any_sync(~0u, v % 5), all = __match_all_sync(~0u, v % 2, &pred);
    out[i] = __any_sync(~0u, v % 61 == 0) + 2 * __all_sync(~0u, v % 3 != 7) + 4 * __popc(__ballot_sync(~0u, v & 1)) + 256 * __popc(same & ((1u << lane) - 1)) + 65536 * (all != 0) + (pred << 20) + (__reduce_add_sync(~0u, v & 3) << 24);
}
__global__ void partitions(const int *in, int n, unsigned long long *sums)     // 0 odd count, 1 odd sum, 2 even sum
{
    cg::grid_group grid = cg::this_grid(); auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
        int v = in[i]; auto part = cg::binary_partition(cg::coalesced_threads(), v & 1);
        int s = cg::reduce(part, v, cg::plus<int>());
        if (part.thread_rank() == 0) { if (v & 1) { atomicAdd(&sums[0], (unsigned long long)part.size()); atomicAdd(&sums[1], (unsigned long long)s); } else atomicAdd(&sums[2], (unsigned long long)s); }
    }
}
__device__ int aggregatedIncrement(int *counter) { cg::coalesced_group g = cg::coalesced_threads(); int from = 0; if (g.thread_rank() == 0) from = atomicAdd(counter, g.size()); return g.shfl(from, 0) + g.thread_rank(); }
__device__ int labelledIncrement(int *counters, int label) { auto g = cg::labeled_partition(cg::coalesced_threads(), label); int from = 0; if (g.thread_rank() == 0) from = atomicAdd(&counters[label], g.size()); return g.shfl(from, 0) + g.thread_rank(); }
__global__ void filterPositive(int *out, int *counter, int *labels, const int *in, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { if (in[i] > 0) out[aggregatedIncrement(counter)] = in[i]; labelledIncrement(labels, (in[i] & 0xff) % 5); } }
__global__ void everyAtomic(int *v, unsigned long long *w)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&v[0], 10); atomicSub(&v[1], 10); atomicExch(&v[2], 77); atomicMax(&v[3], t); atomicMin(&v[4], t - 5000); atomicInc((unsigned *)&v[5], 17); atomicDec((unsigned *)&v[6], 137); atomicCAS(&v[7], 0, 9); atomicAnd(&v[8], 2 * t + 7); atomicOr(&v[9], 1 << (t % 31)); atomicXor(&v[10], t);
    if (blockIdx.x == 0) atomicAdd_block(&v[11], 1); atomicMin((unsigned *)&v[12], 3000000000u - t); atomicMax((unsigned *)&v[13], 3000000000u + t);
    atomicAdd(&w[0], 1ull << 33); atomicMax(&w[1], (unsigned long long)t << 20); atomicMin((long long *)&w[2], -(long long)t * 1000000007); atomicAnd(&w[3], ~(1ull << (t % 64))); atomicOr(&w[4], 1ull << (t % 64)); atomicXor(&w[5], (unsigned long long)t * t); atomicCAS(&w[6], 0ull, 1ull << 40); atomicAdd((double *)&w[7], 1.0);
}

// ---------------------------------------------------------------- reductions
__device__ unsigned int retired = 0;
__device__ float blockTotal(float v, float *s) { cg::thread_block b = cg::this_thread_block(); s[threadIdx.x] = v; for (int d = blockDim.x / 2; d; d /= 2) { cg::sync(b); if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; } cg::sync(b); float r = s[0]; cg::sync(b); return r; }
__global__ void reduceOnce(const float *in, volatile float *out, int n)       // the last block sums what all have written
{
    __shared__ float s[256]; __shared__ bool last; float v = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) v += in[i];
    v = blockTotal(v, s);
    if (threadIdx.x == 0) { out[blockIdx.x] = v; __threadfence(); last = atomicInc(&retired, gridDim.x) == gridDim.x - 1; }
    __syncthreads();
    if (!last) return;
    v = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 256) v += out[i];
    v = blockTotal(v, s);
    if (threadIdx.x == 0) { out[0] = v; retired = 0; }
}
__global__ void reduceGrid(const float *in, double *out, int n)
{
    extern __shared__ double sd[]; cg::thread_block b = cg::this_thread_block(); cg::grid_group g = cg::this_grid(); auto tile = cg::tiled_partition<32>(b); double v = 0;
    for (int i = g.thread_rank(); i < n; i += g.size()) v += in[i];
    v = cg::reduce(tile, v, cg::plus<double>());
    if (tile.thread_rank() == 0) sd[tile.meta_group_rank()] = v;
    cg::sync(b);
    if (b.thread_rank() == 0) { v = 0; for (int i = 0; i < tile.meta_group_size(); i++) v += sd[i]; out[blockIdx.x] = v; }
    cg::sync(g);
    if (g.thread_rank() == 0) for (int i = 1; i < gridDim.x; i++) out[0] += out[i];
}
__global__ void normalise(float *v, const float *w, int n, double *parts, float *length)     // arrive, do something else, wait
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ double s[256]; cg::grid_group g = cg::this_grid();
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    double d = 0;
    for (int i = g.thread_rank(); i < n; i += g.size()) d += (double)v[i] * w[i];
    s[threadIdx.x] = d;
    for (int k = blockDim.x / 2; k; k /= 2) { auto token = bar.arrive(); double other = 0; bar.wait(std::move(token)); if (threadIdx.x < k) { other = s[threadIdx.x + k]; s[threadIdx.x] += other; } }
    if (threadIdx.x == 0) parts[blockIdx.x] = s[0];
    cg::sync(g);
    d = 0; for (int i = 0; i < gridDim.x; i++) d += parts[i];
    for (int i = g.thread_rank(); i < n; i += g.size()) v[i] = v[i] / (float)sqrt(d);
    if (g.thread_rank() == 0) *length = (float)sqrt(d);
}
__global__ void integralRows(const unsigned char *in, unsigned *out, int w)     // a warp a row, by shuffles
{
    int row = blockIdx.x, lane = threadIdx.x; unsigned carry = 0;
    for (int x = lane; x < w; x += 32) { unsigned v = in[row * w + x]; for (int d = 1; d < 32; d *= 2) { unsigned o = __shfl_up_sync(~0u, v, d); if (lane >= d) v += o; } v += carry; out[row * w + x] = v; carry = __shfl_sync(~0u, v, 31); }
}
__global__ void integralColumns(unsigned *v, int w, int h) { int x = blockIdx.x * blockDim.x + threadIdx.x; unsigned s = 0; if (x < w) for (int y = 0; y < h; y++) { s += v[y * w + x]; v[y * w + x] = s; } }
__global__ void timedMinimum(const float *in, float *out, clock_t *ticks) { __shared__ float s[512]; if (threadIdx.x == 0) ticks[blockIdx.x] = clock(); s[threadIdx.x] = in[threadIdx.x]; s[threadIdx.x + 256] = in[threadIdx.x + 256]; for (int d = 256; d; d /= 2) { __syncthreads(); if (threadIdx.x < d) s[threadIdx.x] = fminf(s[threadIdx.x], s[threadIdx.x + d]); } if (threadIdx.x == 0) { out[blockIdx.x] = s[0]; ticks[gridDim.x + blockIdx.x] = clock(); } }
__global__ void speak(int value) { if (threadIdx.x == 0) printf("  [%d, %d]: a kernel says %d\n", blockIdx.x, threadIdx.x, value); }

template <class T> static T *upload(const std::vector<T> &v) { T *p; checkCuda(cudaMalloc((void **)&p, v.size() * sizeof(T))); checkCuda(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p; }

int main()
{
    printf("[hopperkit]\n");
    findDevice();
    cudaDeviceProp prop; checkCuda(cudaGetDeviceProperties(&prop, 0)); EventTimer timer;
    if (prop.major < 9) { printf("needs compute capability 9.0\n"); return 2; }
    checkCuda(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20)); speak<<<1, 32>>>(42); checkLaunch("speak"); checkCuda(cudaDeviceSynchronize());
    {
        const int hA = 256, wA = 320, wB = 192; std::vector<float> A(hA * wA), B(wA * wB), C(hA * wB); for (auto &v : A) v = nextRandom() % 6; for (auto &v : B) v = nextRandom() % 8;
        float *a = upload(A), *b = upload(B), *c; checkCuda(cudaMalloc((void **)&c, C.size() * 4)); const char *names[] = {"product, pipeline of threads", "product, barrier and large copies", "product, copies of a group"};
        for (int k = 0; k < 3; k++) {
            checkCuda(cudaMemset(c, 0, C.size() * 4)); timer.start(); dim3 grid(wB / BS, hA / BS), block(BS, BS);
            for (int i = 0; i < 10; i++) if (k == 0) matrixMulAsync<0><<<grid, block>>>(c, a, b, wA, wB); else if (k == 1) matrixMulAsync<1><<<grid, block>>>(c, a, b, wA, wB); else matrixMulAsync<2><<<grid, block>>>(c, a, b, wA, wB);
            checkLaunch(names[k]); timer.stop(); checkCuda(cudaMemcpy(C.data(), c, C.size() * 4, cudaMemcpyDeviceToHost)); int bad = 0;
            for (int i = 0; i < hA; i += 3) for (int j = 0; j < wB; j += 2) { float s = 0; for (int q = 0; q < wA; q++) s += A[i * wA + q] * B[q * wB + j]; bad += s != C[i * wB + j]; }
            report(names[k], bad == 0); digest(C.data(), C.size() * 4);
        }
        cudaFree(a); cudaFree(b); cudaFree(c);
        const int n = 1 << 20; std::vector<int> in(n), out(n); for (auto &v : in) v = nextRandom(); int *di = upload(in), *d; checkCuda(cudaMalloc((void **)&d, n * 4)); bulkCopy<<<132, 256>>>(di, d, n); checkLaunch("bulkCopy"); checkCuda(cudaMemcpy(out.data(), d, n * 4, cudaMemcpyDeviceToHost)); int bad = 0;
        for (int i = 0; i < n; i++) bad += out[i] != in[i / 1024 * 1024 + 1023 - i % 1024] * 2 + i / 1024;
        report("bulk copies", bad == 0); digest(out.data(), n * 4); cudaFree(di); cudaFree(d);
    }
    runTensor<half, half, 16, 16, 16, float>("tensor cores, half"); runTensor<half, half, 32, 8, 16, half>("tensor cores, half, 32x8"); runTensor<__nv_bfloat16, __nv_bfloat16, 16, 16, 16, float>("tensor cores, bfloat16");
    runTensor<float, wmma::precision::tf32, 16, 16, 8, float>("tensor cores, TF32"); runTensor<double, double, 8, 8, 4, double>("tensor cores, double"); runTensor<signed char, signed char, 16, 16, 16, int>("tensor cores, 8-bit integers");
    {   // clusters
        const int n = 1 << 20, nbins = 3072; std::vector<int> in(n), want(nbins), got(nbins); for (auto &v : in) { v = nextRandom() % (nbins + 50) - 20; want[std::min(std::max(v, 0), nbins - 1)]++; } int *di = upload(in), *bins; checkCuda(cudaMalloc((void **)&bins, nbins * 4));
        for (int size = 1; size <= 8; size *= 2) {
            cudaLaunchConfig_t config = {0}; cudaLaunchAttribute attribute[1]; int clusters = 0, per = nbins / size; config.gridDim = dim3(128); config.blockDim = dim3(256); config.dynamicSmemBytes = per * 4;
            attribute[0].id = cudaLaunchAttributeClusterDimension; attribute[0].val.clusterDim.x = size; attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1; config.attrs = attribute; config.numAttrs = 1;
            checkCuda(cudaFuncSetAttribute(clusterHistogram, cudaFuncAttributeMaxDynamicSharedMemorySize, nbins * 4)); checkCuda(cudaOccupancyMaxActiveClusters(&clusters, clusterHistogram, &config)); checkCuda(cudaMemset(bins, 0, nbins * 4));
            checkCuda(cudaLaunchKernelEx(&config, clusterHistogram, bins, nbins, per, (const int *)di, n)); checkCuda(cudaMemcpy(got.data(), bins, nbins * 4, cudaMemcpyDeviceToHost)); char name[64]; snprintf(name, sizeof name, "histogram in clusters of %d", size); report(name, got == want && clusters > 0);
        }
        digest(got.data(), nbins * 4); cudaFree(di); cudaFree(bins);
    }
    {
        const int n = 1 << 18; std::vector<unsigned> in(n), out(n); for (auto &v : in) v = nextRandom(); unsigned *di = upload(in), *d; checkCuda(cudaMalloc((void **)&d, n * 4)); votes<<<n / 256, 256>>>(di, d, n); checkLaunch("votes"); checkCuda(cudaMemcpy(out.data(), d, n * 4, cudaMemcpyDeviceToHost)); int bad = 0;
        for (int w = 0; w < n; w += 32) { unsigned any = 0, odd = 0, sum = 0; for (int l = 0; l < 32; l++) { any |= in[w + l] % 61 == 0; odd += in[w + l] & 1; sum += in[w + l] & 3; } bool pred = odd == 0 || odd == 32; for (int l = 0; l < 32; l++) { unsigned before = 0; for (int k = 0; k < l; k++) before += in[w + k] % 5 == in[w + l] % 5; bad += out[w + l] != any + 2 + 4 * odd + 256 * before + 65536 * pred + (pred << 20) + (sum << 24); } }
        report("votes and matches", bad == 0); digest(out.data(), n * 4); cudaFree(di); cudaFree(d);
        std::vector<int> v(n); unsigned long long odd[3] = {0}, got[3]; std::vector<int> positive, labels(5), gotLabels(5); for (auto &x : v) { x = (int)(nextRandom() % 2001) - 1000; labels[(x & 0xff) % 5]++; if (x > 0) positive.push_back(x); if (x & 1) { odd[0]++; odd[1] += x; } else odd[2] += x; } std::sort(positive.begin(), positive.end());
        int *dv = upload(v), *kept, *counters, count; unsigned long long *sums; checkCuda(cudaMalloc((void **)&kept, n * 4)); checkCuda(cudaMalloc((void **)&counters, 6 * 4)); checkCuda(cudaMalloc((void **)&sums, 24)); checkCuda(cudaMemset(counters, 0, 24)); checkCuda(cudaMemset(sums, 0, 24));
        partitions<<<64, 256>>>(dv, n, sums); filterPositive<<<64, 256>>>(kept, counters, counters + 1, dv, n); checkLaunch("filterPositive"); checkCuda(cudaMemcpy(got, sums, 24, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(&count, counters, 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(gotLabels.data(), counters + 1, 20, cudaMemcpyDeviceToHost));
        report("binary partitions", got[0] == odd[0] && got[1] == odd[1] && got[2] == odd[2]); digest(got, 24); bool ok = count == (int)positive.size() && gotLabels == labels;
        if (ok) { thrust::device_ptr<int> p(kept); thrust::sort(p, p + count); std::vector<int> k(count); checkCuda(cudaMemcpy(k.data(), kept, count * 4, cudaMemcpyDeviceToHost)); ok = k == positive; digest(k.data(), count * 4); }
        report("aggregated atomics", ok); cudaFree(dv); cudaFree(kept); cudaFree(counters); cudaFree(sums);
    }
    {
        const int all = 64 * 256; std::vector<int> v = {0, 0, 0, -(1 << 30), 1 << 30, 0, 0, 0, 0xff, 0, 0, 0, -1, 0}; std::vector<unsigned long long> w = {0, 0, 0, ~0ull, 0, 0, 0, 0}; int *dv = upload(v); unsigned long long *dw = upload(w); everyAtomic<<<64, 256>>>(dv, dw); checkLaunch("everyAtomic"); checkCuda(cudaMemcpy(v.data(), dv, v.size() * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(w.data(), dw, w.size() * 8, cudaMemcpyDeviceToHost));
        int mask = 0xff, x = 0, inc = 0, dec = 0; unsigned long long sq = 0; for (int t = 0; t < all; t++) { mask &= 2 * t + 7; x ^= t; inc = inc >= 17 ? 0 : inc + 1; dec = dec == 0 || dec > 137 ? 137 : dec - 1; sq ^= (unsigned long long)t * t; } double one; memcpy(&one, &w[7], 8);
        // v[11] is atomic in its block alone: only the first one counts
        report("atomics of every kind", v[0] == 10 * all && v[1] == -10 * all && v[2] == 77 && v[3] == all - 1 && v[4] == -5000 && v[5] == inc && v[6] == dec && v[7] == 9 && v[8] == mask && v[9] == 0x7fffffff && v[10] == x && v[11] == 256 && (unsigned)v[12] == 3000000000u - (all - 1) && (unsigned)v[13] == 3000000000u + all - 1 && w[0] == (unsigned long long)all << 33 && w[1] == (unsigned long long)(all - 1) << 20 && (long long)w[2] == -(long long)(all - 1) * 1000000007 && w[3] == 0 && w[4] == ~0ull && w[5] == sq && w[6] == 1ull << 40 && one == all);
        digest(v.data(), v.size() * 4); digest(w.data(), w.size() * 8); cudaFree(dv); cudaFree(dw);
    }
    {   // reductions
        const int n = 1 << 21; std::vector<float> in(n); double want = 0, square = 0; for (auto &v : in) { v = frand(); want += v; square += (double)v * v; } float *di = upload(in), *out, *length, once[3], l; double *parts, whole; checkCuda(cudaMalloc((void **)&out, 512 * 4)); checkCuda(cudaMalloc((void **)&parts, 4096 * 8)); checkCuda(cudaMalloc((void **)&length, 4));
        for (int i = 0; i < 3; i++) { reduceOnce<<<64 << i, 256>>>(di, out, n); checkLaunch("reduceOnce"); checkCuda(cudaMemcpy(&once[i], out, 4, cudaMemcpyDeviceToHost)); }
        report("reduction with fences", fabs(once[0] - want) < 1e-4 * want && fabs(once[1] - want) < 1e-4 * want && fabs(once[2] - want) < 1e-4 * want); digest(once, sizeof once);
        int perSm, count = n; checkCuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, reduceGrid, 256, 256)); int blocks = std::min(96, perSm * prop.multiProcessorCount); void *args[] = {&di, &parts, &count}; checkCuda(cudaLaunchCooperativeKernel((void *)reduceGrid, dim3(blocks), dim3(256), args, 256, NULL)); checkCuda(cudaMemcpy(&whole, parts, 8, cudaMemcpyDeviceToHost)); report("reduction over the grid", fabs(whole - want) < 1e-8 * want); digest(&whole, 8);
        float *copy = upload(in); void *args2[] = {&di, &copy, &count, &parts, &length}; checkCuda(cudaLaunchCooperativeKernel((void *)normalise, dim3(std::min(blocks, 64)), dim3(256), args2, 0, NULL)); checkCuda(cudaMemcpy(&l, length, 4, cudaMemcpyDeviceToHost)); std::vector<float> unit(n); checkCuda(cudaMemcpy(unit.data(), di, n * 4, cudaMemcpyDeviceToHost)); double one = 0; for (float v : unit) one += (double)v * v; report("barrier in halves", fabs(one - 1) < 1e-5 && fabs(l - sqrt(square)) < 1e-3 * l); digest(&l, 4); digest(unit.data(), n * 4);
        clock_t *ticks; checkCuda(cudaMalloc((void **)&ticks, 128 * sizeof(clock_t))); timedMinimum<<<64, 256>>>(copy, out, ticks); checkLaunch("timedMinimum"); std::vector<float> least(64); checkCuda(cudaMemcpy(least.data(), out, 64 * 4, cudaMemcpyDeviceToHost)); float m = *std::min_element(in.begin(), in.begin() + 512); int bad = 0; for (float v : least) bad += v != m; report("the clock in a kernel", bad == 0); digest(least.data(), 256);
        cudaFree(di); cudaFree(copy); cudaFree(out); cudaFree(parts); cudaFree(length); cudaFree(ticks);
    }
    {
        const int w = 640, h = 360; std::vector<unsigned char> in(w * h); std::vector<unsigned> out(w * h), ref(w * h); for (auto &v : in) v = nextRandom(); unsigned char *di = upload(in); unsigned *d; checkCuda(cudaMalloc((void **)&d, w * h * 4)); integralRows<<<h, 32>>>(di, d, w); integralColumns<<<iDivUp(w, 64), 64>>>(d, w, h); checkLaunch("integral"); checkCuda(cudaMemcpy(out.data(), d, w * h * 4, cudaMemcpyDeviceToHost));
        for (int y = 0; y < h; y++) { unsigned s = 0; for (int x = 0; x < w; x++) { s += in[y * w + x]; ref[y * w + x] = s + (y ? ref[(y - 1) * w + x] : 0); } } report("integral image by shuffles", out == ref); digest(out.data(), w * h * 4); cudaFree(di); cudaFree(d);
    }
    FINISH("hopperkit");
}
