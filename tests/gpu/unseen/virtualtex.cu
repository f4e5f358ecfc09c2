// A virtual texture: a sparse array of which a few tiles have memory. The GPU tells which tiles a frame needs, the host evicts others, maps their
// memory to the new ones (cuMemMapArrayAsync), uploads them in a second stream, paints into resident ones, and makes the texture object anew now
// and then; its handle lies in device memory. Then arrays without memory of their own (deferred mapping) that take turns with one piece of it.
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, (int)e_); exit(2); } } while (0)
template <class F> static F *entry(const char *name, F *) {
    void *p = nullptr; cudaDriverEntryPointQueryResult found;
    CK(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found));
    if (!p || found != cudaDriverEntryPointSuccess) { fprintf(stderr, "no %s (%d)\n", name, (int)found); exit(2); }
    return (F *)p;
}
#define ENTRY(f) static decltype(&f) p_##f = entry(#f, (decltype(&f))nullptr)

constexpr uint32_t SIDE = 1024, FRAMES = 48, NEEDED = 7, POOL = 12, POINTS = 2000;
struct Scene { cudaTextureObject_t texture; uint32_t tile_width, tile_height, across, frame; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
// Which tile a point of a frame lies in, and where in it
__host__ __device__ inline uint32_t tile_of(uint32_t point, uint32_t frame, uint32_t tiles) {
    uint32_t pick = mix(point * 977 + frame) % NEEDED;
    return mix(pick * 31 + (pick < 4 ? frame / 6 : frame)) % tiles;      // four stay for a while
}
__host__ __device__ inline uint32_t x_of(uint32_t point, uint32_t frame, uint32_t width) { return mix(point + frame * 7777) % width; }
__host__ __device__ inline uint32_t y_of(uint32_t point, uint32_t frame, uint32_t height) { return mix(point * 3 + frame * 555 + 1) % height; }

__global__ void feedback(const Scene *scene, uint32_t tiles, uint32_t *needed) {
    uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < POINTS) needed[tile_of(p, scene->frame, tiles)] = 1;
}
__global__ void render(const Scene *scene, uint32_t tiles, uint32_t *out) {
    uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= POINTS) return;
    uint32_t tile = tile_of(p, scene->frame, tiles);
    uint32_t x = tile % scene->across * scene->tile_width + x_of(p, scene->frame, scene->tile_width);
    uint32_t y = tile / scene->across * scene->tile_height + y_of(p, scene->frame, scene->tile_height);
    out[p] = out[p] * 5 + tex2D<unsigned>(scene->texture, x + 0.5f, y + 0.5f);
}
__global__ void read_all(cudaTextureObject_t texture, uint32_t side, uint32_t *out) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < side * side; i += gridDim.x * blockDim.x)
        out[i] = out[i] * 3 + tex2D<unsigned>(texture, i % side + 0.5f, i / side + 0.5f);
}

static int wrong; static uint64_t checksum = 14695981039346656037ull;
static void digest(const std::vector<uint32_t> &v) { for (uint32_t w : v) checksum = (checksum ^ w) * 1099511628211ull; }
static cudaTextureObject_t texture_of(cudaArray_t array) {
    cudaTextureObject_t t; cudaResourceDesc r = {}; cudaTextureDesc d = {};
    r.resType = cudaResourceTypeArray; r.res.array.array = array;
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp; d.filterMode = cudaFilterModePoint; d.readMode = cudaReadModeElementType;
    CK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}
