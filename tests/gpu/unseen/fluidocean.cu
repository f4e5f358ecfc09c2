// Simulations without a window: stable fluids with real FFTs and a velocity texture, an ocean from its spectrum, convolutions in one and two
// dimensions by FFT, smoke sorted by depth with Thrust, particles in a grid of cells that collide, n bodies.
// nvcc: -lcufft --extended-lambda
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cufft.h>
#include <thrust/device_ptr.h>
#include <thrust/for_each.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#define DIM 256
#define PADW (DIM / 2 + 1)

// ---------------------------------------------------------------- fluids
__global__ void addForces(float2 *v, size_t pitch, int sx, int sy, float fx, float fy, int r)
{
    int tx = threadIdx.x, ty = threadIdx.y;
    float2 *cell = (float2 *)((char *)v + (ty + sy) * pitch) + tx + sx, f = *cell;
    int dx = tx - r, dy = ty - r;
    float s = 1.f / (1.f + dx * dx * dx * dx + dy * dy * dy * dy);
    f.x += s * fx; f.y += s * fy;
    *cell = f;
}
__global__ void advectVelocity(const float2 *v, float *vx, float *vy, size_t pitch, float dt, cudaTextureObject_t texture)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float2 at = tex2D<float2>(texture, (float)x, (float)y);
    float2 from = tex2D<float2>(texture, x + .5f - dt * at.x * DIM, y + .5f - dt * at.y * DIM);
    vx[y * 2 * PADW + x] = from.x; vy[y * 2 * PADW + x] = from.y;
}
__global__ void diffuseProject(float2 *vx, float2 *vy, float dt, float viscosity)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= PADW) return;
    int at = y * PADW + x, iy = y > DIM / 2 ? y - DIM : y;
    float2 a = vx[at], b = vy[at];
    float k2 = (float)(x * x + iy * iy), decay = 1.f / (1.f + viscosity * dt * k2);
    a.x *= decay; a.y *= decay; b.x *= decay; b.y *= decay;
    if (k2 > 0) {
        float re = (x * a.x + iy * b.x) / k2, im = (x * a.y + iy * b.y) / k2;
        a.x -= re * x; a.y -= im * x; b.x -= re * iy; b.y -= im * iy;
    }
    vx[at] = a; vy[at] = b;
}
__global__ void updateVelocity(float2 *v, size_t pitch, const float *vx, const float *vy)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float scale = 1.f / (DIM * DIM);
    ((float2 *)((char *)v + y * pitch))[x] = make_float2(vx[y * 2 * PADW + x] * scale, vy[y * 2 * PADW + x] * scale);
}
__global__ void moveParticles(float2 *p, const float2 *v, size_t pitch, float dt, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 q = p[i], u = ((const float2 *)((const char *)v + (int)(q.y * DIM) * pitch))[(int)(q.x * DIM)];
    q.x += dt * u.x; q.x -= floorf(q.x); q.y += dt * u.y; q.y -= floorf(q.y);
    q.x = fminf(q.x, .99999f); q.y = fminf(q.y, .99999f);
    p[i] = q;
}

// ---------------------------------------------------------------- ocean
__global__ void oceanSpectrum(const float2 *h0, float2 *ht, float t, float patch)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float kx = (x - DIM / 2) * 6.2831853f / patch, ky = (y - DIM / 2) * 6.2831853f / patch, w = sqrtf(9.81f * sqrtf(kx * kx + ky * ky));
    float2 a = h0[y * (DIM + 1) + x], b = h0[(DIM - y) * (DIM + 1) + DIM - x], e = make_float2(cosf(w * t), sinf(w * t));
    ht[y * DIM + x] = make_float2((a.x * e.x - a.y * e.y) + (b.x * e.x - b.y * e.y), (a.x * e.y + a.y * e.x) - (b.x * e.y + b.y * e.x));
}
__global__ void oceanHeights(float *map, const float2 *ht) { int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; map[y * DIM + x] = ht[y * DIM + x].x * ((x + y) & 1 ? -1.f : 1.f); }
__global__ void oceanSlopes(const float *map, float2 *slope)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < DIM - 1 && y < DIM - 1) slope[y * DIM + x] = make_float2(map[y * DIM + x + 1] - map[y * DIM + x - 1], map[(y + 1) * DIM + x] - map[(y - 1) * DIM + x]);
}
__global__ void multiplyScale(float2 *a, const float2 *b, int n, float by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { float2 p = a[i], q = b[i]; a[i] = make_float2((p.x * q.x - p.y * q.y) * by, (p.x * q.y + p.y * q.x) * by); }
}

