// Volumes and fractals: surfaces out of a volume by marching tetrahedra (classify, scan, compact, generate, tables in linear textures),
// volume rendering with a transfer function, volume filtering through 3D surfaces, Mandelbrot sets by blocks that fetch their work,
// bicubic sampling, layered and cubic textures, pitch-linear shifts, surface writes.
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
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/scan.h>
typedef unsigned int uint;
static cudaTextureObject_t arrayTexture(cudaArray_t a, cudaTextureFilterMode filter, cudaTextureAddressMode mode, cudaTextureReadMode read, bool normalised)
{
    cudaResourceDesc res; cudaTextureDesc td; cudaTextureObject_t t;
    memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
    res.resType = cudaResourceTypeArray; res.res.array.array = a;
    td.filterMode = filter; td.addressMode[0] = td.addressMode[1] = td.addressMode[2] = mode; td.readMode = read; td.normalizedCoords = normalised;
    checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
    return t;
}
// ---------------------------------------------------------------- marching tetrahedra
#define GRID 48
// The six tetrahedra of a cell around the diagonal from corner 0 to corner 7, and the edges cut for each of the 16 cases (6: none)
static const uint h_tetra[24] = {0, 1, 3, 7, 0, 3, 2, 7, 0, 2, 6, 7, 0, 6, 4, 7, 0, 4, 5, 7, 0, 5, 1, 7};
// edges of a tetrahedron: 0:01 1:02 2:03 3:12 4:13 5:23
static const uint h_cuts[16 * 6] = {6,6,6,6,6,6, 0,1,2,6,6,6, 0,4,3,6,6,6, 1,2,4,1,4,3, 1,3,5,6,6,6, 0,3,5,0,5,2, 0,4,5,0,5,1, 2,4,5,6,6,6,
                                    2,5,4,6,6,6, 0,5,4,0,1,5, 0,5,3,0,2,5, 1,5,3,6,6,6, 1,4,2,1,3,4, 0,3,4,6,6,6, 0,2,1,6,6,6, 6,6,6,6,6,6};
