// Stencils and matching: finite differences in 3D with a queue in registers, optical flow over a pyramid of textures, stereo disparity
// by sums of absolute differences, denoising by neighbours and by non-local means.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"

// ---------------------------------------------------------------- FDTD 3D
#define RADIUS 4
#define FBX 32
#define FBY 8
__constant__ float c_stencil[RADIUS + 1];
// The volume is padded by RADIUS on all sides
__global__ void finiteDifferences(float *out, const float *in, int dx, int dy, int dz)
{
    __shared__ float tile[FBY + 2 * RADIUS][FBX + 2 * RADIUS];
    const int sy = dx + 2 * RADIUS, sz = sy * (dy + 2 * RADIUS);
    const int gx = blockIdx.x * FBX + threadIdx.x, gy = blockIdx.y * FBY + threadIdx.y;
    const int tx = threadIdx.x + RADIUS, ty = threadIdx.y + RADIUS;
    int at = (gy + RADIUS) * sy + gx + RADIUS;
    float behind[RADIUS], ahead[RADIUS], current;
#pragma unroll
    for (int i = 0; i < RADIUS; i++) behind[i] = in[at + (RADIUS - 1 - i) * sz];
    current = in[at + RADIUS * sz];
#pragma unroll
    for (int i = 0; i < RADIUS; i++) ahead[i] = in[at + (RADIUS + 1 + i) * sz];
    for (int z = 0; z < dz; z++) {
        const float *plane = in + (z + RADIUS) * sz;
        if (z > 0) {
#pragma unroll
            for (int i = RADIUS - 1; i > 0; i--) behind[i] = behind[i - 1];
            behind[0] = current; current = ahead[0];
#pragma unroll
            for (int i = 0; i < RADIUS - 1; i++) ahead[i] = ahead[i + 1];
            ahead[RADIUS - 1] = in[at + (z + 2 * RADIUS) * sz];
        }
        __syncthreads();
        if (threadIdx.y < RADIUS) { tile[threadIdx.y][tx] = plane[at - RADIUS * sy]; tile[threadIdx.y + FBY + RADIUS][tx] = plane[at + FBY * sy]; }
        if (threadIdx.x < RADIUS) { tile[ty][threadIdx.x] = plane[at - RADIUS]; tile[ty][threadIdx.x + FBX + RADIUS] = plane[at + FBX]; }
        tile[ty][tx] = current;
        __syncthreads();
        float v = c_stencil[0] * current;
#pragma unroll
        for (int i = 1; i <= RADIUS; i++)
            v += c_stencil[i] * (ahead[i - 1] + behind[i - 1] + tile[ty - i][tx] + tile[ty + i][tx] + tile[ty][tx - i] + tile[ty][tx + i]);
        out[at + (z + RADIUS) * sz] = v;
    }
}

