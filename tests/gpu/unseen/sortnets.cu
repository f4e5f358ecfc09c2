// Orders and prefixes: scan of large arrays over several levels, bitonic and odd-even merge networks, radix sort by splits, merge sort by
// ranks, scalar products, line of sight with a texture and Thrust, permutations by their numbers.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/scan.h>
typedef unsigned int uint;

// ---------------------------------------------------------------- scan
#define SCAN_THREADS 256
#define SCAN_TILE (4 * SCAN_THREADS)
__device__ uint scanBlock(uint v, volatile uint *s, uint *total)      // exclusive; s has 2 * SCAN_THREADS
{
    uint pos = 2 * threadIdx.x - (threadIdx.x & (SCAN_THREADS - 1));
    s[pos] = 0;
    pos += SCAN_THREADS;
    s[pos] = v;
    for (uint offset = 1; offset < SCAN_THREADS; offset <<= 1) {
        __syncthreads();
        uint t = s[pos] + s[pos - offset];
        __syncthreads();
        s[pos] = t;
    }
    __syncthreads();
    *total = s[2 * SCAN_THREADS - 1];
    return s[pos] - v;
}
__global__ void scanTiles(uint4 *dst, const uint4 *src, uint *sums, uint n4)
{
    __shared__ uint s[2 * SCAN_THREADS];
    uint i = blockIdx.x * SCAN_THREADS + threadIdx.x, total;
    uint4 v = i < n4 ? src[i] : make_uint4(0, 0, 0, 0);
    uint a = v.x, b = a + v.y, c = b + v.z, d = c + v.w, base = scanBlock(d, s, &total);
    if (i < n4) dst[i] = make_uint4(base, base + a, base + b, base + c);
    if (threadIdx.x == 0 && sums) sums[blockIdx.x] = total;
}
__global__ void uniformUpdate(uint4 *data, const uint *sums, uint n4)
{
    __shared__ uint by;
    if (threadIdx.x == 0) by = sums[blockIdx.x];
    __syncthreads();
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4) return;
    uint4 v = data[i];
    v.x += by; v.y += by; v.z += by; v.w += by;
    data[i] = v;
}
static uint *scanBuffers[4];
static void exclusiveScan(uint *dst, const uint *src, uint n, int level = 0)     // n a multiple of 4
{
    uint tiles = iDivUp(n, SCAN_TILE);
    if (tiles == 1) { scanTiles<<<1, SCAN_THREADS>>>((uint4 *)dst, (const uint4 *)src, NULL, n / 4); checkLaunch("scanTiles"); return; }
    uint padded = iDivUp(tiles, 4) * 4;
    if (!scanBuffers[level]) { checkCuda(cudaMalloc((void **)&scanBuffers[level], (1 << 16) * sizeof(uint))); checkCuda(cudaMemset(scanBuffers[level], 0, (1 << 16) * sizeof(uint))); }
    scanTiles<<<tiles, SCAN_THREADS>>>((uint4 *)dst, (const uint4 *)src, scanBuffers[level], n / 4);
    checkLaunch("scanTiles");
    exclusiveScan(scanBuffers[level], scanBuffers[level], padded, level + 1);
    uniformUpdate<<<tiles, SCAN_THREADS>>>((uint4 *)dst, scanBuffers[level], n / 4);
    checkLaunch("uniformUpdate");
}

