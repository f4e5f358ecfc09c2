// An image pyramid: three threads, each with its own mipmapped and layered arrays, make texture and surface objects anew in every
// round, write levels through surfaces, read them through textures, and look into a shared cubemap.
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int W = 128, LEVELS = 5, LAYERS = 4, LW = 40, LH = 24, CUBE = 16, THREADS = 3, ROUNDS = 14;
static std::atomic<int> wrong{0};
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

__global__ void shrink(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w) {       // w: the smaller width
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= w) return;
    uint32_t s = 0;
    for (int k = 0; k < 4; k++) s = s * 3 + surf2Dread<uint32_t>(from, (2 * x + k % 2) * 4, 2 * y + k / 2);
    surf2Dwrite(s, to, x * 4, y);
}
__global__ void read_levels(cudaTextureObject_t t, uint32_t *out) {          // all levels, one after the other
    int at = 0;
    for (int l = 0; l < LEVELS; l++) {
        int w = W >> l;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < w * w; i += gridDim.x * blockDim.x)
            out[at + i] = tex2DLod<uint32_t>(t, (i % w + 0.5f) / w, (i / w + 0.5f) / w, (float)l);
        at += w * w;
    }
}
__global__ void change_layers(cudaSurfaceObject_t s, uint32_t k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, l = blockIdx.z;
    if (x >= LW) return;
    ushort2 v = surf2DLayeredread<ushort2>(s, x * (int)sizeof(ushort2), y, l);
    v.x = (unsigned short)(v.x * 3 + k + l); v.y = (unsigned short)(v.y ^ (v.x + x));
    surf2DLayeredwrite(v, s, x * (int)sizeof(ushort2), y, l);
}
__global__ void read_layers(cudaTextureObject_t t, uint32_t *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, l = blockIdx.z;
    if (x >= LW) return;
    ushort2 v = tex2DLayered<ushort2>(t, x + 0.5f, y + 0.5f, l);
    out[(l * LH + y) * LW + x] = v.x | (uint32_t)v.y << 16;
}
__global__ void read_cube(cudaTextureObject_t t, uint32_t *out, uint32_t k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 6 * CUBE * CUBE) return;
    int face = i / (CUBE * CUBE), px = i % CUBE, py = i / CUBE % CUBE;
    float s = 2 * (px + 0.5f) / CUBE - 1, u = 2 * (py + 0.5f) / CUBE - 1, x, y, z;
    switch (face) {
        case 0: x = 1; y = -u; z = -s; break;
        case 1: x = -1; y = -u; z = s; break;
        case 2: x = s; y = 1; z = u; break;
        case 3: x = s; y = -1; z = -u; break;
        case 4: x = s; y = -u; z = 1; break;
        default: x = -s; y = -u; z = -1; break;
    }
    out[i] = texCubemap<uint32_t>(t, x, y, z) + k * i;
}
__global__ void write_cube(cudaSurfaceObject_t s, uint32_t k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 6 * CUBE * CUBE) return;
    int face = i / (CUBE * CUBE), px = i % CUBE, py = i / CUBE % CUBE;
    if ((px + py) % 2) surfCubemapwrite(mix(i + k), s, px * 4, py, face);
}

static cudaTextureObject_t texture_of(cudaArray_t array, bool normalized, cudaTextureAddressMode mode = cudaAddressModeClamp) {
    cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = array;
    cudaTextureDesc t = {}; for (auto &a : t.addressMode) a = mode;
    t.filterMode = cudaFilterModePoint; t.readMode = cudaReadModeElementType; t.normalizedCoords = normalized;
    cudaTextureObject_t o; CK(cudaCreateTextureObject(&o, &r, &t, nullptr)); return o;
}
static cudaSurfaceObject_t surface_of(cudaArray_t array) {
    cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = array;
    cudaSurfaceObject_t o; CK(cudaCreateSurfaceObject(&o, &r)); return o;
}

static cudaArray_t cube; static std::vector<uint32_t> cube_reference(6 * CUBE * CUBE);

