// A rasteriser in software, as a small engine has it: triangles from a ring of pinned memory are binned into tiles, tested with integers, and
// resolved by the lowest depth and number; shading reads layers of a texture of which a few rectangles are replaced in every frame (a batch of 3D
// copies), writes by surfaces into a ring of images, makes levels of a mipmapped array, and composes. Uploads have a stream of their own; frame
// constants go by copies to a symbol; the CPU draws the same frames, two behind the GPU.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int W = 256, H = 192, TILE = 32, TX = W / TILE, TY = H / TILE, TRIANGLES = 500, LAYERS = 4, TEX = 64, RING = 3, FRAMES = 16, LEVELS = 3,
    RECTS = 5;
struct Triangle { int x[3], y[3], z0, dzx, dzy, u0, dux, duy, v0, dvx, dvy, material; };
struct Frame { uint32_t tint; int shift_x, shift_y; uint32_t sky; };
__constant__ Frame frame;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline unsigned long long cover(const Triangle &t, int id, int x, int y)     // depth and number, or all ones
{
    int inside = 0;
    for (int k = 0; k < 3; k++) { int n = (k + 1) % 3, e = (t.x[n] - t.x[k]) * (y - t.y[k]) - (t.y[n] - t.y[k]) * (x - t.x[k]);
        inside += e > 0 ? 1 : e < 0 ? -1 : 0; if (e == 0) return ~0ull; }
    if (inside != 3 && inside != -3) return ~0ull;
    int z = t.z0 + t.dzx * x + t.dzy * y; return (unsigned long long)(uint32_t)(z < 0 ? 0 : z) << 32 | (uint32_t)id;
}
__host__ __device__ inline void place(const Triangle &t, const Frame &f, int x, int y, int &u, int &v) {
    u = ((t.u0 + t.dux * x + t.duy * y) >> 4) + f.shift_x & TEX - 1; v = ((t.v0 + t.dvx * x + t.dvy * y) >> 4) + f.shift_y & TEX - 1; }
__host__ __device__ inline uint32_t sky(const Frame &f, int x, int y) { return mix(f.sky + y) + (x >> 4); }
__host__ __device__ inline uint32_t light(const Frame &f, uint32_t texel, uint32_t id) { return texel * 3 + (f.tint ^ id * 0x01010101u); }
__host__ __device__ inline bool touches(const Triangle &t, int tx, int ty)
{
    int x0 = min(t.x[0], min(t.x[1], t.x[2])), x1 = max(t.x[0], max(t.x[1], t.x[2])), y0 = min(t.y[0], min(t.y[1], t.y[2])),
        y1 = max(t.y[0], max(t.y[1], t.y[2]));
    return x1 >= tx * TILE && x0 < (tx + 1) * TILE && y1 >= ty * TILE && y0 < (ty + 1) * TILE;
}

