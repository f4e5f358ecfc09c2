// Image filters: separable convolution (shared memory and texture), Sobel with device function pointers, box filter through a
// normalised texture, bilateral filter in several passes, recursive Gaussian with transposes.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"

#define KERNEL_RADIUS 8
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
enum { W = 640, H = 480 };

__constant__ float c_Kernel[KERNEL_LENGTH];

// ---- separable convolution, shared memory
#define ROWS_X 16
#define ROWS_Y 4
#define ROWS_STEPS 8
__global__ void convolutionRows(float *dst, const float *src, int w, int h, int pitch)
{
    __shared__ float tile[ROWS_Y][(ROWS_STEPS + 2) * ROWS_X];
    const int baseX = (blockIdx.x * ROWS_STEPS - 1) * ROWS_X + threadIdx.x, y = blockIdx.y * ROWS_Y + threadIdx.y;
    src += y * pitch + baseX; dst += y * pitch + baseX;
#pragma unroll
    for (int i = 0; i < ROWS_STEPS + 2; i++) {
        int x = baseX + i * ROWS_X;
        tile[threadIdx.y][threadIdx.x + i * ROWS_X] = x >= 0 && x < w ? src[i * ROWS_X] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int i = 1; i <= ROWS_STEPS; i++) {
        float sum = 0;
#pragma unroll
        for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
            sum += c_Kernel[KERNEL_RADIUS - j] * tile[threadIdx.y][threadIdx.x + i * ROWS_X + j];
        dst[i * ROWS_X] = sum;
    }
}
__global__ void convolutionColumns(float *dst, const float *src, int w, int h, int pitch)
{
    __shared__ float tile[16][(6 + 2) * 8 + 1 + 2 * 8];
    const int x = blockIdx.x * 16 + threadIdx.x, baseY = (int)(blockIdx.y * 6 - 1) * 8 + (int)threadIdx.y;
    for (int i = 0; i < 8; i++) {
        int y = baseY + i * 8;
        tile[threadIdx.x][threadIdx.y + i * 8] = y >= 0 && y < h ? src[y * pitch + x] : 0.f;
    }
    __syncthreads();
    for (int i = 1; i <= 6; i++) {
        float sum = 0;
        for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
            sum += c_Kernel[KERNEL_RADIUS - j] * tile[threadIdx.x][threadIdx.y + i * 8 + j];
        dst[(baseY + i * 8) * pitch + x] = sum;
    }
}
// ---- the same by texture, the inner loop unrolled by a template
template <int i> __device__ float rowTap(float x, float y, cudaTextureObject_t t) { return tex2D<float>(t, x + (KERNEL_RADIUS - i), y) * c_Kernel[i] + rowTap<i - 1>(x, y, t); }
template <> __device__ float rowTap<-1>(float, float, cudaTextureObject_t) { return 0; }
template <int i> __device__ float colTap(float x, float y, cudaTextureObject_t t) { return tex2D<float>(t, x, y + (KERNEL_RADIUS - i)) * c_Kernel[i] + colTap<i - 1>(x, y, t); }
template <> __device__ float colTap<-1>(float, float, cudaTextureObject_t) { return 0; }
template <bool rows> __global__ void convolutionTexture(float *dst, cudaTextureObject_t t)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    dst[y * W + x] = rows ? rowTap<KERNEL_LENGTH - 1>(x + .5f, y + .5f, t) : colTap<KERNEL_LENGTH - 1>(x + .5f, y + .5f, t);
}

// ---- Sobel with function pointers
typedef unsigned char (*PointOp)(int, int);
__device__ unsigned char opPlain(int v, int) { return v < 0 ? 0 : v > 255 ? 255 : v; }
__device__ unsigned char opThreshold(int v, int t) { return v > t ? 255 : 0; }
__device__ unsigned char opInvert(int v, int) { return v > 255 ? 0 : 255 - v; }
__device__ PointOp d_plain = opPlain, d_threshold = opThreshold, d_invert = opInvert;
__constant__ PointOp c_ops[3];
__global__ void sobel(unsigned char *dst, cudaTextureObject_t t, int op, int argument)
{
    unsigned char *line = dst + blockIdx.x * W;
    for (int x = threadIdx.x; x < W; x += blockDim.x) {
        int p[9];
        for (int k = 0; k < 9; k++) p[k] = tex2D<unsigned char>(t, (float)(x - 1 + k % 3), (float)((int)blockIdx.x - 1 + k / 3));
        int horizontal = p[2] + 2 * p[5] + p[8] - p[0] - 2 * p[3] - p[6], vertical = p[0] + 2 * p[1] + p[2] - p[6] - 2 * p[7] - p[8];
        line[x] = (*c_ops[op])((abs(horizontal) + abs(vertical)) / 2, argument);
    }
}

