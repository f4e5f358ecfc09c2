// Transforms and compression: 8x8 DCT (two kernels, quantised, inverted), Haar wavelet by levels, fast Walsh transform with a dyadic
// convolution, compression of textures in blocks of 4x4.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"

// ---------------------------------------------------------------- DCT
#define BLK 8
__constant__ float c_dct[64], c_quant[64];

// One thread a pixel, products with the matrix of cosines; the image comes through a texture
__global__ void dctForwardNaive(float *dst, int stride, int offX, int offY, cudaTextureObject_t src)
{
    __shared__ float a[64], b[64];
    int tx = threadIdx.x, ty = threadIdx.y;
    float x = blockIdx.x * BLK + tx + offX + .5f, y = blockIdx.y * BLK + ty + offY + .5f;
    a[ty * BLK + tx] = tex2D<float>(src, x, y);
    __syncthreads();
    float s = 0;
    for (int i = 0; i < BLK; i++) s += c_dct[i * BLK + ty] * a[i * BLK + tx];       // C^T X
    b[ty * BLK + tx] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < BLK; i++) s += b[ty * BLK + i] * c_dct[i * BLK + tx];       // (C^T X) C
    dst[(blockIdx.y * BLK + ty + offY) * stride + blockIdx.x * BLK + tx + offX] = s;
}
__global__ void dctInverseNaive(float *dst, const float *src, int stride)
{
    __shared__ float a[64], b[64];
    int tx = threadIdx.x, ty = threadIdx.y, at = (blockIdx.y * BLK + ty) * stride + blockIdx.x * BLK + tx;
    a[ty * BLK + tx] = src[at];
    __syncthreads();
    float s = 0;
    for (int i = 0; i < BLK; i++) s += c_dct[ty * BLK + i] * a[i * BLK + tx];
    b[ty * BLK + tx] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < BLK; i++) s += b[ty * BLK + i] * c_dct[tx * BLK + i];
    dst[at] = s;
}
// Eight threads a block of 8x8: each transforms a row in registers, then a column; several blocks in one of threads
__device__ void transform8(float *v, int step)
{
    float in[8];
#pragma unroll
    for (int i = 0; i < 8; i++) in[i] = v[i * step];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float s = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) s += c_dct[i * BLK + k] * (k & 1 ? in[i] - in[7 - i] : in[i] + in[7 - i]);
        v[k * step] = s;
    }
}
__global__ void dctForwardRegisters(float *dst, const float *src, int stride)
{
    __shared__ float tile[4][8][9];     // four blocks side by side
    int lane = threadIdx.x, which = threadIdx.y, x0 = (blockIdx.x * 4 + which) * 8, y0 = blockIdx.y * 8;
    for (int i = 0; i < 8; i++) tile[which][i][lane] = src[(y0 + i) * stride + x0 + lane];
    __syncthreads();
    transform8(&tile[which][lane][0], 1);
    __syncthreads();
    transform8(&tile[which][0][lane], 9);
    __syncthreads();
    for (int i = 0; i < 8; i++) dst[(y0 + i) * stride + x0 + lane] = tile[which][i][lane];
}
__global__ void quantise(float *v, int stride)
{
    int x = blockIdx.x * BLK + threadIdx.x, y = blockIdx.y * BLK + threadIdx.y;
    float q = c_quant[threadIdx.y * BLK + threadIdx.x];
    v[y * stride + x] = rintf(v[y * stride + x] / q) * q;
}

// ---------------------------------------------------------------- Haar wavelet: a block does ten levels of 1024 values
#define INV_SQRT2 0.70710678118654752440f
__global__ void haar(const float *in, float *out, float *approximation, int levels, int n)
{
    extern __shared__ float data[];
    int tid = threadIdx.x, half = blockDim.x, base = blockIdx.x * half * 2;
    data[tid] = in[base + tid]; data[tid + half] = in[base + tid + half];
    __syncthreads();
    int detail = n / 2;                                  // where the details of this level begin
    for (int l = 0, width = half; l < levels; l++, width /= 2, detail /= 2) {
        float a = 0, b = 0;
        if (tid < width) { a = data[2 * tid]; b = data[2 * tid + 1]; }
        __syncthreads();
        if (tid < width) {
            data[tid] = (a + b) * INV_SQRT2;
            out[detail + blockIdx.x * width + tid] = (a - b) * INV_SQRT2;
        }
        __syncthreads();
    }
    if (tid == 0) approximation[blockIdx.x] = data[0];
}