__global__ void bin_count(int *counts, const Triangle *t) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TRIANGLES) for (int k = 0; k < TX * TY; k++) if (touches(t[i], k % TX, k / TX)) atomicAdd(&counts[k], 1); }
__global__ void bin_scan(int *starts, int *fill, const int *counts)                 // one block, a thread for each tile
{
    __shared__ int s[64]; int i = threadIdx.x; s[i] = i < TX * TY ? counts[i] : 0;
    for (int d = 1; d < 64; d *= 2) { __syncthreads(); int v = i >= d ? s[i - d] : 0; __syncthreads(); s[i] += v; }
    __syncthreads();
    if (i < TX * TY) { starts[i + 1] = s[i]; fill[i] = i ? s[i - 1] : 0; if (i == 0) starts[0] = 0; }
}
__global__ void bin_fill(int *list, int *fill, const Triangle *t) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TRIANGLES) for (int k = 0; k < TX * TY; k++) if (touches(t[i], k % TX, k / TX)) list[atomicAdd(&fill[k], 1)] = i; }
// a block for each tile; the list's order is any
__global__ void raster(unsigned long long *keys, const Triangle *t, const int *list, const int *starts)
{
    __shared__ unsigned long long best[TILE * TILE];
    int tile = blockIdx.x, x0 = tile % TX * TILE, y0 = tile / TX * TILE;
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) best[i] = ~0ull;
    __syncthreads();
    for (int k = starts[tile] + threadIdx.x / 32; k < starts[tile + 1]; k += blockDim.x / 32) {         // a warp for each triangle
        int id = list[k]; const Triangle &tri = t[id];
        for (int i = threadIdx.x % 32; i < TILE * TILE; i += 32) { unsigned long long key = cover(tri, id, x0 + i % TILE, y0 + i / TILE);
            if (key != ~0ull) atomicMin(&best[i], key); }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) keys[(y0 + i / TILE) * W + x0 + i % TILE] = best[i];
}
__global__ void shade(cudaSurfaceObject_t out, const unsigned long long *keys, const Triangle *t, cudaTextureObject_t layers)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; unsigned long long key = keys[y * W + x];
    uint32_t color;
    if (key == ~0ull) color = sky(frame, x, y);
    else { uint32_t id = (uint32_t)key; int u, v; place(t[id], frame, x, y, u, v);
        color = light(frame, tex2DLayered<uint32_t>(layers, u + 0.5f, v + 0.5f, t[id].material), id); }
    surf2Dwrite(color, out, x * 4, y);
}
__global__ void halve(cudaSurfaceObject_t to, cudaSurfaceObject_t from, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; uint32_t sum = 0;
    if (x >= w || y >= h) return;
    for (int k = 0; k < 4; k++) { uint32_t v; surf2Dread(&v, from, (2 * x + k % 2) * 4, 2 * y + k / 2); sum = sum * 3 + v; }
    surf2Dwrite(sum, to, x * 4, y);
}
__global__ void compose(cudaSurfaceObject_t image, cudaTextureObject_t levels)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; uint32_t v; surf2Dread(&v, image, x * 4, y);
    for (int l = 0; l < LEVELS; l++) v += (l + 1)
        * tex2DLod<uint32_t>(levels, ((x >> l + 1) + 0.5f) / (W >> l + 1), ((y >> l + 1) + 0.5f) / (H >> l + 1), (float)l);
    surf2Dwrite(v, image, x * 4, y);
}

static std::vector<uint32_t> texture[LAYERS];
static void draw_on_cpu(std::vector<uint32_t> &out, const std::vector<Triangle> &t, const Frame &f)
{
    std::vector<unsigned long long> keys(W * H, ~0ull); std::vector<uint32_t> level[LEVELS];
    for (int id = 0; id < TRIANGLES; id++) {
        const Triangle &r = t[id]; int x0 = std::max(0, *std::min_element(r.x, r.x + 3)), x1 = std::min(W - 1, *std::max_element(r.x, r.x + 3)),
            y0 = std::max(0, *std::min_element(r.y, r.y + 3)), y1 = std::min(H - 1, *std::max_element(r.y, r.y + 3));
        for (int y = y0; y <= y1; y++) for (int x = x0; x <= x1; x++) keys[y * W + x] = std::min(keys[y * W + x], cover(r, id, x, y));
    }
    out.resize(W * H);
    for (int i = 0; i < W * H; i++) {
        int x = i % W, y = i / W, u, v; uint32_t id = (uint32_t)keys[i];
        if (keys[i] == ~0ull) out[i] = sky(f, x, y); else { place(t[id], f, x, y, u, v); out[i] = light(f, texture[t[id].material][v * TEX + u], id);
            }
    }
    const std::vector<uint32_t> *from = &out;
    for (int l = 0; l < LEVELS; l++) {
        int w = W >> l + 1, h = H >> l + 1; level[l].resize(w * h);
        for (int i = 0; i < w * h; i++) { uint32_t s = 0;
            for (int k = 0; k < 4; k++) s = s * 3 + (*from)[(i / w * 2 + k / 2) * w * 2 + i % w * 2 + k % 2]; level[l][i] = s; }
        from = &level[l];
    }
    for (int i = 0; i < W * H; i++) for (int l = 0; l < LEVELS; l++) out[i] += (l + 1) * level[l][(i / W >> l + 1) * (W >> l + 1) + (i % W >> l + 1)];
}