// ---------------------------------------------------------------- sorting networks over pairs
#define SHARED_LIMIT 1024
__device__ inline void comparator(uint &ka, uint &va, uint &kb, uint &vb, uint up)
{
    if ((ka > kb) == up) { uint t = ka; ka = kb; kb = t; t = va; va = vb; vb = t; }
}
__global__ void bitonicShared(uint *keys, uint *values)        // sorts each SHARED_LIMIT, up and down in turns
{
    __shared__ uint k[SHARED_LIMIT], v[SHARED_LIMIT];
    uint tid = threadIdx.x, base = blockIdx.x * SHARED_LIMIT, half = SHARED_LIMIT / 2;
    k[tid] = keys[base + tid]; v[tid] = values[base + tid]; k[tid + half] = keys[base + tid + half]; v[tid + half] = values[base + tid + half];
    for (uint size = 2; size < SHARED_LIMIT; size <<= 1) {
        uint up = (tid & (size / 2)) == 0;
        for (uint stride = size / 2; stride > 0; stride >>= 1) { __syncthreads(); uint p = 2 * tid - (tid & (stride - 1)); comparator(k[p], v[p], k[p + stride], v[p + stride], up); }
    }
    uint up = (blockIdx.x & 1) == 0;
    for (uint stride = SHARED_LIMIT / 2; stride > 0; stride >>= 1) { __syncthreads(); uint p = 2 * tid - (tid & (stride - 1)); comparator(k[p], v[p], k[p + stride], v[p + stride], up); }
    __syncthreads();
    keys[base + tid] = k[tid]; values[base + tid] = v[tid]; keys[base + tid + half] = k[tid + half]; values[base + tid + half] = v[tid + half];
}
__global__ void bitonicMergeGlobal(uint *keys, uint *values, uint size, uint stride)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x, up = (i & (size / 2)) == 0, p = 2 * i - (i & (stride - 1));
    comparator(keys[p], values[p], keys[p + stride], values[p + stride], up);
}
__global__ void bitonicMergeShared(uint *keys, uint *values, uint size)
{
    __shared__ uint k[SHARED_LIMIT], v[SHARED_LIMIT];
    uint tid = threadIdx.x, base = blockIdx.x * SHARED_LIMIT, half = SHARED_LIMIT / 2, i = blockIdx.x * half + tid, up = (i & (size / 2)) == 0;
    k[tid] = keys[base + tid]; v[tid] = values[base + tid]; k[tid + half] = keys[base + tid + half]; v[tid + half] = values[base + tid + half];
    for (uint stride = SHARED_LIMIT / 2; stride > 0; stride >>= 1) { __syncthreads(); uint p = 2 * tid - (tid & (stride - 1)); comparator(k[p], v[p], k[p + stride], v[p + stride], up); }
    __syncthreads();
    keys[base + tid] = k[tid]; values[base + tid] = v[tid]; keys[base + tid + half] = k[tid + half]; values[base + tid + half] = v[tid + half];
}
__global__ void oddEvenGlobal(uint *keys, uint *values, uint size, uint stride)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x, p = 2 * i - (i & (stride - 1));
    if (stride < size / 2) {
        if ((i & (size / 2 - 1)) >= stride) comparator(keys[p - stride], values[p - stride], keys[p], values[p], 1);
    } else
        comparator(keys[p], values[p], keys[p + stride], values[p + stride], 1);
}

// ---------------------------------------------------------------- radix sort: a split for each bit
__global__ void zeroBits(const uint *keys, uint *flags, uint bit, uint n) { uint i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) flags[i] = !(keys[i] >> bit & 1); }
__global__ void split(const uint *keys, const uint *values, const uint *before, uint *outKeys, uint *outValues, uint bit, uint n)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint zeros = before[n - 1] + !(keys[n - 1] >> bit & 1), one = keys[i] >> bit & 1, to = one ? zeros + i - before[i] : before[i];
    outKeys[to] = keys[i]; outValues[to] = values[i];
}

// ---------------------------------------------------------------- merge sort: each element finds its place by binary search (stable)
template <bool inclusive> __device__ uint rankOf(uint key, const uint *run, uint n)
{
    uint lo = 0, hi = n;
    while (lo < hi) { uint mid = (lo + hi) / 2; if (inclusive ? run[mid] <= key : run[mid] < key) lo = mid + 1; else hi = mid; }
    return lo;
}
__global__ void mergeRuns(uint *outKeys, uint *outValues, const uint *keys, const uint *values, uint run, uint n)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint pair = i / (2 * run) * 2 * run, at = i - pair, key = keys[i];
    uint to = at < run ? at + rankOf<false>(key, keys + pair + run, run) : at - run + rankOf<true>(key, keys + pair, run);
    outKeys[pair + to] = key; outValues[pair + to] = values[i];
}

// ---------------------------------------------------------------- scalar products
#define ACCUMULATORS 1024
__global__ void scalarProducts(float *out, const float *a, const float *b, int vectors, int elements)
{
    __shared__ float sums[ACCUMULATORS];
    for (int v = blockIdx.x; v < vectors; v += gridDim.x) {
        int from = v * elements;
        for (int i = threadIdx.x; i < ACCUMULATORS; i += blockDim.x) {
            float s = 0;
            for (int p = from + i; p < from + elements; p += ACCUMULATORS) s += a[p] * b[p];
            sums[i] = s;
        }
        for (int stride = ACCUMULATORS / 2; stride; stride >>= 1) {
            __syncthreads();
            for (int i = threadIdx.x; i < stride; i += blockDim.x) sums[i] += sums[i + stride];
        }
        __syncthreads();
        if (threadIdx.x == 0) out[v] = sums[0];
        __syncthreads();
    }
}