// ---------------------------------------------------------------- optical flow; images are w x h with rows of `stride`
static cudaTextureObject_t pitchedTexture(const float *image, int w, int h, int stride, cudaTextureAddressMode mode)
{
    cudaResourceDesc res; cudaTextureDesc td; cudaTextureObject_t t;
    memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
    res.resType = cudaResourceTypePitch2D; res.res.pitch2D.devPtr = (void *)image; res.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    res.res.pitch2D.width = w; res.res.pitch2D.height = h; res.res.pitch2D.pitchInBytes = stride * sizeof(float);
    td.addressMode[0] = td.addressMode[1] = mode; td.filterMode = cudaFilterModeLinear; td.readMode = cudaReadModeElementType; td.normalizedCoords = true;
    checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
    return t;
}
#define PIXEL int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; if (x >= w || y >= h) return; int at = y * stride + x
__global__ void downscale(float *out, int w, int h, int stride, cudaTextureObject_t t)
{
    PIXEL;
    float dx = 1.f / w, dy = 1.f / h, u = (x + .5f) * dx, v = (y + .5f) * dy;
    out[at] = .25f * (tex2D<float>(t, u - dx * .25f, v - dy * .25f) + tex2D<float>(t, u + dx * .25f, v - dy * .25f) +
                      tex2D<float>(t, u - dx * .25f, v + dy * .25f) + tex2D<float>(t, u + dx * .25f, v + dy * .25f));
}
__global__ void upscale(float *out, int w, int h, int stride, float by, cudaTextureObject_t t)
{
    PIXEL;
    out[at] = by * tex2D<float>(t, (x + .5f) / w, (y + .5f) / h);
}
__global__ void warp(float *out, int w, int h, int stride, const float *u, const float *v, cudaTextureObject_t t)
{
    PIXEL;
    out[at] = tex2D<float>(t, (x + .5f + u[at]) / w, (y + .5f + v[at]) / h);
}
__global__ void derivatives(float *ix, float *iy, float *iz, int w, int h, int stride, cudaTextureObject_t a, cudaTextureObject_t b)
{
    PIXEL;
    float dx = 1.f / w, dy = 1.f / h, u = (x + .5f) * dx, v = (y + .5f) * dy;
    float ax = .5f * (tex2D<float>(a, u + dx, v) - tex2D<float>(a, u - dx, v)), bx = .5f * (tex2D<float>(b, u + dx, v) - tex2D<float>(b, u - dx, v));
    float ay = .5f * (tex2D<float>(a, u, v + dy) - tex2D<float>(a, u, v - dy)), by = .5f * (tex2D<float>(b, u, v + dy) - tex2D<float>(b, u, v - dy));
    ix[at] = .5f * (ax + bx); iy[at] = .5f * (ay + by); iz[at] = tex2D<float>(b, u, v) - tex2D<float>(a, u, v);
}
__host__ __device__ inline void jacobiPoint(const float *du, const float *dv, const float *ix, const float *iy, const float *iz, float *nu, float *nv,
    int x, int y, int w, int h, int stride, float alpha)
{
    int at = y * stride + x, l = x ? at - 1 : at, r = x < w - 1 ? at + 1 : at, t = y ? at - stride : at, b = y < h - 1 ? at + stride : at;
    float su = (du[l] + du[r] + du[t] + du[b]) * .25f, sv = (dv[l] + dv[r] + dv[t] + dv[b]) * .25f;
    float f = (ix[at] * su + iy[at] * sv + iz[at]) / (ix[at] * ix[at] + iy[at] * iy[at] + alpha);
    nu[at] = su - ix[at] * f; nv[at] = sv - iy[at] * f;
}
__global__ void jacobi(const float *du, const float *dv, const float *ix, const float *iy, const float *iz, float *nu, float *nv, int w, int h, int stride, float alpha)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) jacobiPoint(du, dv, ix, iy, iz, nu, nv, x, y, w, h, stride, alpha);
}
__global__ void addTo(float *a, const float *b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] += b[i]; }

// ---------------------------------------------------------------- stereo
#define REACH 4
__global__ void stereo(unsigned *disparity, unsigned *cost, int w, int h, int least, int most, cudaTextureObject_t left, cudaTextureObject_t right)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    unsigned best = ~0u; int bestAt = 0;
    for (int d = least; d <= most; d++) {
        unsigned sum = 0;
        for (int j = -REACH; j <= REACH; j++)
            for (int i = -REACH; i <= REACH; i++) {
                unsigned a = tex2D<unsigned>(left, x + i, y + j), b = tex2D<unsigned>(right, x + i + d, y + j), r;
                asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0));
                sum += r;
            }
        if (sum < best) { best = sum; bestAt = d; }
    }
    disparity[y * w + x] = abs(bestAt); cost[y * w + x] = best;
}