int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull;
    cudaStream_t draw, load; CK(cudaStreamCreateWithFlags(&draw, cudaStreamNonBlocking));
    CK(cudaStreamCreateWithPriority(&load, cudaStreamNonBlocking, -1));
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uint32_t>(); cudaArray_t layers, images[RING]; cudaMipmappedArray_t levels;
    cudaTextureObject_t layers_tex, levels_tex; cudaSurfaceObject_t image_surf[RING], level_surf[LEVELS];
    CK(cudaMalloc3DArray(&layers, &format, make_cudaExtent(TEX, TEX, LAYERS), cudaArrayLayered));
    CK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(W / 2, H / 2, 0), LEVELS, cudaArraySurfaceLoadStore));
    cudaResourceDesc r; cudaTextureDesc d; memset(&r, 0, sizeof r); memset(&d, 0, sizeof d);
    r.resType = cudaResourceTypeArray; r.res.array.array = layers; d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
    CK(cudaCreateTextureObject(&layers_tex, &r, &d, nullptr));
    for (int i = 0; i < RING; i++) { CK(cudaMallocArray(&images[i], &format, W, H, cudaArraySurfaceLoadStore)); r.res.array.array = images[i];
        CK(cudaCreateSurfaceObject(&image_surf[i], &r)); }
    for (int l = 0; l < LEVELS; l++) { cudaArray_t a; CK(cudaGetMipmappedArrayLevel(&a, levels, l)); r.res.array.array = a;
        CK(cudaCreateSurfaceObject(&level_surf[l], &r)); }
    memset(&r, 0, sizeof r); r.resType = cudaResourceTypeMipmappedArray; r.res.mipmap.mipmap = levels; d.normalizedCoords = 1;
    d.mipmapFilterMode = cudaFilterModePoint; d.maxMipmapLevelClamp = LEVELS - 1; CK(cudaCreateTextureObject(&levels_tex, &r, &d, nullptr));

    Triangle *ring_host, *triangles[RING]; uint32_t *result[RING]; Frame *constants; unsigned long long *keys; int *counts, *starts, *fill, *list;
    cudaEvent_t loaded[RING], shaded[RING], done[RING];
    CK(cudaMallocHost(&ring_host, RING * TRIANGLES * sizeof(Triangle))); CK(cudaMallocHost(&constants, RING * sizeof(Frame)));
    CK(cudaMalloc(&keys, W * H * 8)); CK(cudaMalloc(&counts, 256)); CK(cudaMalloc(&starts, 260)); CK(cudaMalloc(&fill, 256));
    CK(cudaMalloc(&list, TRIANGLES * TX * TY * 4));
    for (int i = 0; i < RING; i++) { CK(cudaMalloc(&triangles[i], TRIANGLES * sizeof(Triangle))); CK(cudaMallocHost(&result[i], W * H * 4));
        for (cudaEvent_t *e : {&loaded[i], &shaded[i], &done[i]}) CK(cudaEventCreateWithFlags(e, cudaEventDisableTiming)); }
    for (int l = 0; l < LAYERS; l++) for (int i = 0; i < TEX * TEX; i++) texture[l].push_back(mix(l * 10000 + i));
    for (int l = 0; l < LAYERS; l++) {
        cudaMemcpy3DParms p = {}; p.srcPtr = make_cudaPitchedPtr(texture[l].data(), TEX * 4, TEX, TEX); p.dstArray = layers;
        p.dstPos = make_cudaPos(0, 0, l); p.extent = make_cudaExtent(TEX, TEX, 1); p.kind = cudaMemcpyHostToDevice; CK(cudaMemcpy3DAsync(&p, load));
    }

    std::vector<std::vector<uint32_t>> expected(RING);
    auto collect = [&](int f) {
        int slot = f % RING; CK(cudaEventSynchronize(done[slot])); int bad = 0;
        for (int i = 0; i < W * H; i++) { bad += result[slot][i] != expected[slot][i]; checksum = (checksum ^ result[slot][i]) * 1099511628211ull; }
        if (bad) { wrong++; printf("frame %d: %d of %d differ\n", f, bad, W * H); }
    };
    for (int f = 0; f < FRAMES; f++) {
        int slot = f % RING; if (f >= RING) collect(f - RING);
        std::vector<Triangle> now(TRIANGLES); uint32_t seed = f * 7 + 1; auto next = [&](int below) { seed = seed * 1664525u + 1013904223u;
            return int((seed >> 8) % below); };
        for (Triangle &t : now) {
            int x = next(W), y = next(H), reach = 8 + next(40);
            for (int k = 0; k < 3; k++) { t.x[k] = x + next(2 * reach) - reach; t.y[k] = y + next(2 * reach) - reach; }
            t.z0 = 1000000 + next(100000); for (int *p : {&t.dzx, &t.dzy, &t.dux, &t.duy, &t.dvx, &t.dvy}) *p = next(81) - 40; t.u0 = next(1024);
            t.v0 = next(1024); t.material = next(LAYERS);
        }
        Frame now_frame = {mix(f), f, f * 3, mix(f + 99)};
        memcpy(ring_host + slot * TRIANGLES, now.data(), TRIANGLES * sizeof(Triangle)); constants[slot] = now_frame;
        // Uploads: the triangles, and rectangles of the texture, when the frame before has done with it
        CK(cudaMemcpyAsync(triangles[slot], ring_host + slot * TRIANGLES, TRIANGLES * sizeof(Triangle), cudaMemcpyHostToDevice, load));
        if (f) CK(cudaStreamWaitEvent(load, shaded[(f - 1) % RING], 0));
        std::vector<std::vector<uint32_t>> pieces(RECTS); std::vector<cudaMemcpy3DBatchOp> ops(RECTS);
        for (int k = 0; k < RECTS; k++) {                   // they do not overlap: each has its own strip of rows
            int w = 1 + next(TEX), h = 1 + next(12), x = next(TEX - w + 1), y = k * 12 + next(12 - h + 1), layer = next(LAYERS);
            pieces[k].resize(w * h);
            for (int i = 0; i < w * h; i++) { pieces[k][i] = mix(f * 999 + k * 77777 + i);
                texture[layer][(y + i / w) * TEX + x + i % w] = pieces[k][i]; }
            cudaMemcpy3DBatchOp &o = ops[k]; memset(&o, 0, sizeof o);
            o.src.type = cudaMemcpyOperandTypePointer; o.src.op.ptr.ptr = pieces[k].data(); o.src.op.ptr.rowLength = w; o.src.op.ptr.layerHeight = h;
            o.dst.type = cudaMemcpyOperandTypeArray; o.dst.op.array.array = layers; o.dst.op.array.offset = {(size_t)x, (size_t)y, (size_t)layer};
            o.extent = make_cudaExtent(w, h, 1); o.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
        }
        CK(cudaMemcpy3DBatchAsync(ops.size(), ops.data(), 0, load)); CK(cudaEventRecord(loaded[slot], load));
        pieces.clear(); ops.clear();                        // the sources were read while the call was made
        CK(cudaMemcpyToSymbolAsync(frame, &constants[slot], sizeof(Frame), 0, cudaMemcpyHostToDevice, draw));
        CK(cudaStreamWaitEvent(draw, loaded[slot], 0));
        const Triangle *t = triangles[slot]; dim3 block(32, 8);
        CK(cudaMemsetAsync(counts, 0, 256, draw));
        bin_count<<<(TRIANGLES + 127) / 128, 128, 0, draw>>>(counts, t); bin_scan<<<1, 64, 0, draw>>>(starts, fill, counts);
        bin_fill<<<(TRIANGLES + 127) / 128, 128, 0, draw>>>(list, fill, t);
        raster<<<TX * TY, 256, 0, draw>>>(keys, t, list, starts);
        shade<<<dim3(W / 32, H / 8), block, 0, draw>>>(image_surf[slot], keys, t, layers_tex); CK(cudaEventRecord(shaded[slot], draw));
        for (int l = 0; l < LEVELS; l++) { int w = W >> l + 1, h = H >> l + 1;
            halve<<<dim3((w + 31) / 32, (h + 7) / 8), block, 0, draw>>>(level_surf[l], l ? level_surf[l - 1] : image_surf[slot], w, h); }
        compose<<<dim3(W / 32, H / 8), block, 0, draw>>>(image_surf[slot], levels_tex); CK(cudaGetLastError());
        CK(cudaMemcpy2DFromArrayAsync(result[slot], W * 4, images[slot], 0, 0, W * 4, H, cudaMemcpyDeviceToHost, draw));
        CK(cudaEventRecord(done[slot], draw));
        draw_on_cpu(expected[slot], now, now_frame);
    }
    for (int f = FRAMES - RING; f < FRAMES; f++) collect(f);
    for (auto o : image_surf) CK(cudaDestroySurfaceObject(o)); for (auto o : level_surf) CK(cudaDestroySurfaceObject(o));
    CK(cudaDestroyTextureObject(layers_tex)); CK(cudaDestroyTextureObject(levels_tex));
    for (int i = 0; i < RING; i++) { CK(cudaFreeArray(images[i])); CK(cudaFree(triangles[i])); CK(cudaFreeHost(result[i]));
        for (cudaEvent_t e : {loaded[i], shaded[i], done[i]}) CK(cudaEventDestroy(e)); }
    CK(cudaFreeArray(layers)); CK(cudaFreeMipmappedArray(levels)); CK(cudaFreeHost(ring_host)); CK(cudaFreeHost(constants));
    for (void *p : {(void *)keys, (void *)counts, (void *)starts, (void *)fill, (void *)list}) CK(cudaFree(p));
    CK(cudaStreamDestroy(draw)); CK(cudaStreamDestroy(load));
    printf("softraster: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