// ---- box filter on RGBA: a row pass through the texture, a column pass with a sliding window
__global__ void boxRows(float4 *dst, cudaTextureObject_t t, int r)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= H) return;
    float4 s = make_float4(0, 0, 0, 0);
    for (int x = -r; x <= r; x++) { float4 v = tex2D<float4>(t, x, y); s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
    float by = 1.f / (2 * r + 1);
    for (int x = 0; x < W; x++) {
        dst[y * W + x] = make_float4(s.x * by, s.y * by, s.z * by, s.w * by);
        float4 in = tex2D<float4>(t, x + r + 1, y), out = tex2D<float4>(t, x - r, y);
        s.x += in.x - out.x; s.y += in.y - out.y; s.z += in.z - out.z; s.w += in.w - out.w;
    }
}
__device__ uchar4 packColour(float4 v)
{
    return make_uchar4(__saturatef(v.x) * 255 + .5f, __saturatef(v.y) * 255 + .5f, __saturatef(v.z) * 255 + .5f, __saturatef(v.w) * 255 + .5f);
}
__global__ void boxColumns(uchar4 *dst, const float4 *src, int r)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= W) return;
    for (int y = 0; y < H; y++) {
        float4 s = make_float4(0, 0, 0, 0);
        for (int k = -r; k <= r; k++) {
            float4 v = src[min(max(y + k, 0), H - 1) * W + x];
            s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;
        }
        float by = 1.f / (2 * r + 1);
        dst[y * W + x] = packColour(make_float4(s.x * by, s.y * by, s.z * by, s.w * by));
    }
}

// ---- bilateral filter
__constant__ float c_gaussian[64];
__global__ void bilateral(uchar4 *dst, size_t pitch, cudaTextureObject_t t, float e_d, int r)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float4 centre = tex2D<float4>(t, x, y), sum = make_float4(0, 0, 0, 0);
    float weights = 0;
    for (int i = -r; i <= r; i++)
        for (int j = -r; j <= r; j++) {
            float4 v = tex2D<float4>(t, x + j, y + i);
            float d = (v.x - centre.x) * (v.x - centre.x) + (v.y - centre.y) * (v.y - centre.y) + (v.z - centre.z) * (v.z - centre.z);
            float f = c_gaussian[i + r] * c_gaussian[j + r] * __expf(-d / (2 * e_d * e_d));
            weights += f; sum.x += f * v.x; sum.y += f * v.y; sum.z += f * v.z;
        }
    ((uchar4 *)((char *)dst + y * pitch))[x] = packColour(make_float4(sum.x / weights, sum.y / weights, sum.z / weights, 1));
}

// ---- recursive Gaussian on one channel
__global__ void recursive(const float *src, float *dst, int w, int h, float a0, float a1, float a2, float a3, float b1, float b2, float edgeP, float edgeN)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;
    float xp = src[x], yb = edgeP * xp, yp = yb;
    for (int y = 0; y < h; y++) {
        float xc = src[y * w + x], yc = a0 * xc + a1 * xp - b1 * yp - b2 * yb;
        dst[y * w + x] = yc; xp = xc; yb = yp; yp = yc;
    }
    float xn = src[(h - 1) * w + x], xa = xn, yn = edgeN * xn, ya = yn;
    for (int y = h - 1; y >= 0; y--) {
        float xc = src[y * w + x], yc = a2 * xn + a3 * xa - b1 * yn - b2 * ya;
        xa = xn; xn = xc; ya = yn; yn = yc;
        dst[y * w + x] += yc;
    }
}
__global__ void transpose(const float *src, float *dst, int w, int h)
{
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = src[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) dst[y * h + x] = tile[threadIdx.x][threadIdx.y];
}