static const uint h_ends[12] = {0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3};
__constant__ uint c_ends[12];
__device__ uint insideCorners(const unsigned char *v, uint3 c, unsigned char iso, float *f)
{
    uint bits = 0;
    for (int k = 0; k < 8; k++) { unsigned char s = v[((c.z + (k >> 2)) * GRID + c.y + (k >> 1 & 1)) * GRID + c.x + (k & 1)]; f[k] = s; bits |= (s >= iso) << k; }
    return bits;
}
__device__ uint caseOf(uint bits, int tet, cudaTextureObject_t tetra)
{
    uint at = 0;
    for (int k = 0; k < 4; k++) at |= (bits >> tex1Dfetch<uint>(tetra, tet * 4 + k) & 1) << k;
    return at;
}
__device__ uint3 cellPosition(uint i) { return make_uint3(i % (GRID - 1), i / (GRID - 1) % (GRID - 1), i / ((GRID - 1) * (GRID - 1))); }
__global__ void classifyCells(uint *verts, uint *occupied, const unsigned char *volume, uint n, unsigned char iso, cudaTextureObject_t tetra, cudaTextureObject_t cuts)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float f[8]; uint bits = insideCorners(volume, cellPosition(i), iso, f), count = 0;
    for (int t = 0; t < 6; t++) { uint c = caseOf(bits, t, tetra); count += tex1Dfetch<uint>(cuts, c * 6) == 6 ? 0 : tex1Dfetch<uint>(cuts, c * 6 + 3) == 6 ? 3 : 6; }
    verts[i] = count; occupied[i] = count > 0;
}
__global__ void compactCells(uint *compact, const uint *occupied, const uint *scanned, uint n) { uint i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && occupied[i]) compact[scanned[i]] = i; }
__global__ void generateTriangles(float4 *pos, float4 *normal, const uint *compact, const uint *vertsScanned, const unsigned char *volume, unsigned char iso, uint active, cudaTextureObject_t tetra, cudaTextureObject_t cuts)
{
    __shared__ float3 corner[8 * 32];
    uint at = blockIdx.x * 32 + threadIdx.x;
    if (at >= active) return;
    uint cell = compact[at], out = vertsScanned[cell]; uint3 c = cellPosition(cell); float f[8]; uint bits = insideCorners(volume, c, iso, f);
    for (int k = 0; k < 8; k++) corner[k * 32 + threadIdx.x] = make_float3(c.x + (k & 1), c.y + (k >> 1 & 1), c.z + (k >> 2));
    for (int t = 0; t < 6; t++) {
        uint which = caseOf(bits, t, tetra);
        for (int k = 0; k < 6; k += 3) {
            if (tex1Dfetch<uint>(cuts, which * 6 + k) == 6) break;
            float3 p[3];
            for (int m = 0; m < 3; m++) {
                uint e = tex1Dfetch<uint>(cuts, which * 6 + k + m), a = tex1Dfetch<uint>(tetra, t * 4 + c_ends[2 * e]), b = tex1Dfetch<uint>(tetra, t * 4 + c_ends[2 * e + 1]);
                float s = (iso - .5f - f[a]) / (f[b] - f[a]); float3 u = corner[a * 32 + threadIdx.x], v = corner[b * 32 + threadIdx.x];
                p[m] = make_float3(u.x + s * (v.x - u.x), u.y + s * (v.y - u.y), u.z + s * (v.z - u.z));
            }
            float3 a = make_float3(p[1].x - p[0].x, p[1].y - p[0].y, p[1].z - p[0].z), b = make_float3(p[2].x - p[0].x, p[2].y - p[0].y, p[2].z - p[0].z);
            float4 n = make_float4(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x, 0);
            for (int m = 0; m < 3; m++, out++) { pos[out] = make_float4(p[m].x, p[m].y, p[m].z, 1); normal[out] = n; }
        }
    }
}
// ---------------------------------------------------------------- volume rendering
struct ViewMatrix { float4 m[3]; };
__constant__ ViewMatrix c_view;
__host__ __device__ inline bool boxHit(float3 o, float3 d, float *near, float *far)
{
    float lo = -1e30f, hi = 1e30f; const float os[3] = {o.x, o.y, o.z}, ds[3] = {d.x, d.y, d.z};
    for (int k = 0; k < 3; k++) { float a = (-1 - os[k]) / ds[k], b = (1 - os[k]) / ds[k]; lo = fmaxf(lo, fminf(a, b)); hi = fminf(hi, fmaxf(a, b)); }
    *near = lo; *far = hi;
    return hi > lo;
}
__host__ __device__ inline void ray(const ViewMatrix &v, int x, int y, int w, int h, float3 *o, float3 *d)
{
    float u = x / (float)w * 2 - 1, s = y / (float)h * 2 - 1, l = 1 / sqrtf(u * u + s * s + 4);
    float3 e = make_float3(u * l, s * l, -2 * l);
    *o = make_float3(v.m[0].w, v.m[1].w, v.m[2].w);
    *d = make_float3(v.m[0].x * e.x + v.m[0].y * e.y + v.m[0].z * e.z, v.m[1].x * e.x + v.m[1].y * e.y + v.m[1].z * e.z, v.m[2].x * e.x + v.m[2].y * e.y + v.m[2].z * e.z);
}
__global__ void renderVolume(uint *out, int w, int h, float density, cudaTextureObject_t volume, cudaTextureObject_t transfer)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float3 o, d; float near, far; float4 sum = make_float4(0, 0, 0, 0);
    ray(c_view, x, y, w, h, &o, &d);
    if (boxHit(o, d, &near, &far)) {
        float t = fmaxf(near, 0.f);
        for (int i = 0; i < 400 && t <= far; i++, t += .01f) {
            float s = tex3D<float>(volume, (o.x + d.x * t) * .5f + .5f, (o.y + d.y * t) * .5f + .5f, (o.z + d.z * t) * .5f + .5f);
            float4 c = tex1D<float4>(transfer, s); c.w *= density;
            float k = c.w * (1 - sum.w); sum.x += c.x * k; sum.y += c.y * k; sum.z += c.z * k; sum.w += k;
            if (sum.w > .95f) break;
        }
    }
    out[y * w + x] = (uint)(__saturatef(sum.w) * 255) << 24 | (uint)(__saturatef(sum.z) * 255) << 16 | (uint)(__saturatef(sum.y) * 255) << 8 | (uint)(__saturatef(sum.x) * 255);
}
// ---------------------------------------------------------------- volume filter
struct Offset { int x, y, z, weight; };
__constant__ Offset c_offsets[27];
__global__ void filterVolume(int n, int offsets, int divide, cudaTextureObject_t in, cudaSurfaceObject_t out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= n || y >= n || z >= n) return;
    int sum = 0;
    for (int k = 0; k < offsets; k++) { Offset o = c_offsets[k]; sum += o.weight * tex3D<unsigned char>(in, x + o.x + .5f, y + o.y + .5f, z + o.z + .5f); }
    surf3Dwrite((unsigned char)(sum / divide), out, x * sizeof(unsigned char), y, z);
}
// ---------------------------------------------------------------- Mandelbrot
__host__ __device__ inline double mul(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}
template <class T> __host__ __device__ inline int escape(T x0, T y0, int limit)
{
    T x = 0, y = 0, xx = 0, yy = 0; int i = 0;
    for (; i < limit && xx + yy < 4; i++) { y = mul(mul(x, y), 2) + y0; x = xx - yy + x0; xx = mul(x, x); yy = mul(y, y); }
    return i;
}
__device__ unsigned int nextTile;
__global__ void mandelbrot(unsigned short *out, int w, int h, double cx, double cy, double scale, int limit)
{
    __shared__ uint tile;
    const uint across = iDivUp(w, 16), all = across * iDivUp(h, 8);
    while (1) {
        if (threadIdx.x + threadIdx.y == 0) tile = atomicAdd(&nextTile, 1);
        __syncthreads();
        uint mine = tile;
        if (mine >= all) break;
        int x = mine % across * 16 + threadIdx.x, y = mine / across * 8 + threadIdx.y;
        if (x < w && y < h) out[y * w + x] = escape<double>(cx + mul(x - w / 2, scale), cy + mul(y - h / 2, scale), limit);
        __syncthreads();
    }
}
// ---------------------------------------------------------------- texture kinds
__host__ __device__ inline void splineWeights(float a, float *w)
{
    w[0] = (1 - a) * (1 - a) * (1 - a) / 6; w[1] = (3 * a * a * a - 6 * a * a + 4) / 6; w[2] = (-3 * a * a * a + 3 * a * a + 3 * a + 1) / 6; w[3] = a * a * a / 6;
}
__global__ void bicubic(float *out, int w, int h, float tx, float ty, float scale, cudaTextureObject_t t, bool fast)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    float x = px * scale + tx - .5f, y = py * scale + ty - .5f, ix = floorf(x), iy = floorf(y), wx[4], wy[4], r = 0;
    splineWeights(x - ix, wx); splineWeights(y - iy, wy);
    if (!fast) for (int j = 0; j < 4; j++) for (int i = 0; i < 4; i++) r += wx[i] * wy[j] * tex2D<float>(t, ix - .5f + i, iy - .5f + j);
    else for (int j = 0; j < 4; j += 2) for (int i = 0; i < 4; i += 2) {
        float gx = wx[i] + wx[i + 1], gy = wy[j] + wy[j + 1];
        r += gx * gy * tex2D<float>(t, ix - .5f + i + wx[i + 1] / gx, iy - .5f + j + wy[j + 1] / gy);
    }
    out[py * w + px] = r;
}
__global__ void layersKernel(float *out, int w, cudaTextureObject_t t, int layer)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[(layer * w + y) * w + x] = -tex2DLayered<float>(t, (x + .5f) / w, (y + .5f) / w, layer) + layer;
}
__global__ void cubeKernel(float *out, int w, cudaTextureObject_t t)
{
    int x = threadIdx.x, y = threadIdx.y; float u = (x + .5f) / w * 2 - 1, v = (y + .5f) / w * 2 - 1;
    const float3 d[6] = {{1, -v, -u}, {-1, -v, u}, {u, 1, v}, {u, -1, -v}, {u, -v, 1}, {-u, -v, -1}};
    for (int f = 0; f < 6; f++) out[(f * w + y) * w + x] = -texCubemap<float>(t, d[f].x, d[f].y, d[f].z);
}
__global__ void shiftPitch(float *out, int pitch, int w, int h, int sx, int sy, cudaTextureObject_t t) { int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; if (x < w && y < h) out[y * pitch + x] = tex2D<float>(t, (x + sx + .5f) / w, (y + sy + .5f) / h); }
__global__ void surfaceWrite(const float *in, int w, cudaSurfaceObject_t s) { int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; surf2Dwrite(in[y * w + x], s, x * 4, y, cudaBoundaryModeTrap); }