// ---------------------------------------------------------------- line of sight, permutations
__global__ void slopes(float *out, int n, float2 origin, float height, float2 direction, float step, cudaTextureObject_t field)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = (i + 1) * step;
    float x = __fadd_rn(origin.x, __fmul_rn(d, direction.x)), y = __fadd_rn(origin.y, __fmul_rn(d, direction.y));
    out[i] = (tex2D<float>(field, x, y) - height) / d;
}
__global__ void visible(const float *highest, const float *slope, bool *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = highest[i] <= slope[i]; }
__global__ void derangements(unsigned long long *counts, int items, uint total)
{
    __shared__ uint mine;
    if (threadIdx.x == 0) mine = 0;
    __syncthreads();
    for (uint number = blockIdx.x * blockDim.x + threadIdx.x; number < total; number += gridDim.x * blockDim.x) {
        uint rest = number, left = (1u << items) - 1, radix = total, fixed = 0, inversions = 0;
        for (int i = 0; i < items; i++) {
            radix /= items - i;
            uint digit = rest / radix, mask = left; rest %= radix;
            for (uint k = 0; k < digit; k++) mask &= mask - 1;
            uint at = __ffs(mask) - 1;
            fixed += at == i; inversions += digit; left &= ~(1u << at);
        }
        if (fixed == 0) atomicAdd(&mine, 1u);
        atomicAdd(&counts[1 + (inversions & 1)], 1ull);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&counts[0], (unsigned long long)mine);
}