// ---------------------------------------------------------------- particles in cells
#define CELLS 16
struct SimParams { float radius, spring, damping; int n; };
__constant__ SimParams params;
__host__ __device__ inline int cellOf(float4 p) { return ((int)(p.z * CELLS) * CELLS + (int)(p.y * CELLS)) * CELLS + (int)(p.x * CELLS); }
__global__ void cellHash(const float4 *p, unsigned *hash, unsigned *index) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < params.n) { hash[i] = cellOf(p[i]); index[i] = i; } }
__global__ void reorder(const unsigned *hash, const unsigned *index, const float4 *p, float4 *sorted, unsigned *first, unsigned *last)
{
    extern __shared__ unsigned shared[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = 0;
    if (i < params.n) { h = hash[i]; shared[threadIdx.x + 1] = h; if (i > 0 && threadIdx.x == 0) shared[0] = hash[i - 1]; }
    __syncthreads();
    if (i >= params.n) return;
    if (i == 0 || h != shared[threadIdx.x]) { first[h] = i; if (i > 0) last[shared[threadIdx.x]] = i; }
    if (i == params.n - 1) last[h] = params.n;
    sorted[i] = p[index[i]];
}
__global__ void collide(const float4 *sorted, const unsigned *first, const unsigned *last, const unsigned *index, float4 *force)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= params.n) return;
    float4 me = sorted[i], f = make_float4(0, 0, 0, 0);
    int cx = me.x * CELLS, cy = me.y * CELLS, cz = me.z * CELLS;
    for (int z = max(cz - 1, 0); z <= min(cz + 1, CELLS - 1); z++) for (int y = max(cy - 1, 0); y <= min(cy + 1, CELLS - 1); y++) for (int x = max(cx - 1, 0); x <= min(cx + 1, CELLS - 1); x++) {
        int c = (z * CELLS + y) * CELLS + x;
        if (first[c] == 0xffffffff) continue;
        for (unsigned j = first[c]; j < last[c]; j++) {
            if (j == i) continue;
            float dx = __fsub_rn(sorted[j].x, me.x), dy = __fsub_rn(sorted[j].y, me.y), dz = __fsub_rn(sorted[j].z, me.z);
            float d2 = __fadd_rn(__fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy)), __fmul_rn(dz, dz));
            if (d2 < params.radius * params.radius) { float d = sqrtf(d2) + 1e-9f, s = -params.spring * (params.radius - d) / d; f.x += s * dx; f.y += s * dy; f.z += s * dz; f.w += 1; }
        }
    }
    force[index[i]] = f;
}
__global__ void nbody(float4 *newPos, const float4 *pos, float4 *vel, int n, float dt, float soft2)
{
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p = pos[i], v = vel[i]; float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n / blockDim.x; t++) {
        tile[threadIdx.x] = pos[t * blockDim.x + threadIdx.x];
        __syncthreads();
#pragma unroll 32
        for (int j = 0; j < blockDim.x; j++) {
            float dx = tile[j].x - p.x, dy = tile[j].y - p.y, dz = tile[j].z - p.z, r = rsqrtf(dx * dx + dy * dy + dz * dz + soft2), s = tile[j].w * r * r * r;
            ax += s * dx; ay += s * dy; az += s * dz;
        }
        __syncthreads();
    }
    v.x += ax * dt; v.y += ay * dt; v.z += az * dt;
    p.x += v.x * dt; p.y += v.y * dt; p.z += v.z * dt;
    newPos[i] = p; vel[i] = v;
}