int main()
{
    printf("[volumes]\n");
    findDevice();
    EventTimer timer;
    {
        const uint n = (GRID - 1) * (GRID - 1) * (GRID - 1); const int cells = GRID * GRID * GRID; const unsigned char iso = 100;
        std::vector<unsigned char> v(cells);
        for (int z = 0; z < GRID; z++) for (int y = 0; y < GRID; y++) for (int x = 0; x < GRID; x++) { float r = sqrtf((x - 23.5f) * (x - 23.5f) + (y - 23.5f) * (y - 23.5f) + (z - 23.5f) * (z - 23.5f)); v[(z * GRID + y) * GRID + x] = std::max(0.f, 220 - 8 * r); }
        unsigned char *volume; uint *verts, *vertsScan, *occupied, *occupiedScan, *compact, *tables; float4 *pos, *normal; const uint most = 200000;
        checkCuda(cudaMalloc((void **)&volume, cells)); checkCuda(cudaMemcpy(volume, v.data(), cells, cudaMemcpyHostToDevice));
        for (uint **p : {&verts, &vertsScan, &occupied, &occupiedScan, &compact}) checkCuda(cudaMalloc((void **)p, n * 4));
        checkCuda(cudaMalloc((void **)&pos, most * 16)); checkCuda(cudaMalloc((void **)&normal, most * 16)); checkCuda(cudaMalloc((void **)&tables, 4096));
        checkCuda(cudaMemcpy(tables, h_tetra, sizeof h_tetra, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(tables + 512, h_cuts, sizeof h_cuts, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpyToSymbol(c_ends, h_ends, sizeof h_ends));
        cudaTextureObject_t t[2];
        for (int k = 0; k < 2; k++) {
            cudaResourceDesc res; cudaTextureDesc td; memset(&res, 0, sizeof res); memset(&td, 0, sizeof td);
            res.resType = cudaResourceTypeLinear; res.res.linear.devPtr = tables + k * 512; res.res.linear.sizeInBytes = k ? sizeof h_cuts : sizeof h_tetra; res.res.linear.desc = cudaCreateChannelDesc<uint>();
            checkCuda(cudaCreateTextureObject(&t[k], &res, &td, NULL));
        }
        classifyCells<<<iDivUp(n, 128), 128>>>(verts, occupied, volume, n, iso, t[0], t[1]); checkLaunch("classifyCells");
        uint ends[4], active, total;
        thrust::exclusive_scan(thrust::device_ptr<uint>(occupied), thrust::device_ptr<uint>(occupied + n), thrust::device_ptr<uint>(occupiedScan));
        checkCuda(cudaMemcpy(&ends[0], occupied + n - 1, 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(&ends[1], occupiedScan + n - 1, 4, cudaMemcpyDeviceToHost));
        active = ends[0] + ends[1];
        compactCells<<<iDivUp(n, 128), 128>>>(compact, occupied, occupiedScan, n);
        thrust::exclusive_scan(thrust::device, verts, verts + n, vertsScan);
        checkCuda(cudaMemcpy(&ends[2], verts + n - 1, 4, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(&ends[3], vertsScan + n - 1, 4, cudaMemcpyDeviceToHost));
        total = ends[2] + ends[3];
        std::vector<float4> p(total), q(total);
        bool fits = total > 0 && total <= most;
        report("marching tetrahedra, something found", fits);
        if (fits) {
            generateTriangles<<<iDivUp(active, 32), 32>>>(pos, normal, compact, vertsScan, volume, iso, active, t[0], t[1]); checkLaunch("generateTriangles");
            checkCuda(cudaMemcpy(p.data(), pos, total * 16, cudaMemcpyDeviceToHost)); checkCuda(cudaMemcpy(q.data(), normal, total * 16, cudaMemcpyDeviceToHost));
            double area = 0; int off = 0;
            for (uint i = 0; i < total; i++) {
                float r = sqrtf((p[i].x - 23.5f) * (p[i].x - 23.5f) + (p[i].y - 23.5f) * (p[i].y - 23.5f) + (p[i].z - 23.5f) * (p[i].z - 23.5f)); off += fabsf(r - 15) > 1;
                if (i % 3 == 0) area += .5 * sqrt(q[i].x * q[i].x + q[i].y * q[i].y + q[i].z * q[i].z);
            }
            report("marching tetrahedra, a sphere", off == 0 && fabs(area / (4 * M_PI * 225) - 1) < .1);
            digest(p.data(), total * 16); digest(q.data(), total * 16);
        }
        checkCuda(cudaDestroyTextureObject(t[0])); checkCuda(cudaDestroyTextureObject(t[1]));
        for (void *m : {(void *)volume, (void *)verts, (void *)vertsScan, (void *)occupied, (void *)occupiedScan, (void *)compact, (void *)tables, (void *)pos, (void *)normal}) cudaFree(m);
    }
    {   // filter a volume between two arrays, then render it
        const int N = 64, W = 256, H = 192; std::vector<unsigned char> v(N * N * N), ref(v.size()), got(v.size());
        for (auto &x : v) x = nextRandom() & 255;
        for (int z = 0; z < N; z++) for (int y = 0; y < N; y++) for (int x = 0; x < N; x++) if ((x - 32) * (x - 32) + (y - 30) * (y - 30) + (z - 34) * (z - 34) > 600) v[(z * N + y) * N + x] /= 8;
        Offset o[27]; int sum = 0;
        for (int k = 0; k < 27; k++) { o[k] = {k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1, 1 + (k == 13) * 3}; sum += o[k].weight; }
        checkCuda(cudaMemcpyToSymbol(c_offsets, o, sizeof o));
        cudaExtent extent = make_cudaExtent(N, N, N); cudaArray_t a[2]; cudaTextureObject_t t[2]; cudaSurfaceObject_t s[2]; cudaChannelFormatDesc desc = cudaCreateChannelDesc<unsigned char>();
        for (int k = 0; k < 2; k++) {
            checkCuda(cudaMalloc3DArray(&a[k], &desc, extent, cudaArraySurfaceLoadStore));
            t[k] = arrayTexture(a[k], cudaFilterModePoint, cudaAddressModeClamp, cudaReadModeElementType, false);
            cudaResourceDesc res; memset(&res, 0, sizeof res); res.resType = cudaResourceTypeArray; res.res.array.array = a[k];
            checkCuda(cudaCreateSurfaceObject(&s[k], &res));
        }
        cudaMemcpy3DParms copy = {0}; copy.srcPtr = make_cudaPitchedPtr(v.data(), N, N, N); copy.dstArray = a[0]; copy.extent = extent; copy.kind = cudaMemcpyHostToDevice;
        checkCuda(cudaMemcpy3D(&copy));
        for (int pass = 0; pass < 2; pass++) {
            filterVolume<<<dim3(N / 8, N / 8, N / 8), dim3(8, 8, 8)>>>(N, 27, sum, t[pass], s[1 - pass]); checkLaunch("filterVolume");
            for (int z = 0; z < N; z++) for (int y = 0; y < N; y++) for (int x = 0; x < N; x++) {
                int r = 0;
                for (int k = 0; k < 27; k++) r += o[k].weight * v[(std::min(std::max(z + o[k].z, 0), N - 1) * N + std::min(std::max(y + o[k].y, 0), N - 1)) * N + std::min(std::max(x + o[k].x, 0), N - 1)];
                ref[(z * N + y) * N + x] = r / sum;
            }
            v = ref;
        }
        cudaMemcpy3DParms back = {0}; back.srcArray = a[0]; back.dstPtr = make_cudaPitchedPtr(got.data(), N, N, N); back.extent = extent; back.kind = cudaMemcpyDeviceToHost;
        checkCuda(cudaMemcpy3D(&back));
        report("volume filter, surfaces and textures", got == ref);
        digest(got.data(), got.size());
        float4 colours[8] = {{.3f, .3f, .3f, .3f}, {1, 0, 0, .3f}, {1, .5f, 0, .5f}, {1, 1, 0, .7f}, {0, 1, 0, .8f}, {0, 1, 1, .9f}, {0, 0, 1, 1}, {1, 0, 1, 1}};
        cudaArray_t transfer; cudaChannelFormatDesc four = cudaCreateChannelDesc<float4>();
        checkCuda(cudaMallocArray(&transfer, &four, 8)); checkCuda(cudaMemcpy2DToArray(transfer, 0, 0, colours, sizeof colours, sizeof colours, 1, cudaMemcpyHostToDevice));
        cudaTextureObject_t tv = arrayTexture(a[0], cudaFilterModeLinear, cudaAddressModeClamp, cudaReadModeNormalizedFloat, true), tt = arrayTexture(transfer, cudaFilterModeLinear, cudaAddressModeClamp, cudaReadModeElementType, true);
        uint *out; checkCuda(cudaMalloc((void **)&out, W * H * 4)); std::vector<uint> image(W * H); int bad = 0;
        for (int frame = 0; frame < 8; frame++) {
            float c = cosf(frame * .3f + .1f), e = sinf(frame * .3f + .1f);
            ViewMatrix m = {{{c, .001f, e, 4 * e}, {.001f, 1, .002f, .01f}, {-e, .001f, c, 4 * c}}};
            checkCuda(cudaMemcpyToSymbol(c_view, &m, sizeof m));
            checkCuda(cudaMemset(out, 0, W * H * 4));
            renderVolume<<<dim3(W / 16, H / 16), dim3(16, 16)>>>(out, W, H, .05f, tv, tt); checkLaunch("renderVolume");
            checkCuda(cudaMemcpy(image.data(), out, W * H * 4, cudaMemcpyDeviceToHost));
            for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) { float3 p, d; float near, far; ray(m, x, y, W, H, &p, &d); bool hit = boxHit(p, d, &near, &far); bad += (image[y * W + x] != 0 && !hit) || (hit && far - near > .5f && image[y * W + x] == 0); }
            digest(image.data(), W * H * 4);
        }
        report("volume rendering, the box is where it should be", bad < 40);
        for (int k = 0; k < 2; k++) { checkCuda(cudaDestroyTextureObject(t[k])); checkCuda(cudaDestroySurfaceObject(s[k])); }
        checkCuda(cudaDestroyTextureObject(tv)); checkCuda(cudaDestroyTextureObject(tt)); checkCuda(cudaFreeArray(a[0])); checkCuda(cudaFreeArray(a[1])); checkCuda(cudaFreeArray(transfer)); cudaFree(out);
    }
    {
        const int W = 400, H = 300, limit = 400; unsigned short *out; std::vector<unsigned short> got(W * H); uint zero = 0; int bad = 0;
        checkCuda(cudaMalloc((void **)&out, W * H * 2));
        for (int frame = 0; frame < 4; frame++) {
            double cx = -.6 - frame * .05, cy = frame * .1, scale = 3. / W / (1 + frame);
            checkCuda(cudaMemcpyToSymbol(nextTile, &zero, sizeof zero));
            mandelbrot<<<200, dim3(16, 8)>>>(out, W, H, cx, cy, scale, limit); checkLaunch("mandelbrot");
            checkCuda(cudaMemcpy(got.data(), out, W * H * 2, cudaMemcpyDeviceToHost));
            for (int y = 0; y < H; y += 4) for (int x = 0; x < W; x += 3) bad += got[y * W + x] != escape<double>(cx + mul(x - W / 2, scale), cy + mul(y - H / 2, scale), limit);
            digest(got.data(), W * H * 2);
        }
        report("Mandelbrot sets", bad == 0);
        cudaFree(out);
    }
    {
        const int W = 256; const size_t bytes = W * W * 4; std::vector<float> in(W * W), a(W * W), b(W * W); float *d; cudaArray_t array; cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
        for (int i = 0; i < W * W; i++) in[i] = sinf(i % W * .2f) * cosf(i / W * .15f);
        checkCuda(cudaMalloc((void **)&d, 6 * bytes)); checkCuda(cudaMallocArray(&array, &desc, W, W, cudaArraySurfaceLoadStore));
        checkCuda(cudaMemcpy(d, in.data(), bytes, cudaMemcpyHostToDevice));
        cudaResourceDesc res; memset(&res, 0, sizeof res); res.resType = cudaResourceTypeArray; res.res.array.array = array; cudaSurfaceObject_t surface; checkCuda(cudaCreateSurfaceObject(&surface, &res));
        const dim3 block(16, 16), grid(W / 16, W / 16);
        surfaceWrite<<<grid, block>>>(d, W, surface); checkLaunch("surfaceWrite");
        checkCuda(cudaMemcpy2DFromArray(a.data(), W * 4, array, 0, 0, W * 4, W, cudaMemcpyDeviceToHost));
        report("surface write", a == in);
        cudaTextureObject_t points = arrayTexture(array, cudaFilterModePoint, cudaAddressModeClamp, cudaReadModeElementType, false), linear = arrayTexture(array, cudaFilterModeLinear, cudaAddressModeClamp, cudaReadModeElementType, false);
        bicubic<<<grid, block>>>(d, W, W, 10.3f, 20.7f, .61f, points, false); checkCuda(cudaMemcpy(a.data(), d, bytes, cudaMemcpyDeviceToHost));
        bicubic<<<grid, block>>>(d, W, W, 10.3f, 20.7f, .61f, linear, true); checkLaunch("bicubic"); checkCuda(cudaMemcpy(b.data(), d, bytes, cudaMemcpyDeviceToHost));
        double worst = 0, law = 0;
        for (int i = 0; i < W * W; i++) worst = fmax(worst, fabs(a[i] - b[i]));
        for (int y = 0; y < W; y += 9) for (int x = 0; x < W; x += 7) { float fx = x * .61f + 10.3f - .5f, fy = y * .61f + 20.7f - .5f, wx[4], wy[4], r = 0; int ix = floorf(fx), iy = floorf(fy); splineWeights(fx - ix, wx); splineWeights(fy - iy, wy); for (int j = 0; j < 4; j++) for (int i = 0; i < 4; i++) r += wx[i] * wy[j] * in[std::min(std::max(iy - 1 + j, 0), W - 1) * W + std::min(std::max(ix - 1 + i, 0), W - 1)]; law = fmax(law, fabs(r - a[y * W + x])); }
        report("bicubic, sixteen and four fetches", worst < 2e-2 && law < 1e-3);
        digest(a.data(), bytes); digest(b.data(), bytes);
        checkCuda(cudaDestroyTextureObject(points)); checkCuda(cudaDestroyTextureObject(linear)); checkCuda(cudaDestroySurfaceObject(surface)); checkCuda(cudaFreeArray(array));
        // layers and a cube
        for (int cube = 0; cube < 2; cube++) {
            const int w = cube ? 16 : 64, layers = cube ? 6 : 5; std::vector<float> l(w * w * layers), r(l.size()); int bad = 0;
            for (size_t i = 0; i < l.size(); i++) l[i] = i;
            checkCuda(cudaMalloc3DArray(&array, &desc, make_cudaExtent(w, w, layers), cube ? cudaArrayCubemap : cudaArrayLayered));
            cudaMemcpy3DParms copy = {0}; copy.srcPtr = make_cudaPitchedPtr(l.data(), w * 4, w, w); copy.dstArray = array; copy.extent = make_cudaExtent(w, w, layers); copy.kind = cudaMemcpyHostToDevice;
            checkCuda(cudaMemcpy3D(&copy));
            cudaTextureObject_t t = arrayTexture(array, cudaFilterModePoint, cube ? cudaAddressModeClamp : cudaAddressModeWrap, cudaReadModeElementType, true);
            if (cube) cubeKernel<<<1, dim3(w, w)>>>(d, w, t); else for (int k = 0; k < layers; k++) layersKernel<<<dim3(w / 8, w / 8), dim3(8, 8)>>>(d, w, t, k);
            checkLaunch("layers");
            checkCuda(cudaMemcpy(r.data(), d, r.size() * 4, cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < l.size(); i++) bad += r[i] != -l[i] + (cube ? 0 : (int)i / (w * w));
            report(cube ? "cubic texture" : "layered texture", bad == 0);
            digest(r.data(), r.size() * 4); checkCuda(cudaDestroyTextureObject(t)); checkCuda(cudaFreeArray(array));
        }
        float *pitched; size_t pitch; checkCuda(cudaMallocPitch((void **)&pitched, &pitch, W * 4, W)); checkCuda(cudaMemcpy2D(pitched, pitch, in.data(), W * 4, W * 4, W, cudaMemcpyHostToDevice));
        memset(&res, 0, sizeof res); res.resType = cudaResourceTypePitch2D; res.res.pitch2D.devPtr = pitched; res.res.pitch2D.desc = desc; res.res.pitch2D.width = res.res.pitch2D.height = W; res.res.pitch2D.pitchInBytes = pitch;
        cudaTextureDesc td; memset(&td, 0, sizeof td); td.normalizedCoords = true; td.addressMode[0] = td.addressMode[1] = cudaAddressModeWrap; cudaTextureObject_t t; checkCuda(cudaCreateTextureObject(&t, &res, &td, NULL));
        shiftPitch<<<grid, block>>>(d, W, W, W, 37, 61, t); checkLaunch("shiftPitch"); checkCuda(cudaMemcpy(a.data(), d, bytes, cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int i = 0; i < W * W; i++) bad += a[i] != in[(i / W + 61) % W * W + (i % W + 37) % W];
        report("pitch-linear texture, shifted", bad == 0); digest(a.data(), bytes);
        checkCuda(cudaDestroyTextureObject(t)); cudaFree(pitched); cudaFree(d);
    }
    FINISH("volumes");
}