static void worker(int id, uint64_t *result) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    uint64_t h = 14695981039346656037ull;
    int total = 0; for (int l = 0; l < LEVELS; l++) total += (W >> l) * (W >> l);
    uint32_t *out, *pinned; CK(cudaMalloc(&out, total * 4)); CK(cudaMallocHost(&pinned, total * 4));
    cudaMipmappedArray_t mip; cudaChannelFormatDesc u32 = cudaCreateChannelDesc<uint32_t>(), u16 = cudaCreateChannelDesc<ushort2>();
    CK(cudaMallocMipmappedArray(&mip, &u32, make_cudaExtent(W, W, 0), LEVELS, cudaArraySurfaceLoadStore));
    cudaArray_t layered; CK(cudaMalloc3DArray(&layered, &u16, make_cudaExtent(LW, LH, LAYERS), cudaArrayLayered | cudaArraySurfaceLoadStore));
    unsigned flags; cudaExtent extent; cudaChannelFormatDesc desc; CK(cudaArrayGetInfo(&desc, &extent, &flags, layered));
    wrong += extent.width != LW || extent.height != LH || extent.depth != LAYERS || desc.x != 16 || desc.y != 16;
    std::vector<ushort2> lay(LW * LH * LAYERS); std::vector<uint32_t> levels(total), image(W * W);
    for (size_t i = 0; i < lay.size(); i++) { uint32_t v = mix(i + id * 555); lay[i] = make_ushort2(v, v >> 16); }
    cudaMemcpy3DParms c = {};
    c.srcPtr = make_cudaPitchedPtr(lay.data(), LW * sizeof(ushort2), LW, LH); c.dstArray = layered; c.extent = make_cudaExtent(LW, LH, LAYERS); c.kind = cudaMemcpyHostToDevice;
    CK(cudaMemcpy3DAsync(&c, s)); CK(cudaStreamSynchronize(s));
    for (int round = 0; round < ROUNDS; round++) {
        // The picture goes to level 0; from there each level makes the next.
        for (int i = 0; i < W * W; i++) image[i] = mix(i * 3 + round * 11 + id);
        cudaArray_t arrays[LEVELS]; cudaSurfaceObject_t surfaces[LEVELS];
        for (int l = 0; l < LEVELS; l++) { CK(cudaGetMipmappedArrayLevel(&arrays[l], mip, l)); surfaces[l] = surface_of(arrays[l]); }
        if (round % 2) CK(cudaMemcpy2DToArrayAsync(arrays[0], 0, 0, image.data(), W * 4, W * 4, W, cudaMemcpyHostToDevice, s));
        else { memcpy(pinned, image.data(), W * W * 4); CK(cudaMemcpy2DToArrayAsync(arrays[0], 0, 0, pinned, W * 4, W * 4, W, cudaMemcpyHostToDevice, s)); }
        for (int l = 1; l < LEVELS; l++) { int w = W >> l; shrink<<<dim3((w + 15) / 16, (w + 7) / 8), dim3(16, 8), 0, s>>>(surfaces[l - 1], surfaces[l], w); }
        cudaResourceDesc r = {}; r.resType = cudaResourceTypeMipmappedArray; r.res.mipmap.mipmap = mip;
        cudaTextureDesc t = {}; for (auto &a : t.addressMode) a = cudaAddressModeClamp;
        t.filterMode = t.mipmapFilterMode = cudaFilterModePoint; t.normalizedCoords = 1; t.maxMipmapLevelClamp = LEVELS - 1; t.readMode = cudaReadModeElementType;
        cudaTextureObject_t texture; CK(cudaCreateTextureObject(&texture, &r, &t, nullptr));
        read_levels<<<40, 128, 0, s>>>(texture, out);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(pinned, out, total * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        CK(cudaDestroyTextureObject(texture));
        for (auto o : surfaces) CK(cudaDestroySurfaceObject(o));
        memcpy(levels.data(), image.data(), W * W * 4);
        int at = 0;
        for (int l = 1; l < LEVELS; l++) {
            int w = W >> l; uint32_t *from = &levels[at], *to = &levels[at + 4 * w * w]; at += 4 * w * w;
            for (int y = 0; y < w; y++) for (int x = 0; x < w; x++) { uint32_t v = 0; for (int k = 0; k < 4; k++) v = v * 3 + from[(2 * y + k / 2) * 2 * w + 2 * x + k % 2]; to[y * w + x] = v; }
        }
        if (memcmp(pinned, levels.data(), total * 4)) { wrong++; fprintf(stderr, "thread %d round %d: levels differ\n", id, round); }
        for (int i = 0; i < total; i += 3) h = (h ^ pinned[i]) * 1099511628211ull;

        // Layers: changed through a surface, one box of them by a copy, read through a texture.
        cudaSurfaceObject_t surface = surface_of(layered); cudaTextureObject_t layers = texture_of(layered, false);
        change_layers<<<dim3((LW + 31) / 32, LH, LAYERS), 32, 0, s>>>(surface, round);
        for (int l = 0; l < LAYERS; l++) for (int i = 0; i < LW * LH; i++) { ushort2 &v = lay[l * LW * LH + i]; v.x = (unsigned short)(v.x * 3 + round + l); v.y = (unsigned short)(v.y ^ (v.x + i % LW)); }
        std::vector<ushort2> box(7 * 5 * 2);
        for (size_t i = 0; i < box.size(); i++) box[i] = make_ushort2((unsigned short)(i * 9 + round), (unsigned short)(i ^ id));
        cudaMemcpy3DParms b = {}; b.srcPtr = make_cudaPitchedPtr(box.data(), 7 * sizeof(ushort2), 7, 5); b.dstArray = layered; b.kind = cudaMemcpyHostToDevice;
        b.dstPos = make_cudaPos(3 + round, 2 + round / 2, 1 + round % 2); b.extent = make_cudaExtent(7, 5, 2);     // in elements
        CK(cudaMemcpy3DAsync(&b, s));
        for (int z = 0; z < 2; z++) for (int y = 0; y < 5; y++) for (int x = 0; x < 7; x++) lay[((z + b.dstPos.z) * LH + y + b.dstPos.y) * LW + x + b.dstPos.x] = box[(z * 5 + y) * 7 + x];
        read_layers<<<dim3((LW + 31) / 32, LH, LAYERS), 32, 0, s>>>(layers, out);
        CK(cudaMemcpyAsync(pinned, out, lay.size() * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        CK(cudaDestroyTextureObject(layers)); CK(cudaDestroySurfaceObject(surface));
        if (memcmp(pinned, lay.data(), lay.size() * 4)) { wrong++; fprintf(stderr, "thread %d round %d: layers differ\n", id, round); }
        for (size_t i = 0; i < lay.size(); i++) h = (h ^ pinned[i]) * 1099511628211ull;

        // The cubemap of all threads: read only here.
        cudaTextureObject_t look = texture_of(cube, true);
        read_cube<<<6 * CUBE * CUBE / 128, 128, 0, s>>>(look, out, round);
        CK(cudaMemcpyAsync(pinned, out, 6 * CUBE * CUBE * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        CK(cudaDestroyTextureObject(look));
        for (int i = 0; i < 6 * CUBE * CUBE; i++) { if (pinned[i] != cube_reference[i] + (uint32_t)(round * i)) { wrong++; fprintf(stderr, "thread %d round %d: cube differs at %d\n", id, round, i); break; } h = (h ^ pinned[i]) * 1099511628211ull; }
    }
    CK(cudaFreeMipmappedArray(mip)); CK(cudaFreeArray(layered)); CK(cudaFree(out)); CK(cudaFreeHost(pinned)); CK(cudaStreamDestroy(s));
    *result = h;
}

int main() {
    CK(cudaSetDevice(0));
    uint64_t sum = 0;
    cudaChannelFormatDesc u32 = cudaCreateChannelDesc<uint32_t>();
    CK(cudaMalloc3DArray(&cube, &u32, make_cudaExtent(CUBE, CUBE, 6), cudaArrayCubemap | cudaArraySurfaceLoadStore));
    for (int phase = 0; phase < 2; phase++) {
        for (size_t i = 0; i < cube_reference.size(); i++) cube_reference[i] = mix(i * 17 + phase);
        cudaMemcpy3DParms c = {}; c.srcPtr = make_cudaPitchedPtr(cube_reference.data(), CUBE * 4, CUBE, CUBE); c.dstArray = cube;
        c.extent = make_cudaExtent(CUBE, CUBE, 6); c.kind = cudaMemcpyHostToDevice;
        CK(cudaMemcpy3D(&c));
        cudaSurfaceObject_t s = surface_of(cube);
        write_cube<<<6 * CUBE * CUBE / 64, 64>>>(s, phase * 1000);
        CK(cudaDeviceSynchronize());
        CK(cudaDestroySurfaceObject(s));
        for (int i = 0; i < 6 * CUBE * CUBE; i++) if ((i % CUBE + i / CUBE % CUBE) % 2) cube_reference[i] = mix(i + phase * 1000);
        uint64_t results[THREADS]; std::vector<std::thread> threads;
        for (int i = 0; i < THREADS; i++) threads.emplace_back(worker, i + phase * THREADS, &results[i]);
        for (auto &t : threads) t.join();
        for (auto h : results) sum = sum * 1000003 + h;
    }
    CK(cudaFreeArray(cube));
    printf("pyramid: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