// ---------------------------------------------------------------- Walsh
typedef long long i64;
__global__ void walshShared(i64 *data, int log2n)
{
    extern __shared__ i64 s[];
    const int n = 1 << log2n;
    data += (size_t)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = data[i];
    for (int stride = 1; stride < n; stride *= 2) {
        __syncthreads();
        for (int p = threadIdx.x; p < n / 2; p += blockDim.x) {
            int lo = p & (stride - 1), i = ((p - lo) << 1) + lo;
            i64 a = s[i], b = s[i + stride];
            s[i] = a + b; s[i + stride] = a - b;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = s[i];
}
__global__ void walshGlobal(i64 *data, int stride, int n)     // radix 4
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n / 4) return;
    int lo = p & (stride - 1), i = ((p - lo) << 2) + lo;
    i64 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
    i64 ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
    data[i] = ab + cd; data[i + stride] = a_b + c_d; data[i + 2 * stride] = ab - cd; data[i + 3 * stride] = a_b - c_d;
}
__global__ void modulate(i64 *a, const i64 *b, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a[i] *= b[i]; }
static void walsh(i64 *d, int log2n)
{
    int n = 1 << log2n, log = log2n;
    for (; log > 11; log -= 2) { walshGlobal<<<iDivUp(n / 4, 256), 256>>>(d, 1 << (log - 2), n); checkLaunch("walshGlobal"); }
    walshShared<<<n >> log, 256, sizeof(i64) << log>>>(d, log);
    checkLaunch("walshShared");
}

// ---------------------------------------------------------------- blocks of 4x4: the best pair of end points among all pairs of pixels
__host__ __device__ inline int distance2(uchar4 a, int r, int g, int b) { return (a.x - r) * (a.x - r) + (a.y - g) * (a.y - g) + (a.z - b) * (a.z - b); }
__host__ __device__ inline int tryPair(const uchar4 *px, int i, int j, unsigned *indices)
{
    uchar4 p = px[i], q = px[j];
    int error = 0; unsigned bits = 0;
    for (int k = 0; k < 16; k++) {
        int best = 1 << 30, at = 0;
        for (int c = 0; c < 4; c++) {
            int d = distance2(px[k], ((3 - c) * p.x + c * q.x) / 3, ((3 - c) * p.y + c * q.y) / 3, ((3 - c) * p.z + c * q.z) / 3);
            if (d < best) { best = d; at = c; }
        }
        error += best; bits |= (unsigned)at << (2 * k);
    }
    *indices = bits;
    return error;
}
__host__ __device__ inline unsigned short pack565(uchar4 c) { return (c.x >> 3) << 11 | (c.y >> 2) << 5 | c.z >> 3; }
__global__ void __launch_bounds__(64) compressBlocks(const uchar4 *image, int w, uint2 *out)
{
    __shared__ uchar4 px[16];
    __shared__ unsigned long long best[64];
    int tid = threadIdx.x, bx = blockIdx.x % (w / 4), by = blockIdx.x / (w / 4);
    if (tid < 16) px[tid] = image[(by * 4 + tid / 4) * w + bx * 4 + tid % 4];
    __syncthreads();
    unsigned long long mine = ~0ull;
    for (int pair = tid; pair < 256; pair += 64) {
        if (pair % 16 <= pair / 16) continue;
        unsigned indices;
        unsigned long long key = (unsigned long long)tryPair(px, pair / 16, pair % 16, &indices) << 32 | pair;
        mine = key < mine ? key : mine;
    }
    best[tid] = mine;
    __syncthreads();
    for (int s = 32; s; s /= 2) { if (tid < s && best[tid + s] < best[tid]) best[tid] = best[tid + s]; __syncthreads(); }
    if (tid == 0) {
        int pair = (int)(best[0] & 255); unsigned indices;
        tryPair(px, pair / 16, pair % 16, &indices);
        out[blockIdx.x] = make_uint2(pack565(px[pair / 16]) | (unsigned)pack565(px[pair % 16]) << 16, indices);
    }
}