int main()
{
    printf("[fluidocean]\n");
    findDevice();
    EventTimer timer;
    const dim3 block(32, 8), grid(DIM / 32, DIM / 8);
    {   // fluids
        float2 *v, *particles; float *vx, *vy; size_t pitch; const int n = 16384;
        checkCuda(cudaMallocPitch((void **)&v, &pitch, DIM * sizeof(float2), DIM)); checkCuda(cudaMemset2D(v, pitch, 0, DIM * sizeof(float2), DIM));
        checkCuda(cudaMalloc((void **)&vx, sizeof(float2) * PADW * DIM)); checkCuda(cudaMalloc((void **)&vy, sizeof(float2) * PADW * DIM));
        std::vector<float2> start(n), field(DIM * DIM), spectrum(PADW * DIM), spectrum2(PADW * DIM);
        for (int i = 0; i < n; i++) start[i] = make_float2((i % 128 + .5f) / 128, (i / 128 + .5f) / 128);
        checkCuda(cudaMalloc((void **)&particles, n * sizeof(float2))); checkCuda(cudaMemcpy(particles, start.data(), n * sizeof(float2), cudaMemcpyHostToDevice));
        cudaArray_t array; cudaChannelFormatDesc desc = cudaCreateChannelDesc<float2>();
        checkCuda(cudaMallocArray(&array, &desc, DIM, DIM));
        cudaResourceDesc res; cudaTextureDesc td; memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
        res.resType = cudaResourceTypeArray; res.res.array.array = array; td.filterMode = cudaFilterModeLinear; td.readMode = cudaReadModeElementType; td.addressMode[0] = td.addressMode[1] = cudaAddressModeWrap;
        cudaTextureObject_t texture; checkCuda(cudaCreateTextureObject(&texture, &res, &td, NULL));
        cufftHandle forward, inverse;
        checkLib(cufftPlan2d(&forward, DIM, DIM, CUFFT_R2C)); checkLib(cufftPlan2d(&inverse, DIM, DIM, CUFFT_C2R));
        const float dt = .09f;
        for (int frame = 0; frame < 20; frame++) {
            if (frame % 4 == 0) addForces<<<1, dim3(9, 9)>>>(v, pitch, 40 + frame * 8, 200 - frame * 7, .4f, .2f - frame * .02f, 4);
            checkCuda(cudaMemcpy2DToArray(array, 0, 0, v, pitch, DIM * sizeof(float2), DIM, cudaMemcpyDeviceToDevice));
            advectVelocity<<<grid, block>>>(v, vx, vy, pitch, dt, texture);
            checkLib(cufftExecR2C(forward, vx, (cufftComplex *)vx)); checkLib(cufftExecR2C(forward, vy, (cufftComplex *)vy));
            diffuseProject<<<dim3(iDivUp(PADW, 32), DIM / 8), block>>>((float2 *)vx, (float2 *)vy, dt, .0025f);
            if (frame == 19) { checkCuda(cudaMemcpy(spectrum.data(), vx, spectrum.size() * 8, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(spectrum2.data(), vy, spectrum.size() * 8, cudaMemcpyDeviceToHost)); }
            checkLib(cufftExecC2R(inverse, (cufftComplex *)vx, vx)); checkLib(cufftExecC2R(inverse, (cufftComplex *)vy, vy));
            updateVelocity<<<grid, block>>>(v, pitch, vx, vy);
            moveParticles<<<n / 256, 256>>>(particles, v, pitch, dt, n);
            checkLaunch("fluids");
        }
        checkCuda(cudaMemcpy(start.data(), particles, n * sizeof(float2), cudaMemcpyDeviceToHost));
        checkCuda(cudaMemcpy2D(field.data(), DIM * 8, v, pitch, DIM * 8, DIM, cudaMemcpyDeviceToHost));
        double divergence = 0, size = 0; int outside = 0;
        for (int y = 0; y < DIM; y++) for (int x = 0; x < PADW; x++) {
            float2 a = spectrum[y * PADW + x], b = spectrum2[y * PADW + x]; int iy = y > DIM / 2 ? y - DIM : y;
            divergence = fmax(divergence, fabs(x * a.x + iy * b.x) + fabs(x * a.y + iy * b.y)); size = fmax(size, fabs(x * a.x) + fabs(iy * b.y));
        }
        for (auto &p : start) outside += !(p.x >= 0 && p.x < 1 && p.y >= 0 && p.y < 1);
        report("fluids, no divergence", size > 0 && divergence < 1e-3 * size && outside == 0);
        digest(start.data(), n * 8); digest(field.data(), field.size() * 8);
        checkLib(cufftDestroy(forward)); checkLib(cufftDestroy(inverse)); checkCuda(cudaDestroyTextureObject(texture)); checkCuda(cudaFreeArray(array));
        cudaFree(v); cudaFree(vx); cudaFree(vy); cudaFree(particles);
    }
    {   // ocean
        const int pitch = DIM + 1; const float patch = 100;
        std::vector<float2> h0(pitch * pitch), ht(DIM * DIM); std::vector<float> map(DIM * DIM);
        for (int y = 0; y <= DIM; y++) for (int x = 0; x <= DIM; x++) {
            float kx = (x - DIM / 2) * 6.2831853f / patch, ky = (y - DIM / 2) * 6.2831853f / patch, k2 = kx * kx + ky * ky, p = k2 > 0 ? sqrtf(expf(-1 / (k2 * 50)) / (k2 * k2) * kx * kx / k2) * 1e-2f : 0;
            h0[y * pitch + x] = make_float2((frand() - .5f) * p, (frand() - .5f) * p);
        }
        float2 *d_h0, *d_ht, *d_slope; float *d_map;
        checkCuda(cudaMalloc((void **)&d_h0, h0.size() * 8)); checkCuda(cudaMalloc((void **)&d_ht, DIM * DIM * 8)); checkCuda(cudaMalloc((void **)&d_slope, DIM * DIM * 8)); checkCuda(cudaMalloc((void **)&d_map, DIM * DIM * 4));
        checkCuda(cudaMemcpy(d_h0, h0.data(), h0.size() * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemset(d_slope, 0, DIM * DIM * 8));
        cufftHandle plan; checkLib(cufftPlan2d(&plan, DIM, DIM, CUFFT_C2C));
        double worst = 0, most = 0;
        for (int frame = 0; frame < 6; frame++) {
            oceanSpectrum<<<grid, block>>>(d_h0, d_ht, frame * .7f, patch);
            if (frame == 5) checkCuda(cudaMemcpy(ht.data(), d_ht, DIM * DIM * 8, cudaMemcpyDeviceToHost));
            checkLib(cufftExecC2C(plan, (cufftComplex *)d_ht, (cufftComplex *)d_ht, CUFFT_INVERSE));
            oceanHeights<<<grid, block>>>(d_map, d_ht);
            oceanSlopes<<<grid, block>>>(d_map, d_slope);
            checkLaunch("ocean");
            checkCuda(cudaMemcpy(map.data(), d_map, DIM * DIM * 4, cudaMemcpyDeviceToHost));
            digest(map.data(), DIM * DIM * 4);
        }
        for (int k = 0; k < 3; k++) {
            int px = 31 + 70 * k, py = 200 - 55 * k; double s = 0;
            for (int y = 0; y < DIM; y++) for (int x = 0; x < DIM; x++) { double a = 6.283185307179586 * ((x * px + y * py) % DIM) / DIM; s += ht[y * DIM + x].x * cos(a) - ht[y * DIM + x].y * sin(a); }
            worst = fmax(worst, fabs(s * ((px + py) & 1 ? -1 : 1) - map[py * DIM + px]));
        }
        for (float m : map) most = fmax(most, fabs(m));
        report("ocean, heights by direct sums", worst < 1e-3 * most + 1e-6);
        checkLib(cufftDestroy(plan)); cudaFree(d_h0); cudaFree(d_ht); cudaFree(d_slope); cudaFree(d_map);
    }
    for (int dims = 1; dims <= 2; dims++) {     // convolutions by FFT, cyclic
        const int n = dims == 1 ? 4096 : 128 * 96, w = dims == 1 ? 4096 : 96;
        std::vector<float2> a(n), b(n), c(n);
        for (int i = 0; i < n; i++) { a[i] = make_float2(frand() - .5f, 0); b[i] = make_float2(i % w < 9 && i / w < 7 ? frand() : 0, 0); }
        cufftComplex *da, *db; cufftHandle plan; size_t work;
        checkCuda(cudaMalloc((void **)&da, n * 8)); checkCuda(cudaMalloc((void **)&db, n * 8));
        checkCuda(cudaMemcpy(da, a.data(), n * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(db, b.data(), n * 8, cudaMemcpyHostToDevice));
        if (dims == 1) checkLib(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
        else { checkLib(cufftCreate(&plan)); checkLib(cufftMakePlan2d(plan, n / w, w, CUFFT_C2C, &work)); }
        checkLib(cufftExecC2C(plan, da, da, CUFFT_FORWARD)); checkLib(cufftExecC2C(plan, db, db, CUFFT_FORWARD));
        multiplyScale<<<32, 256>>>(da, db, n, 1.f / n);
        checkLib(cufftExecC2C(plan, da, da, CUFFT_INVERSE));
        checkCuda(cudaMemcpy(c.data(), da, n * 8, cudaMemcpyDeviceToHost));
        double worst = 0; int h = n / w;
        for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) {
            double s = 0;
            for (int j = 0; j < std::min(h, 7); j++) for (int i = 0; i < 9; i++) s += a[(y - j + h) % h * w + (x - i + w) % w].x * b[j * w + i].x;
            worst = fmax(worst, fabs(s - c[y * w + x].x));
        }
        report(dims == 1 ? "convolution by FFT, 1D" : "convolution by FFT, 2D", worst < 1e-4);
        digest(c.data(), n * 8);
        checkLib(cufftDestroy(plan)); cudaFree(da); cudaFree(db);
    }
    {   // smoke: moved by a functor, sorted by depth
        const int n = 65536; float4 *pos; float *keys; unsigned *index;
        checkCuda(cudaMalloc((void **)&pos, n * 16)); checkCuda(cudaMalloc((void **)&keys, n * 4)); checkCuda(cudaMalloc((void **)&index, n * 4));
        std::vector<float4> p(n); std::vector<float> k(n); std::vector<unsigned> order(n);
        for (auto &q : p) q = make_float4(frand(), frand(), frand(), 1);
        checkCuda(cudaMemcpy(pos, p.data(), n * 16, cudaMemcpyHostToDevice));
        thrust::device_ptr<float4> tp(pos); thrust::device_ptr<float> tk(keys); thrust::device_ptr<unsigned> ti(index);
        int bad = 0;
        for (int step = 0; step < 5; step++) {
            float t = step * .1f;
            thrust::for_each(tp, tp + n, [t] __device__(float4 &q) { q.x += .01f * sinf(10 * q.y + t); q.z += .01f * cosf(7 * q.x - t); });
            thrust::sequence(ti, ti + n);
            thrust::transform(tp, tp + n, tk, [] __device__(const float4 &q) { return q.x * .5f + q.y * .25f - q.z; });
            thrust::sort_by_key(tk, tk + n, ti);
            checkCuda(cudaMemcpy(k.data(), keys, n * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(order.data(), index, n * 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(p.data(), pos, n * 16, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; i++) { float4 q = p[order[i]]; bad += fabs(q.x * .5f + q.y * .25f - q.z - k[i]) > 1e-5 || (i && k[i - 1] > k[i]); }
        }
        report("smoke, sorted by depth", bad == 0);
        digest(k.data(), n * 4); digest(order.data(), n * 4);
        cudaFree(pos); cudaFree(keys); cudaFree(index);
    }
    {   // collisions
        SimParams h = {1.f / CELLS * .9f, .5f, .02f, 4000};
        checkCuda(cudaMemcpyToSymbol(params, &h, sizeof h));
        std::vector<float4> p(h.n), f(h.n);
        for (auto &q : p) q = make_float4(frand() * .999f, frand() * .999f, frand() * .999f, 1);
        float4 *pos, *sorted, *force; unsigned *hash, *index, *first, *last; const int cells = CELLS * CELLS * CELLS;
        for (float4 **q : {&pos, &sorted, &force}) checkCuda(cudaMalloc((void **)q, h.n * 16));
        for (unsigned **q : {&hash, &index, &first, &last}) checkCuda(cudaMalloc((void **)q, std::max(h.n, cells) * 4));
        checkCuda(cudaMemcpy(pos, p.data(), h.n * 16, cudaMemcpyHostToDevice));
        cellHash<<<iDivUp(h.n, 256), 256>>>(pos, hash, index);
        thrust::sort_by_key(thrust::device_ptr<unsigned>(hash), thrust::device_ptr<unsigned>(hash + h.n), thrust::device_ptr<unsigned>(index));
        checkCuda(cudaMemset(first, 0xff, cells * 4));
        reorder<<<iDivUp(h.n, 256), 256, 257 * 4>>>(hash, index, pos, sorted, first, last);
        collide<<<iDivUp(h.n, 64), 64>>>(sorted, first, last, index, force);
        checkLaunch("collide");
        checkCuda(cudaMemcpy(f.data(), force, h.n * 16, cudaMemcpyDeviceToHost));
        int bad = 0; double sum[3] = {0};
        for (int i = 0; i < h.n; i++) {
            sum[0] += f[i].x; sum[1] += f[i].y; sum[2] += f[i].z;
            if (i % 4) continue;
            int near = 0;
            for (int j = 0; j < h.n; j++) { float dx = p[j].x - p[i].x, dy = p[j].y - p[i].y, dz = p[j].z - p[i].z, d2 = dx * dx; d2 += dy * dy; d2 += dz * dz; near += j != i && d2 < h.radius * h.radius; }
            bad += near != f[i].w;
        }
        report("particles, neighbours counted", bad == 0);
        report("particles, forces cancel", fabs(sum[0]) + fabs(sum[1]) + fabs(sum[2]) < .1);
        digest(f.data(), h.n * 16);
        for (void *q : {(void *)pos, (void *)sorted, (void *)force, (void *)hash, (void *)index, (void *)first, (void *)last}) cudaFree(q);
    }
    {   // n bodies, positions in two buffers
        const int n = 2048; float4 *pos[2], *vel; std::vector<float4> p(n), v(n, make_float4(0, 0, 0, 0)), q(n);
        for (auto &b : p) b = make_float4(frand() - .5f, frand() - .5f, frand() - .5f, 1.f / n);
        for (float4 **m : {&pos[0], &pos[1], &vel}) checkCuda(cudaMalloc((void **)m, n * 16));
        checkCuda(cudaMemcpy(pos[0], p.data(), n * 16, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(vel, v.data(), n * 16, cudaMemcpyHostToDevice));
        double worst = 0;
        for (int step = 0; step < 10; step++) {
            nbody<<<n / 256, 256, 256 * 16>>>(pos[1 - step % 2], pos[step % 2], vel, n, .01f, .01f);
            checkLaunch("nbody");
            if (step) continue;
            checkCuda(cudaMemcpy(q.data(), pos[1], n * 16, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; i += 8) {
                double a = 0;
                for (int j = 0; j < n; j++) { double dx = p[j].x - p[i].x, dy = p[j].y - p[i].y, dz = p[j].z - p[i].z, r2 = dx * dx + dy * dy + dz * dz + .01; a += p[j].w * dx / (r2 * sqrt(r2)); }
                worst = fmax(worst, fabs(p[i].x + a * .01 * .01 - q[i].x));
            }
        }
        checkCuda(cudaMemcpy(q.data(), pos[0], n * 16, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(v.data(), vel, n * 16, cudaMemcpyDeviceToHost));
        double momentum = 0;
        for (auto &b : v) momentum += b.x + b.y + b.z;
        report("n bodies", worst < 1e-5 && fabs(momentum) < 1e-1);
        digest(q.data(), n * 16); digest(v.data(), n * 16);
        cudaFree(pos[0]); cudaFree(pos[1]); cudaFree(vel);
    }
    FINISH("fluidocean");
}