static CUmemGenericAllocationHandle tile_memory(size_t &bytes) {         // rounded up
    ENTRY(cuMemCreate); ENTRY(cuMemGetAllocationGranularity);
    CUmemAllocationProp p = {}; size_t grain; CUmemGenericAllocationHandle h;
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED; p.location.type = CU_MEM_LOCATION_TYPE_DEVICE; p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    CU(p_cuMemGetAllocationGranularity(&grain, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    bytes = (bytes + grain - 1) / grain * grain;
    CU(p_cuMemCreate(&h, bytes, &p, 0));
    return h;
}
static void release(CUmemGenericAllocationHandle h) { ENTRY(cuMemRelease); CU(p_cuMemRelease(h)); }
static CUresult map(std::vector<CUarrayMapInfo> list, cudaStream_t s) { ENTRY(cuMemMapArrayAsync); return p_cuMemMapArrayAsync(list.data(), (unsigned)list.size(), (CUstream)s); }
static CUarrayMapInfo info(cudaArray_t array, bool mapped, CUmemGenericAllocationHandle memory, size_t offset) {
    CUarrayMapInfo m; memset(&m, 0, sizeof m);
    m.resourceType = CU_RESOURCE_TYPE_ARRAY; m.resource.array = (CUarray)array; m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    m.memOperationType = mapped ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP; m.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    if (mapped) { m.memHandle.memHandle = memory; m.offset = offset; }
    m.deviceBitMask = 1;
    return m;
}

static void sparse() {
    int yes = 0; cudaArray_t array; cudaArraySparseProperties tile; cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
    CK(cudaDeviceGetAttribute(&yes, cudaDevAttrSparseCudaArraySupported, 0));
    if (!yes || cudaMalloc3DArray(&array, &format, make_cudaExtent(SIDE, SIDE, 0), cudaArraySparse) != cudaSuccess) {
        cudaGetLastError(); printf("skipped: sparse arrays\n"); return;
    }
    CK(cudaArrayGetSparseProperties(&tile, array));
    const uint32_t w = tile.tileExtent.width, h = tile.tileExtent.height, across = SIDE / w, tiles = across * (SIDE / h); const size_t per_tile = (size_t)w * h * 4;
    size_t pool_bytes = POOL * per_tile; CUmemGenericAllocationHandle pool = tile_memory(pool_bytes);
    cudaStream_t draw, load; cudaEvent_t drawn, loaded; Scene scene = {}, *scene_dev; uint32_t *needed_dev, *needed, *out, *staging;
    CK(cudaStreamCreateWithFlags(&draw, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&load, cudaStreamNonBlocking));
    CK(cudaEventCreateWithFlags(&drawn, cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&loaded, cudaEventDisableTiming));
    CK(cudaMalloc(&scene_dev, sizeof(Scene))); CK(cudaMalloc(&needed_dev, tiles * 4)); CK(cudaMallocHost(&needed, tiles * 4)); CK(cudaMalloc(&out, POINTS * 4));
    CK(cudaMallocHost(&staging, (NEEDED + 1) * per_tile)); CK(cudaMemset(out, 0, POINTS * 4)); CK(cudaDeviceSynchronize());
    std::vector<std::vector<uint32_t>> store(tiles, std::vector<uint32_t>(w * h));
    for (uint32_t t = 0; t < tiles; t++) for (uint32_t i = 0; i < w * h; i++) store[t][i] = mix(t * 1000003 + i);
    int resident[POOL], used[POOL]; std::fill(resident, resident + POOL, -1); std::fill(used, used + POOL, -1);
    std::vector<uint32_t> model(POINTS, 0), back(POINTS), evicted(w * h); int loads = 0;
    scene = {texture_of(array), w, h, across, 0};
    auto place = [&](CUarrayMapInfo m, uint32_t t) {
        m.subresource.sparseLevel.offsetX = t % across * w; m.subresource.sparseLevel.offsetY = t / across * h;
        m.subresource.sparseLevel.extentWidth = w; m.subresource.sparseLevel.extentHeight = h; m.subresource.sparseLevel.extentDepth = 1;
        return m;
    };
    for (uint32_t f = 0; f < FRAMES; f++) {
        if (f % 6 == 5) { CK(cudaStreamSynchronize(draw)); CK(cudaDestroyTextureObject(scene.texture)); scene.texture = texture_of(array); }
        scene.frame = f;
        CK(cudaMemcpyAsync(scene_dev, &scene, sizeof scene, cudaMemcpyHostToDevice, draw));
        CK(cudaMemsetAsync(needed_dev, 0, tiles * 4, draw));
        feedback<<<(POINTS + 127) / 128, 128, 0, draw>>>(scene_dev, tiles, needed_dev);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(needed, needed_dev, tiles * 4, cudaMemcpyDeviceToHost, draw));
        CK(cudaStreamSynchronize(draw)); CK(cudaStreamSynchronize(load));      // the staging memory is free as well
        int staged = 0; std::vector<CUarrayMapInfo> changes; std::vector<uint32_t> coming;
        for (int s = 0; s < (int)POOL; s++) if (resident[s] >= 0 && needed[resident[s]]) { used[s] = f; needed[resident[s]] = 0; }
        for (uint32_t t = 0; t < tiles; t++) {
            if (!needed[t]) continue;
            int s = (int)(std::min_element(used, used + POOL) - used);
            if (used[s] == (int)f) { fprintf(stderr, "the pool is too small\n"); exit(2); }
            if (resident[s] >= 0) {                          // what is evicted must be as the host knows it
                uint32_t old = resident[s];
                CK(cudaMemcpy2DFromArrayAsync(evicted.data(), w * 4, array, old % across * w * 4, old / across * h, w * 4, h, cudaMemcpyDeviceToHost, load));
                CK(cudaStreamSynchronize(load));
                wrong += evicted != store[old];
                changes.push_back(place(info(array, false, 0, 0), old));
            }
            changes.push_back(place(info(array, true, pool, s * per_tile), t));
            resident[s] = t; used[s] = f; coming.push_back(t); loads++;
        }
        if (!changes.empty()) CU(map(changes, load));
        for (uint32_t t : coming) {
            uint32_t *from = staging + staged++ * (w * h);
            memcpy(from, store[t].data(), per_tile);
            CK(cudaMemcpy2DToArrayAsync(array, t % across * w * 4, t / across * h, from, w * 4, w * 4, h, cudaMemcpyHostToDevice, load));
        }
        {                                                    // a brush of an odd size somewhere in a tile that is there
            int s = (int)(mix(f) % POOL); uint32_t bw = 17 + f % 9, bh = 11 + f % 5, x = mix(f + 1) % (w - bw), y = mix(f + 2) % (h - bh);
            uint32_t *from = staging + NEEDED * (w * h);
            if (resident[s] >= 0) {
                uint32_t t = resident[s];
                for (uint32_t i = 0; i < bw * bh; i++) { from[i] = mix(f * 100 + i); store[t][(y + i / bw) * w + x + i % bw] = from[i]; }
                CK(cudaMemcpy2DToArrayAsync(array, (t % across * w + x) * 4, t / across * h + y, from, bw * 4, bw * 4, bh, cudaMemcpyHostToDevice, load));
            }
        }
        CK(cudaEventRecord(loaded, load)); CK(cudaStreamWaitEvent(draw, loaded, 0));
        render<<<(POINTS + 127) / 128, 128, 0, draw>>>(scene_dev, tiles, out);
        CK(cudaGetLastError());
        CK(cudaEventRecord(drawn, draw)); CK(cudaStreamWaitEvent(load, drawn, 0));
        for (uint32_t p = 0; p < POINTS; p++) model[p] = model[p] * 5 + store[tile_of(p, f, tiles)][y_of(p, f, h) * w + x_of(p, f, w)];
    }
    CK(cudaMemcpyAsync(back.data(), out, POINTS * 4, cudaMemcpyDeviceToHost, draw)); CK(cudaStreamSynchronize(draw)); CK(cudaStreamSynchronize(load));
    wrong += back != model; digest(back);
    printf("tiles of %u x %u, %d loads\n", w, h, loads);
    CK(cudaDestroyTextureObject(scene.texture)); CK(cudaFreeArray(array)); release(pool);
    CK(cudaFree(scene_dev)); CK(cudaFree(needed_dev)); CK(cudaFree(out)); CK(cudaFreeHost(needed)); CK(cudaFreeHost(staging));
    CK(cudaStreamDestroy(draw)); CK(cudaStreamDestroy(load)); CK(cudaEventDestroy(drawn)); CK(cudaEventDestroy(loaded));
}

static void deferred() {
    constexpr uint32_t S = 200; int yes = 0; cudaArray_t arrays[2]; cudaArrayMemoryRequirements need; cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
    CK(cudaDeviceGetAttribute(&yes, cudaDevAttrDeferredMappingCudaArraySupported, 0));
    for (auto &a : arrays)
        if (!yes || cudaMalloc3DArray(&a, &format, make_cudaExtent(S, S, 0), cudaArrayDeferredMapping) != cudaSuccess) {
            cudaGetLastError(); printf("skipped: arrays with deferred mapping\n"); return;
        }
    CK(cudaArrayGetMemoryRequirements(&need, arrays[0], 0));
    size_t bytes = need.size; CUmemGenericAllocationHandle memory = tile_memory(bytes);
    cudaStream_t s; uint32_t *out; std::vector<uint32_t> image(S * S), model(S * S, 0), back(S * S);
    CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaMalloc(&out, S * S * 4)); CK(cudaMemset(out, 0, S * S * 4)); CK(cudaDeviceSynchronize());
    for (uint32_t r = 0; r < 6; r++) {
        cudaArray_t a = arrays[r % 2];
        if (map({info(a, true, memory, 0)}, s) != CUDA_SUCCESS) { printf("skipped: memory for arrays with deferred mapping\n"); break; }
        CK(cudaStreamSynchronize(s));
        cudaTextureObject_t t = texture_of(a);
        for (uint32_t i = 0; i < S * S; i++) { image[i] = mix(i + r * 99991); model[i] = model[i] * 3 + image[i]; }
        CK(cudaMemcpy2DToArrayAsync(a, 0, 0, image.data(), S * 4, S * 4, S, cudaMemcpyHostToDevice, s));
        read_all<<<16, 128, 0, s>>>(t, S, out);
        CK(cudaGetLastError()); CK(cudaStreamSynchronize(s));
        CK(cudaDestroyTextureObject(t));
        CU(map({info(a, false, 0, 0)}, s)); CK(cudaStreamSynchronize(s));
    }
    CK(cudaMemcpy(back.data(), out, S * S * 4, cudaMemcpyDeviceToHost));
    wrong += back != model; digest(back);
    for (auto a : arrays) CK(cudaFreeArray(a));
    release(memory); CK(cudaFree(out)); CK(cudaStreamDestroy(s));
}

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    sparse();
    deferred();
    printf("virtualtex: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