int main()
{
    printf("[dctwave]\n");
    findDevice();
    EventTimer timer;
    const int W = 512, H = 512;
    std::vector<float> image(W * H), back(W * H), first(W * H), second(W * H);
    for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) image[y * W + x] = 100 * sinf(x * .05f) * cosf(y * .031f) + (x / 64 + y / 64) % 2 * 20 - 10 + frand() * 4;
    float cosines[64], quant[64];
    for (int i = 0; i < 8; i++) for (int k = 0; k < 8; k++) {
        cosines[i * 8 + k] = (k ? .5f : sqrtf(.125f)) * cosf((2 * i + 1) * k * 3.14159265358979f / 16);
        quant[i * 8 + k] = 4 + 3 * (i + k);
    }
    checkCuda(cudaMemcpyToSymbol(c_dct, cosines, sizeof cosines)); checkCuda(cudaMemcpyToSymbol(c_quant, quant, sizeof quant));
    cudaArray_t array; cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    checkCuda(cudaMallocArray(&array, &desc, W, H));
    checkCuda(cudaMemcpy2DToArray(array, 0, 0, image.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaResourceDesc res; memset(&res, 0, sizeof res); res.resType = cudaResourceTypeArray; res.res.array.array = array;
    cudaTextureDesc td; memset(&td, 0, sizeof td); td.addressMode[0] = td.addressMode[1] = cudaAddressModeWrap; td.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture; checkCuda(cudaCreateTextureObject(&texture, &res, &td, NULL));
    float *d_src, *d_dst; size_t pitch, pitch2;
    checkCuda(cudaMallocPitch((void **)&d_src, &pitch, W * 4, H)); checkCuda(cudaMallocPitch((void **)&d_dst, &pitch2, W * 4, H));
    const int stride = pitch / 4; const dim3 pixels(8, 8), blocks(W / 8, H / 8);
    checkCuda(cudaMemcpy2D(d_src, pitch, image.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    timer.start();
    dctForwardNaive<<<blocks, pixels>>>(d_dst, stride, 0, 0, texture);
    checkLaunch("dctForwardNaive"); timer.stop();
    checkCuda(cudaMemcpy2D(first.data(), W * 4, d_dst, pitch2, W * 4, H, cudaMemcpyDeviceToHost));
    dctForwardRegisters<<<dim3(W / 32, H / 8), dim3(8, 4)>>>(d_dst, d_src, stride);
    checkLaunch("dctForwardRegisters");
    checkCuda(cudaMemcpy2D(second.data(), W * 4, d_dst, pitch2, W * 4, H, cudaMemcpyDeviceToHost));
    double worst = 0, energy = 0, energyOut = 0, mse = 0;
    for (int i = 0; i < W * H; i++) { worst = fmax(worst, fabs(first[i] - second[i])); energy += image[i] * image[i]; energyOut += first[i] * first[i]; }
    report("dct, both kernels agree", worst < 1e-2);
    report("dct, energy is kept", fabs(energy - energyOut) < 1e-3 * energy);
    quantise<<<blocks, pixels>>>(d_dst, stride);
    dctInverseNaive<<<blocks, pixels>>>(d_src, d_dst, stride);
    checkLaunch("dctInverse");
    checkCuda(cudaMemcpy2D(back.data(), W * 4, d_src, pitch, W * 4, H, cudaMemcpyDeviceToHost));
    for (int i = 0; i < W * H; i++) mse += (back[i] - image[i]) * (back[i] - image[i]) / (W * H);
    report("dct, PSNR after quantisation", 10 * log10(255 * 255 / mse) > 28);
    digest(first.data(), W * H * 4); digest(back.data(), W * H * 4);

    // Haar: 2^20 values, twice ten levels
    const int N = 1 << 20;
    std::vector<float> signal(N), out(N), check(N);
    for (int i = 0; i < N; i++) signal[i] = sinf(i * 1e-3f) * 10 + frand();
    float *d_in, *d_out, *d_approx;
    checkCuda(cudaMalloc((void **)&d_in, N * 4)); checkCuda(cudaMalloc((void **)&d_out, N * 4)); checkCuda(cudaMalloc((void **)&d_approx, 1024 * 4));
    checkCuda(cudaMemcpy(d_in, signal.data(), N * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemset(d_out, 0, N * 4));
    haar<<<N / 1024, 512, 1024 * 4>>>(d_in, d_out, d_approx, 10, N);
    haar<<<1, 512, 1024 * 4>>>(d_approx, d_out, d_in, 10, 1024);
    checkCuda(cudaMemcpy(d_out, d_in, sizeof(float), cudaMemcpyDeviceToDevice));
    checkLaunch("haar");
    checkCuda(cudaMemcpy(out.data(), d_out, N * 4, cudaMemcpyDeviceToHost));
    check = out;                                        // the inverse on the CPU
    for (int width = 1; width < N; width *= 2) {
        std::vector<float> next(2 * width);
        for (int i = 0; i < width; i++) { next[2 * i] = (check[i] + check[width + i]) * INV_SQRT2; next[2 * i + 1] = (check[i] - check[width + i]) * INV_SQRT2; }
        std::copy(next.begin(), next.end(), check.begin());
    }
    worst = 0;
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(check[i] - signal[i]));
    report("haar wavelet, inverted by the CPU", worst < 2e-2);
    digest(out.data(), N * 4);

    // Dyadic convolution: data of 2^18, kernel of 2^7
    const int logN = 18, n = 1 << logN, kn = 1 << 7;
    std::vector<i64> data(n), kernel(n), conv(n);
    for (int i = 0; i < n; i++) data[i] = nextRandom() % 16;
    for (int i = 0; i < kn; i++) kernel[i] = nextRandom() % 16;
    i64 *d_data, *d_kernel;
    checkCuda(cudaMalloc((void **)&d_data, n * 8)); checkCuda(cudaMalloc((void **)&d_kernel, n * 8));
    checkCuda(cudaMemset(d_kernel, 0, n * 8));
    checkCuda(cudaMemcpy(d_kernel, kernel.data(), kn * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(d_data, data.data(), n * 8, cudaMemcpyHostToDevice));
    walsh(d_data, logN); walsh(d_kernel, logN);
    modulate<<<128, 256>>>(d_data, d_kernel, n);
    walsh(d_data, logN);
    checkCuda(cudaMemcpy(conv.data(), d_data, n * 8, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int i = 0; i < n; i += 5) {
        i64 s = 0;
        for (int j = 0; j < kn; j++) s += data[i ^ j] * kernel[j];
        bad += s * n != conv[i];
    }
    report("fast Walsh transform, dyadic convolution", bad == 0);
    digest(conv.data(), n * 8);

    // Compression
    const int S = 256;
    std::vector<uchar4> picture(S * S); std::vector<uint2> compressed(S * S / 16);
    for (int y = 0; y < S; y++) for (int x = 0; x < S; x++) picture[y * S + x] = make_uchar4(x ^ y, (x * y) >> 8, (128 + 100 * ((x / 6 + y / 10) % 2)) - nextRandom() % 12, 255);
    uchar4 *d_picture; uint2 *d_compressed;
    checkCuda(cudaMalloc((void **)&d_picture, S * S * 4)); checkCuda(cudaMalloc((void **)&d_compressed, S * S / 2));
    checkCuda(cudaMemcpy(d_picture, picture.data(), S * S * 4, cudaMemcpyHostToDevice));
    for (int i = 0; i < 8; i++) compressBlocks<<<S * S / 16, 64>>>(d_picture, S, d_compressed);
    checkLaunch("compressBlocks");
    checkCuda(cudaMemcpy(compressed.data(), d_compressed, S * S / 2, cudaMemcpyDeviceToHost));
    bad = 0;
    for (int b = 0; b < S * S / 16; b += 16) {
        uchar4 px[16]; unsigned indices, keep = 0; int least = 1 << 30, pair = 0;
        for (int k = 0; k < 16; k++) px[k] = picture[(b / (S / 4) * 4 + k / 4) * S + b % (S / 4) * 4 + k % 4];
        for (int i = 0; i < 16; i++) for (int j = i + 1; j < 16; j++) {
            int e = tryPair(px, i, j, &indices);
            if (e < least) { least = e; pair = i * 16 + j; keep = indices; }
        }
        bad += compressed[b].y != keep || compressed[b].x != (pack565(px[pair / 16]) | (unsigned)pack565(px[pair % 16]) << 16);
    }
    report("block compression", bad == 0);
    digest(compressed.data(), S * S / 2);
    checkCuda(cudaDestroyTextureObject(texture)); checkCuda(cudaFreeArray(array));
    cudaFree(d_src); cudaFree(d_dst); cudaFree(d_in); cudaFree(d_out); cudaFree(d_approx); cudaFree(d_data); cudaFree(d_kernel); cudaFree(d_picture); cudaFree(d_compressed);
    FINISH("dctwave");
}