static cudaTextureObject_t makeTexture(cudaResourceDesc res, cudaTextureAddressMode mode, cudaTextureReadMode read, cudaTextureFilterMode filter = cudaFilterModePoint)
{
    cudaTextureDesc td; memset(&td, 0, sizeof td);
    td.addressMode[0] = td.addressMode[1] = mode; td.readMode = read; td.filterMode = filter; td.normalizedCoords = 0;
    cudaTextureObject_t t;
    checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
    return t;
}

int main()
{
    printf("[imgfilters] - Starting...\n");
    findDevice();
    EventTimer timer;
    const size_t bytes = W * H * sizeof(float);
    float *h_in = (float *)malloc(bytes), *h_out = (float *)malloc(bytes), *h_ref = (float *)malloc(bytes), *h_tmp = (float *)malloc(bytes), h_k[KERNEL_LENGTH];
    for (int i = 0; i < W * H; i++) h_in[i] = nextRandom() % 16;
    for (int i = 0; i < KERNEL_LENGTH; i++) h_k[i] = nextRandom() % 16;
    checkCuda(cudaMemcpyToSymbol(c_Kernel, h_k, sizeof h_k));
    float *d_in, *d_mid, *d_out;
    checkCuda(cudaMalloc((void **)&d_in, bytes)); checkCuda(cudaMalloc((void **)&d_mid, bytes)); checkCuda(cudaMalloc((void **)&d_out, bytes));
    checkCuda(cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice));
    for (int i = -1; i < 4; i++) {
        if (i == 0) { checkCuda(cudaDeviceSynchronize()); timer.start(); }
        convolutionRows<<<dim3(W / (ROWS_STEPS * ROWS_X), H / ROWS_Y), dim3(ROWS_X, ROWS_Y)>>>(d_mid, d_in, W, H, W);
        checkLaunch("convolutionRows");
        convolutionColumns<<<dim3(W / 16, H / 48), dim3(16, 8)>>>(d_out, d_mid, W, H, W);
        checkLaunch("convolutionColumns");
    }
    timer.stop();
    checkCuda(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));
    for (int pass = 0; pass < 2; pass++)   // small integers: exact in float whatever the order, as sums stay below 2^24
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float s = 0;
                for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++) {
                    int u = pass ? y + j : x + j;
                    if (u >= 0 && u < (pass ? H : W)) s += h_k[KERNEL_RADIUS - j] * (pass ? h_tmp[u * W + x] : h_in[y * W + u]);
                }
                (pass ? h_ref : h_tmp)[y * W + x] = s;
            }
    report("separable convolution, shared memory", memcmp(h_ref, h_out, bytes) == 0);
    digest(h_out, bytes);

    cudaChannelFormatDesc floatDesc = cudaCreateChannelDesc<float>();
    cudaArray_t a_src;
    checkCuda(cudaMallocArray(&a_src, &floatDesc, W, H));
    checkCuda(cudaMemcpy2DToArray(a_src, 0, 0, h_in, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaResourceDesc res; memset(&res, 0, sizeof res);
    res.resType = cudaResourceTypeArray; res.res.array.array = a_src;
    cudaTextureObject_t t = makeTexture(res, cudaAddressModeBorder, cudaReadModeElementType);
    dim3 block(16, 12), grid(iDivUp(W, 16), iDivUp(H, 12));
    convolutionTexture<true><<<grid, block>>>(d_mid, t);
    checkCuda(cudaMemcpy2DToArray(a_src, 0, 0, d_mid, W * 4, W * 4, H, cudaMemcpyDeviceToDevice));
    convolutionTexture<false><<<grid, block>>>(d_out, t);
    checkLaunch("convolutionTexture");
    memset(h_out, 0, bytes);
    checkCuda(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));
    report("separable convolution, texture", memcmp(h_ref, h_out, bytes) == 0);
    checkCuda(cudaDestroyTextureObject(t));

    // Sobel
    unsigned char *h_grey = (unsigned char *)malloc(W * H), *h_edges = (unsigned char *)malloc(W * H), *d_grey, *d_edges;
    for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) h_grey[y * W + x] = ((x / 40 + y / 30) % 2 * 120 + x * y / 2000 + nextRandom() % 9) & 255;
    size_t pitch;
    checkCuda(cudaMallocPitch((void **)&d_grey, &pitch, W, H));
    checkCuda(cudaMalloc((void **)&d_edges, W * H));
    checkCuda(cudaMemcpy2D(d_grey, pitch, h_grey, W, W, H, cudaMemcpyHostToDevice));
    memset(&res, 0, sizeof res);
    res.resType = cudaResourceTypePitch2D; res.res.pitch2D.devPtr = d_grey; res.res.pitch2D.desc = cudaCreateChannelDesc<unsigned char>();
    res.res.pitch2D.width = W; res.res.pitch2D.height = H; res.res.pitch2D.pitchInBytes = pitch;
    t = makeTexture(res, cudaAddressModeClamp, cudaReadModeElementType);
    PointOp ops[3];
    checkCuda(cudaMemcpyFromSymbol(&ops[0], d_plain, sizeof(PointOp)));
    checkCuda(cudaMemcpyFromSymbol(&ops[1], d_threshold, sizeof(PointOp)));
    checkCuda(cudaMemcpyFromSymbol(&ops[2], d_invert, sizeof(PointOp)));
    checkCuda(cudaMemcpyToSymbol(c_ops, ops, sizeof ops));
    for (int op = 0; op < 3; op++) {
        sobel<<<H, 384>>>(d_edges, t, op, 100);
        checkLaunch("sobel");
        checkCuda(cudaMemcpy(h_edges, d_edges, W * H, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int p[9];
                for (int k = 0; k < 9; k++) p[k] = h_grey[std::min(std::max(y - 1 + k / 3, 0), H - 1) * W + std::min(std::max(x - 1 + k % 3, 0), W - 1)];
                int v = (abs(p[2] + 2 * p[5] + p[8] - p[0] - 2 * p[3] - p[6]) + abs(p[0] + 2 * p[1] + p[2] - p[6] - 2 * p[7] - p[8])) / 2;
                int want = op == 0 ? std::min(v, 255) : op == 1 ? (v > 100 ? 255 : 0) : v > 255 ? 0 : 255 - v;
                bad += want != h_edges[y * W + x];
            }
        report(op == 0 ? "sobel, plain" : op == 1 ? "sobel, threshold" : "sobel, inverted", bad == 0);
        digest(h_edges, W * H);
    }
    checkCuda(cudaDestroyTextureObject(t));

    // Box and bilateral filters on colours
    uchar4 *h_rgba = (uchar4 *)malloc(W * H * 4), *h_box = (uchar4 *)malloc(W * H * 4), *d_rgba;
    for (int i = 0; i < W * H; i++) h_rgba[i] = make_uchar4(h_grey[i], (i % W) * 255 / W, (i / W) * 255 / H, 255);
    cudaChannelFormatDesc rgbaDesc = cudaCreateChannelDesc<uchar4>();
    cudaArray_t a_rgba;
    checkCuda(cudaMallocArray(&a_rgba, &rgbaDesc, W, H));
    checkCuda(cudaMemcpy2DToArray(a_rgba, 0, 0, h_rgba, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    memset(&res, 0, sizeof res);
    res.resType = cudaResourceTypeArray; res.res.array.array = a_rgba;
    t = makeTexture(res, cudaAddressModeClamp, cudaReadModeNormalizedFloat);
    float4 *d_rows;
    checkCuda(cudaMalloc((void **)&d_rows, W * H * sizeof(float4)));
    checkCuda(cudaMalloc((void **)&d_rgba, W * H * 4));
    const int r = 6;
    boxRows<<<iDivUp(H, 64), 64>>>(d_rows, t, r);
    boxColumns<<<iDivUp(W, 64), 64>>>(d_rgba, d_rows, r);
    checkLaunch("box filter");
    checkCuda(cudaMemcpy(h_box, d_rgba, W * H * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int y = 0; y < H; y += 7)
        for (int x = 0; x < W; x += 5) {
            int s = 0;
            for (int i = -r; i <= r; i++) for (int j = -r; j <= r; j++) s += h_rgba[std::min(std::max(y + i, 0), H - 1) * W + std::min(std::max(x + j, 0), W - 1)].x;
            bad += fabs(s / double((2 * r + 1) * (2 * r + 1)) - h_box[y * W + x].x) > 1.01;
        }
    report("box filter, sliding window", bad == 0);
    digest(h_box, W * H * 4);

    float g[64] = {0};
    const int br = 4; const float e_d = 0.1f;
    for (int i = 0; i <= 2 * br; i++) g[i] = expf(-(i - br) * (i - br) / (2 * 3.f * 3.f));
    checkCuda(cudaMemcpyToSymbol(c_gaussian, g, sizeof g));
    uchar4 *d_pitched, *h_bi = (uchar4 *)malloc(W * H * 4);
    checkCuda(cudaMallocPitch((void **)&d_pitched, &pitch, W * 4, H));
    for (int pass = 0; pass < 3; pass++) {
        bilateral<<<dim3(iDivUp(W, 16), iDivUp(H, 16)), dim3(16, 16)>>>(d_pitched, pitch, t, e_d, br);
        checkLaunch("bilateral");
        checkCuda(cudaMemcpy2D(h_bi, W * 4, d_pitched, pitch, W * 4, H, cudaMemcpyDeviceToHost));
        bad = 0;
        for (int y = 3; y < H; y += 17)
            for (int x = 1; x < W; x += 13) {
                double sum = 0, weights = 0; uchar4 c = h_rgba[y * W + x];
                for (int i = -br; i <= br; i++)
                    for (int j = -br; j <= br; j++) {
                        uchar4 v = h_rgba[std::min(std::max(y + i, 0), H - 1) * W + std::min(std::max(x + j, 0), W - 1)];
                        double dx = (v.x - c.x) / 255., dy = (v.y - c.y) / 255., dz = (v.z - c.z) / 255., f = g[i + br] * g[j + br] * exp(-(dx * dx + dy * dy + dz * dz) / (2 * e_d * e_d));
                        weights += f; sum += f * v.x;
                    }
                bad += fabs(sum / weights - h_bi[y * W + x].x) > 1.01;
            }
        report("bilateral filter, one pass", bad == 0);
        memcpy(h_rgba, h_bi, W * H * 4);
        checkCuda(cudaMemcpy2DToArray(a_rgba, 0, 0, d_pitched, pitch, W * 4, H, cudaMemcpyDeviceToDevice));
    }
    digest(h_bi, W * H * 4);

    // Recursive Gaussian: columns, transpose, columns, transpose
    const float sigma = 5, alpha = 1.695f / sigma, ema = expf(-alpha), ema2 = expf(-2 * alpha), k = (1 - ema) * (1 - ema) / (1 + 2 * alpha * ema - ema2);
    const float a0 = k, a1 = k * (alpha - 1) * ema, a2 = k * (alpha + 1) * ema, a3 = -k * ema2, b1 = -2 * ema, b2 = ema2;
    const float eP = (a0 + a1) / (1 + b1 + b2), eN = (a2 + a3) / (1 + b1 + b2);
    timer.start();
    recursive<<<iDivUp(W, 64), 64>>>(d_in, d_mid, W, H, a0, a1, a2, a3, b1, b2, eP, eN);
    transpose<<<dim3(iDivUp(W, 16), iDivUp(H, 16)), dim3(16, 16)>>>(d_mid, d_out, W, H);
    recursive<<<iDivUp(H, 64), 64>>>(d_out, d_mid, H, W, a0, a1, a2, a3, b1, b2, eP, eN);
    transpose<<<dim3(iDivUp(H, 16), iDivUp(W, 16)), dim3(16, 16)>>>(d_mid, d_out, H, W);
    checkLaunch("recursive Gaussian");
    timer.stop();
    checkCuda(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));
    double before = 0, after = 0, spread = 0, spreadAfter = 0;
    for (int i = 0; i < W * H; i++) { before += h_in[i]; after += h_out[i]; }
    before /= W * H; after /= W * H;
    for (int i = 0; i < W * H; i++) { spread += (h_in[i] - before) * (h_in[i] - before); spreadAfter += (h_out[i] - after) * (h_out[i] - after); }
    report("recursive Gaussian keeps the mean", fabs(before - after) < 0.02 * before);
    report("recursive Gaussian smooths", spreadAfter < 0.1 * spread);
    digest(h_out, bytes);

    checkCuda(cudaDestroyTextureObject(t));
    checkCuda(cudaFreeArray(a_src)); checkCuda(cudaFreeArray(a_rgba));
    cudaFree(d_in); cudaFree(d_mid); cudaFree(d_out); cudaFree(d_grey); cudaFree(d_edges); cudaFree(d_rows); cudaFree(d_rgba); cudaFree(d_pitched);
    free(h_in); free(h_out); free(h_ref); free(h_tmp); free(h_grey); free(h_edges); free(h_rgba); free(h_box); free(h_bi);
    FINISH("imgfilters");
}