// ---------------------------------------------------------------- denoising
__global__ void knn(uchar4 *out, int w, int h, float noise, float lerpC, cudaTextureObject_t t)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    float x = px + .5f, y = py + .5f, sum = 0, count = 0, r = 0;
    float4 c = tex2D<float4>(t, x, y);
    for (float i = -3; i <= 3; i++)
        for (float j = -3; j <= 3; j++) {
            float4 v = tex2D<float4>(t, x + j, y + i);
            float d = (v.x - c.x) * (v.x - c.x) + (v.y - c.y) * (v.y - c.y) + (v.z - c.z) * (v.z - c.z);
            float weight = __expf(-(d * noise + (i * i + j * j) / 49.f));
            sum += weight; r += v.x * weight; count += weight > .02f ? 1 / 49.f : 0;
        }
    r /= sum;
    r += (c.x - r) * (count > .1f ? lerpC : 1 - lerpC);
    out[py * w + px] = make_uchar4(__saturatef(r) * 255 + .5f, c.y * 255 + .5f, c.z * 255 + .5f, 255);
}
__global__ void nonLocalMeans(uchar4 *out, int w, int h, float noise, cudaTextureObject_t t)
{
    __shared__ float weights[64];               // weights of an 8x8 block, as the quick variant has them
    float x = blockIdx.x * 8 + threadIdx.x + .5f, y = blockIdx.y * 8 + threadIdx.y + .5f, cx = blockIdx.x * 8 + 4.5f, cy = blockIdx.y * 8 + 4.5f, d = 0;
    for (float n = -3; n <= 3; n++)
        for (float m = -3; m <= 3; m++) {
            float4 a = tex2D<float4>(t, cx + m, cy + n), b = tex2D<float4>(t, x + m, y + n);
            d += (a.x - b.x) * (a.x - b.x);
        }
    weights[threadIdx.y * 8 + threadIdx.x] = __expf(-(d * noise + ((threadIdx.x - 4.f) * (threadIdx.x - 4.f) + (threadIdx.y - 4.f) * (threadIdx.y - 4.f)) / 49.f));
    __syncthreads();
    float sum = 0, r = 0;
    for (int n = 0; n < 8; n++)
        for (int m = 0; m < 8; m++) { float weight = weights[n * 8 + m]; sum += weight; r += weight * tex2D<float4>(t, x + m - 4, y + n - 4).x; }
    out[(int)y * w + (int)x] = make_uchar4(__saturatef(r / sum) * 255 + .5f, 0, 0, 255);
}