int main()
{
    printf("[sortnets]\n");
    findDevice();
    EventTimer timer;
    const uint N = 1 << 20, M = 1 << 18, size = N * sizeof(uint), msize = M * sizeof(uint);
    std::vector<uint> in(N), out(N), values(M), k(M), v(M);
    uint *d_in, *d_out, *dk, *dv, *ek, *ev, *df;
    checkCuda(cudaMalloc((void **)&d_in, 8 * size)); checkCuda(cudaMalloc((void **)&d_out, 8 * size));
    for (uint **p : {&dk, &dv, &ek, &ev, &df}) checkCuda(cudaMalloc((void **)p, msize));
    for (auto &x : in) x = nextRandom() & 1023;
    checkCuda(cudaMemcpy(d_in, in.data(), size, cudaMemcpyHostToDevice));
    for (int i = 1; i < 8; i++) checkCuda(cudaMemcpy(d_in + i * N, d_in, size, cudaMemcpyDeviceToDevice));
    for (uint length = 1024; length <= 8 * N; length *= 8) {
        timer.start(); exclusiveScan(d_out, d_in, length); timer.stop();
        uint show = std::min(length, N), sum = 0; int bad = 0;
        for (uint part = 0; part < length; part += show) {
            checkCuda(cudaMemcpy(out.data(), d_out + part, show * sizeof(uint), cudaMemcpyDeviceToHost));
            for (uint i = 0; i < show; i++) { bad += out[i] != sum; sum += in[(part + i) & (N - 1)]; }
        }
        char name[64]; snprintf(name, sizeof name, "scan of %u", length);
        report(name, bad == 0);
        digest(out.data(), show * sizeof(uint));
    }
    for (uint i = 0; i < M; i++) { in[i] = nextRandom() & 0xffff; values[i] = i; }
    std::vector<std::pair<uint, uint>> sorted(M);
    for (uint i = 0; i < M; i++) sorted[i] = {in[i], i};
    std::sort(sorted.begin(), sorted.end());
    const char *names[] = {"bitonic network", "odd-even merge network", "radix sort by splits", "merge sort by ranks"};
    for (int method = 0; method < 4; method++) {
        checkCuda(cudaMemcpy(dk, in.data(), msize, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(dv, values.data(), msize, cudaMemcpyHostToDevice));
        timer.start();
        if (method == 0) {
            bitonicShared<<<M / SHARED_LIMIT, SHARED_LIMIT / 2>>>(dk, dv);
            for (uint size = 2 * SHARED_LIMIT; size <= M; size <<= 1)
                for (uint stride = size / 2; stride > 0; stride >>= 1)
                    if (stride >= SHARED_LIMIT) bitonicMergeGlobal<<<M / 512, 256>>>(dk, dv, size == M ? 2 * M : size, stride);
                    else { bitonicMergeShared<<<M / SHARED_LIMIT, SHARED_LIMIT / 2>>>(dk, dv, size == M ? 2 * M : size); break; }
        } else if (method == 1) {
            for (uint size = 2; size <= M; size <<= 1)
                for (uint stride = size / 2; stride > 0; stride >>= 1) oddEvenGlobal<<<M / 512, 256>>>(dk, dv, size, stride);
        } else if (method == 2) {
            for (uint bit = 0; bit < 16; bit++) {
                zeroBits<<<M / 256, 256>>>(dk, df, bit, M);
                exclusiveScan(df, df, M);
                split<<<M / 256, 256>>>(dk, dv, df, ek, ev, bit, M);
                std::swap(dk, ek); std::swap(dv, ev);
            }
        } else
            for (uint run = 1; run < M; run *= 2) { mergeRuns<<<M / 256, 256>>>(ek, ev, dk, dv, run, M); std::swap(dk, ek); std::swap(dv, ev); }
        checkLaunch(names[method]);
        timer.stop();
        checkCuda(cudaMemcpy(k.data(), dk, msize, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(v.data(), dv, msize, cudaMemcpyDeviceToHost));
        int bad = 0; std::vector<char> seen(M);
        for (uint i = 0; i < M; i++) {
            bad += k[i] != sorted[i].first || v[i] >= M || in[v[i] % M] != k[i] || seen[v[i] % M]++;
            if (method > 1) bad += v[i] != sorted[i].second;        // these are stable
        }
        report(names[method], bad == 0);
        digest(k.data(), msize); digest(v.data(), msize);
    }
    {
        const int vectors = 256, elements = 4096;
        std::vector<float> a(vectors * elements), b(a.size()), c(vectors);
        for (auto &x : a) x = frand();
        for (auto &x : b) x = frand() - .5f;
        float *d_a = (float *)d_in, *d_b = (float *)d_out, *d_c = (float *)dk;
        checkCuda(cudaMemcpy(d_a, a.data(), a.size() * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(d_b, b.data(), a.size() * 4, cudaMemcpyHostToDevice));
        scalarProducts<<<128, 256>>>(d_c, d_a, d_b, vectors, elements);
        checkLaunch("scalarProducts");
        checkCuda(cudaMemcpy(c.data(), d_c, vectors * 4, cudaMemcpyDeviceToHost));
        double worst = 0;
        for (int i = 0; i < vectors; i++) { double s = 0; for (int j = 0; j < elements; j++) s += (double)a[i * elements + j] * b[i * elements + j]; worst = fmax(worst, fabs(s - c[i])); }
        report("scalar products", worst < 1e-2);
        digest(c.data(), vectors * 4);
    }
    {
        const int side = 512, samples = 700;
        std::vector<float> field(side * side); std::vector<char> got(samples);
        for (int i = 0; i < side * side; i++) field[i] = 40 + 30 * sinf(i % side * .05f) * cosf(i / side * .04f) + frand();
        cudaArray_t array; cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
        checkCuda(cudaMallocArray(&array, &desc, side, side));
        checkCuda(cudaMemcpy2DToArray(array, 0, 0, field.data(), side * 4, side * 4, side, cudaMemcpyHostToDevice));
        cudaResourceDesc res; cudaTextureDesc td; memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
        res.resType = cudaResourceTypeArray; res.res.array.array = array; td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
        cudaTextureObject_t t; checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
        thrust::device_vector<float> slope(samples), highest(samples); thrust::device_vector<bool> seen(samples);
        float2 origin = make_float2(20.25f, 400.125f), direction = make_float2(.6f, -.5f);
        slopes<<<iDivUp(samples, 128), 128>>>(thrust::raw_pointer_cast(slope.data()), samples, origin, 90.f, direction, 1.f, t);
        thrust::inclusive_scan(slope.begin(), slope.end(), highest.begin(), thrust::maximum<float>());
        visible<<<iDivUp(samples, 128), 128>>>(thrust::raw_pointer_cast(highest.data()), thrust::raw_pointer_cast(slope.data()), thrust::raw_pointer_cast(seen.data()), samples);
        checkLaunch("visible");
        checkCuda(cudaMemcpy(got.data(), thrust::raw_pointer_cast(seen.data()), samples, cudaMemcpyDeviceToHost));
        float most = -1e30f; int bad = 0;
        for (int i = 0; i < samples; i++) {
            float d = i + 1; volatile float mx = d * direction.x, my = d * direction.y; float x = origin.x + mx, y = origin.y + my;
            float s = (field[std::min(std::max((int)floorf(y), 0), side - 1) * side + std::min(std::max((int)floorf(x), 0), side - 1)] - 90.f) / d;
            most = std::max(most, s);
            bad += (most <= s) != (got[i] != 0);
        }
        report("line of sight", bad <= 2);
        digest(got.data(), samples);
        checkCuda(cudaDestroyTextureObject(t)); checkCuda(cudaFreeArray(array));
    }
    unsigned long long *d_counts, counts[3];
    checkCuda(cudaMalloc((void **)&d_counts, sizeof counts)); checkCuda(cudaMemset(d_counts, 0, sizeof counts));
    derangements<<<256, 128>>>(d_counts, 9, 362880);
    checkLaunch("derangements");
    checkCuda(cudaMemcpy(counts, d_counts, sizeof counts, cudaMemcpyDeviceToHost));
    report("permutations of nine without a fixed point", counts[0] == 133496 && counts[1] == 181440 && counts[2] == 181440);
    digest(counts, sizeof counts);
    for (void *p : {(void *)d_in, (void *)d_out, (void *)dk, (void *)dv, (void *)ek, (void *)ev, (void *)df, (void *)d_counts, (void *)scanBuffers[0], (void *)scanBuffers[1]}) checkCuda(cudaFree(p));
    FINISH("sortnets");
}