int main()
{
    printf("[flowstereo]\n");
    findDevice();
    EventTimer timer;
    {   // FDTD
        const int dx = 96, dy = 64, dz = 64, sy = dx + 2 * RADIUS, sz = sy * (dy + 2 * RADIUS), volume = sz * (dz + 2 * RADIUS), steps = 4;
        float coefficients[RADIUS + 1] = {.1f, .07f, .04f, .02f, .01f};
        checkCuda(cudaMemcpyToSymbol(c_stencil, coefficients, sizeof coefficients));
        std::vector<float> a(volume), b, result(volume);
        for (auto &v : a) v = frand();
        b = a;
        float *d_a, *d_b;
        const int padding = 128 / sizeof(float) - RADIUS;       // so that the inner part is aligned
        checkCuda(cudaMalloc((void **)&d_a, (volume + padding) * 4)); checkCuda(cudaMalloc((void **)&d_b, (volume + padding) * 4));
        checkCuda(cudaMemcpy(d_a + padding, a.data(), volume * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(d_b + padding, a.data(), volume * 4, cudaMemcpyHostToDevice));
        float *in = d_a + padding, *out = d_b + padding;
        timer.start();
        for (int s = 0; s < steps; s++) { finiteDifferences<<<dim3(dx / FBX, dy / FBY), dim3(FBX, FBY)>>>(out, in, dx, dy, dz); checkLaunch("finiteDifferences"); std::swap(in, out); }
        timer.stop();
        checkCuda(cudaMemcpy(result.data(), in, volume * 4, cudaMemcpyDeviceToHost));
        for (int s = 0; s < steps; s++) {
            for (int z = RADIUS; z < dz + RADIUS; z++) for (int y = RADIUS; y < dy + RADIUS; y++) for (int x = RADIUS; x < dx + RADIUS; x++) {
                const float *p = &a[z * sz + y * sy + x]; float v = coefficients[0] * *p;
                for (int i = 1; i <= RADIUS; i++) v += coefficients[i] * (p[i] + p[-i] + p[i * sy] + p[-i * sy] + p[i * sz] + p[-i * sz]);
                b[z * sz + y * sy + x] = v;
            }
            std::swap(a, b);
        }
        double worst = 0;
        for (int i = 0; i < volume; i++) worst = fmax(worst, fabs(a[i] - result[i]));
        report("FDTD 3D", worst < 1e-4);
        digest(result.data(), volume * 4);
        cudaFree(d_a); cudaFree(d_b);
    }
    {   // Optical flow of a moved pattern
        const int W = 320, H = 256, LEVELS = 3, STRIDE = 320, n = STRIDE * H; const float mx = 1.7f, my = -1.1f;
        std::vector<float> h0(n), h1(n), u(n), v(n), warped(n);
        auto pattern = [](float x, float y) { return 60 * sinf(x * .11f + .3f * sinf(y * .07f)) + 50 * cosf(y * .09f + x * .02f) + 128; };
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) { h0[y * STRIDE + x] = pattern(x, y); h1[y * STRIDE + x] = pattern(x - mx, y - my); }
        float *pyramid0[LEVELS], *pyramid1[LEVELS], *f[10];
        for (auto &p : f) { checkCuda(cudaMalloc((void **)&p, n * 4)); checkCuda(cudaMemset(p, 0, n * 4)); }
        dim3 block(32, 6);
        for (int l = 0; l < LEVELS; l++) {
            int w = W >> l, h = H >> l;
            checkCuda(cudaMalloc((void **)&pyramid0[l], n * 4)); checkCuda(cudaMalloc((void **)&pyramid1[l], n * 4));
            if (l == 0) {
                checkCuda(cudaMemcpy(pyramid0[0], h0.data(), n * 4, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(pyramid1[0], h1.data(), n * 4, cudaMemcpyHostToDevice));
                continue;
            }
            for (float **p : {pyramid0, pyramid1}) {
                cudaTextureObject_t t = pitchedTexture(p[l - 1], W >> (l - 1), H >> (l - 1), STRIDE, cudaAddressModeMirror);
                downscale<<<dim3(iDivUp(w, 32), iDivUp(h, 6)), block>>>(p[l], w, h, STRIDE, t);
                checkLaunch("downscale"); checkCuda(cudaDeviceSynchronize()); checkCuda(cudaDestroyTextureObject(t));
            }
        }
        float *&U = f[0], *&V = f[1], *&du = f[2], *&dv = f[3], *&nu = f[4], *&nv = f[5], *&tmp = f[6], *ix = f[7], *iy = f[8], *iz = f[9];
        std::vector<float> jdu(n), jdv(n), jix(n), jiy(n), jiz(n), want(n), want2(n), got(n);
        double jacobiWorst = 0;
        for (int l = LEVELS - 1; l >= 0; l--) {
            const int w = W >> l, h = H >> l; dim3 grid(iDivUp(w, 32), iDivUp(h, 6));
            cudaTextureObject_t t0 = pitchedTexture(pyramid0[l], w, h, STRIDE, cudaAddressModeMirror), t1 = pitchedTexture(pyramid1[l], w, h, STRIDE, cudaAddressModeMirror);
            for (int warps = 0; warps < 3; warps++) {
                warp<<<grid, block>>>(tmp, w, h, STRIDE, U, V, t1);
                cudaTextureObject_t tw = pitchedTexture(tmp, w, h, STRIDE, cudaAddressModeMirror);
                derivatives<<<grid, block>>>(ix, iy, iz, w, h, STRIDE, t0, tw);
                checkCuda(cudaMemset(du, 0, n * 4)); checkCuda(cudaMemset(dv, 0, n * 4));
                for (int i = 0; i < 60; i++) { jacobi<<<grid, block>>>(du, dv, ix, iy, iz, nu, nv, w, h, STRIDE, 10.f); std::swap(du, nu); std::swap(dv, nv); }
                checkLaunch("jacobi");
                if (warps == 0) {       // the last step again on the CPU
                    float *from[5] = {nu, nv, ix, iy, iz}; std::vector<float> *to[5] = {&jdu, &jdv, &jix, &jiy, &jiz};
                    for (int k = 0; k < 5; k++) checkCuda(cudaMemcpy(to[k]->data(), from[k], n * 4, cudaMemcpyDeviceToHost));
                    checkCuda(cudaMemcpy(got.data(), du, n * 4, cudaMemcpyDeviceToHost));
                    for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) {
                        jacobiPoint(jdu.data(), jdv.data(), jix.data(), jiy.data(), jiz.data(), want.data(), want2.data(), x, y, w, h, STRIDE, 10.f);
                        jacobiWorst = fmax(jacobiWorst, fabs(want[y * STRIDE + x] - got[y * STRIDE + x]));
                    }
                }
                addTo<<<iDivUp(n, 256), 256>>>(U, du, n); addTo<<<iDivUp(n, 256), 256>>>(V, dv, n);
                checkCuda(cudaDeviceSynchronize()); checkCuda(cudaDestroyTextureObject(tw));
            }
            warp<<<grid, block>>>(tmp, w, h, STRIDE, U, V, t1);
            if (l == 0) checkCuda(cudaMemcpy(warped.data(), tmp, n * 4, cudaMemcpyDeviceToHost));
            for (float **p : {&U, &V}) {
                if (l == 0) break;
                cudaTextureObject_t t = pitchedTexture(*p, w, h, STRIDE, cudaAddressModeMirror);
                upscale<<<dim3(iDivUp(2 * w, 32), iDivUp(2 * h, 6)), block>>>(nu, 2 * w, 2 * h, STRIDE, 2.f, t);
                checkLaunch("upscale"); checkCuda(cudaDeviceSynchronize()); checkCuda(cudaDestroyTextureObject(t));
                std::swap(*p, nu);
            }
            checkCuda(cudaDestroyTextureObject(t0)); checkCuda(cudaDestroyTextureObject(t1));
        }
        checkCuda(cudaMemcpy(u.data(), U, n * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(v.data(), V, n * 4, cudaMemcpyDeviceToHost));
        double before = 0, after = 0;
        for (int y = 16; y < H - 16; y++) for (int x = 16; x < W - 16; x++) { int i = y * STRIDE + x; before += fabs(h0[i] - h1[i]); after += fabs(h0[i] - warped[i]); }
        report("optical flow, Jacobi step as on the CPU", jacobiWorst < 1e-3);
        report("optical flow, the warped image is nearer", after < .6 * before);
        digest(u.data(), n * 4); digest(v.data(), n * 4);
        for (int l = 0; l < LEVELS; l++) { cudaFree(pyramid0[l]); cudaFree(pyramid1[l]); }
        for (auto &p : f) cudaFree(p);
    }
    {   // Stereo
        const int W = 192, H = 128;
        std::vector<unsigned> left(W * H), right(W * H), disparity(W * H), cost(W * H);
        for (auto &p : left) p = nextRandom() & 0xffffff;
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) { int d = 2 + (y / 32) * 3; right[y * W + x] = x + d < W ? left[y * W + x + d] ^ (nextRandom() & 0x030303) : 0; }
        unsigned *d_l, *d_r, *d_disparity, *d_cost; size_t pl, pr;
        checkCuda(cudaMallocPitch((void **)&d_l, &pl, W * 4, H)); checkCuda(cudaMallocPitch((void **)&d_r, &pr, W * 4, H));
        checkCuda(cudaMalloc((void **)&d_disparity, W * H * 4)); checkCuda(cudaMalloc((void **)&d_cost, W * H * 4));
        checkCuda(cudaMemcpy2D(d_l, pl, left.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy2D(d_r, pr, right.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
        cudaTextureObject_t t[2];
        for (int k = 0; k < 2; k++) {
            cudaResourceDesc res; cudaTextureDesc td; memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
            res.resType = cudaResourceTypePitch2D; res.res.pitch2D.devPtr = k ? d_r : d_l; res.res.pitch2D.pitchInBytes = k ? pr : pl;
            res.res.pitch2D.desc = cudaCreateChannelDesc<unsigned>(); res.res.pitch2D.width = W; res.res.pitch2D.height = H;
            td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
            checkCuda(cudaCreateTextureObject(&t[k], &res, &td, NULL));
        }
        stereo<<<dim3(W / 32, H / 8), dim3(32, 8)>>>(d_disparity, d_cost, W, H, -16, 0, t[0], t[1]);
        checkLaunch("stereo");
        checkCuda(cudaMemcpy(disparity.data(), d_disparity, W * H * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(cost.data(), d_cost, W * H * 4, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int y = 0; y < H; y += 3) for (int x = 0; x < W; x += 5) {
            unsigned best = ~0u; int bestAt = 0;
            for (int d = -16; d <= 0; d++) {
                unsigned s = 0;
                for (int j = -REACH; j <= REACH; j++) for (int i = -REACH; i <= REACH; i++) {
                    int yy = std::min(std::max(y + j, 0), H - 1);
                    unsigned a = left[yy * W + std::min(std::max(x + i, 0), W - 1)], b = right[yy * W + std::min(std::max(x + i + d, 0), W - 1)];
                    for (int c = 0; c < 32; c += 8) s += abs((int)(a >> c & 255) - (int)(b >> c & 255));
                }
                if (s < best) { best = s; bestAt = -d; }
            }
            bad += disparity[y * W + x] != bestAt || cost[y * W + x] != best;
        }
        report("stereo disparity", bad == 0 && disparity[16 * W + 100] == 2 && disparity[112 * W + 100] == 11);
        digest(disparity.data(), W * H * 4); digest(cost.data(), W * H * 4);
        checkCuda(cudaDestroyTextureObject(t[0])); checkCuda(cudaDestroyTextureObject(t[1]));
        cudaFree(d_l); cudaFree(d_r); cudaFree(d_disparity); cudaFree(d_cost);
    }
    {   // Denoising
        const int W = 320, H = 240;
        std::vector<uchar4> clean(W * H), noisy(W * H), out(W * H);
        for (int i = 0; i < W * H; i++) { int v = (i % W / 80 + i / W / 60) % 2 ? 170 : 70; clean[i] = make_uchar4(v, v, v, 255); int k = v + (int)(nextRandom() % 41) - 20; noisy[i] = make_uchar4(k, k, k, 255); }
        cudaArray_t array; cudaChannelFormatDesc desc = cudaCreateChannelDesc<uchar4>();
        checkCuda(cudaMallocArray(&array, &desc, W, H));
        checkCuda(cudaMemcpy2DToArray(array, 0, 0, noisy.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
        cudaResourceDesc res; cudaTextureDesc td; memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
        res.resType = cudaResourceTypeArray; res.res.array.array = array; td.readMode = cudaReadModeNormalizedFloat; td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
        cudaTextureObject_t t; checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
        uchar4 *d_out; checkCuda(cudaMalloc((void **)&d_out, W * H * 4));
        double error[3] = {0};
        for (int i = 0; i < W * H; i++) error[0] += abs(noisy[i].x - clean[i].x);
        for (int k = 1; k < 3; k++) {
            if (k == 1) knn<<<dim3(W / 8, H / 8), dim3(8, 8)>>>(d_out, W, H, 1 / (.32f * .32f), .2f, t);
            else nonLocalMeans<<<dim3(W / 8, H / 8), dim3(8, 8)>>>(d_out, W, H, 1 / (1.45f * 1.45f), t);
            checkLaunch("denoising");
            checkCuda(cudaMemcpy(out.data(), d_out, W * H * 4, cudaMemcpyDeviceToHost));
            for (int i = 0; i < W * H; i++) error[k] += abs(out[i].x - clean[i].x);
            digest(out.data(), W * H * 4);
        }
        report("KNN denoising", error[1] < .6 * error[0]);
        report("NLM denoising", error[2] < .8 * error[0]);
        checkCuda(cudaDestroyTextureObject(t)); checkCuda(cudaFreeArray(array)); cudaFree(d_out);
    }
    FINISH("flowstereo");
}
