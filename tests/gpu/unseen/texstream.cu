// Streamed textures without binding: a table of materials on the GPU holds the handles of textures and surfaces over arrays, pitched
// and linear memory, layers and mipmaps. Kernels shuffle the table; the host fetches it, destroys textures by the handles it finds
// there, makes others (which may get the same handles) and writes single entries; also the table travels to constant memory and by value.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define LAUNCH(...) do { __VA_ARGS__; CK(cudaGetLastError()); } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__host__ __device__ inline uint32_t texel(uint32_t seed, uint32_t x, uint32_t y, uint32_t z) { return mix(seed + x * 31 + y * 1009 + z * 70001); }

constexpr int ENTRIES = 200, SAMPLES = 96, FRAMES = 18, REPLACED = 23, SOME = 48;
enum Kind : uint32_t { ARRAY = 0, PITCHED = 1, LINEAR = 2, LAYERED = 3, MIPMAPPED = 4, KINDS = 5 };
struct Material { cudaTextureObject_t texture; uint32_t kind, w, h, layers; cudaSurfaceObject_t surface; uint32_t tag, frame; };
struct Some { cudaTextureObject_t textures[SOME]; uint32_t kinds[SOME], sizes[SOME]; uint32_t *out; };     // by value
__constant__ Material constant_table[ENTRIES];

__device__ uint32_t sample(const Material &m, uint32_t r) {
    uint32_t x = r % m.w, y = (r >> 8) % m.h, z = (r >> 16) % m.layers;
    switch (m.kind) {
        case ARRAY: return tex2D<uint32_t>(m.texture, x + 0.5f, y + 0.5f);
        case PITCHED: { uchar4 c = tex2D<uchar4>(m.texture, x + 0.5f, y + 0.5f); return c.x | c.y << 8 | c.z << 16 | (uint32_t)c.w << 24; }
        case LINEAR: { uint2 c = tex1Dfetch<uint2>(m.texture, y * m.w + x); return c.x ^ c.y; }
        case LAYERED: { uint2 c = tex2DLayered<uint2>(m.texture, x + 0.5f, y + 0.5f, z); return c.x + c.y; }
        default: { uint32_t side = m.w >> z; return tex2DLod<uint32_t>(m.texture, (x % side + 0.5f) / side, (y % side + 0.5f) / side, (float)z); }
    }
}
__host__ __device__ inline uint32_t where(int entry, int t, uint32_t frame) { return mix(entry * 1000 + t + frame * 1000000); }
__global__ void shade(const Material *table, uint32_t *out, uint32_t frame) {
    const Material m = table ? table[blockIdx.x] : constant_table[blockIdx.x];
    out[blockIdx.x * SAMPLES + threadIdx.x] = sample(m, where(blockIdx.x, threadIdx.x, frame)) + m.tag;
}
__global__ void shade_some(Some some) {                     // arrays only
    int i = blockIdx.x; uint32_t w = some.sizes[i] & 0xffff, h = some.sizes[i] >> 16, t = threadIdx.x;
    some.out[i * 32 + t] = some.kinds[i] == ARRAY ? tex2D<uint32_t>(some.textures[i], (t * 7) % w + 0.5f, (t * 3) % h + 0.5f) : 0;
}
__global__ void shuffle(Material *to, const Material *from, int factor, int offset, uint32_t tag) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ENTRIES) { Material m = from[(i * factor + offset) % ENTRIES]; m.tag = m.tag * 3 + tag; to[i] = m; }
}
__global__ void poke(const Material *table, uint32_t frame) {       // one row of each array anew, by surfaces
    const Material &m = table[blockIdx.x];
    if (m.kind == ARRAY && threadIdx.x < m.w) surf2Dwrite<uint32_t>(mix(m.frame * 17 + frame * 999 + threadIdx.x), m.surface, threadIdx.x * 4, (m.frame + frame) % m.h);
}
__global__ void fill_level(cudaSurfaceObject_t s, uint32_t side, uint32_t seed, uint32_t level) {
    uint32_t x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < side) surf2Dwrite<uint32_t>(texel(seed, x, y, level), s, x * 4, y);
}

struct Resource { uint32_t kind; cudaArray_t array = nullptr; cudaMipmappedArray_t mipmaps = nullptr; void *memory = nullptr; cudaSurfaceObject_t surface = 0; };
struct Model { uint32_t kind, seed, w, h, layers, tag, made; std::vector<uint32_t> pokes; };    // what the CPU knows of an entry
static std::unordered_map<cudaTextureObject_t, Resource> resources;
static cudaStream_t stream; static uint32_t *staging;       // pinned; the streams's copies from it are waited for

static uint32_t expected(const Model &m, uint32_t r) {
    uint32_t x = r % m.w, y = (r >> 8) % m.h, z = (r >> 16) % m.layers;
    if (m.kind == ARRAY) for (size_t i = m.pokes.size(); i--;) if ((m.made + m.pokes[i]) % m.h == y) return mix(m.made * 17 + m.pokes[i] * 999 + x);
    if (m.kind == LINEAR) return texel(m.seed, x, y, 0) ^ texel(m.seed, x, y, 1);
    if (m.kind == LAYERED) return texel(m.seed, x, y, z) + texel(m.seed, x, y, z + 10);
    if (m.kind == MIPMAPPED) return texel(m.seed, x % (m.w >> z), y % (m.w >> z), z);
    return texel(m.seed, x, y, 0);
}

static Material make(Model &m, uint32_t seed, uint32_t frame) {
    m.kind = seed % KINDS; m.seed = seed; m.w = 20 + mix(seed + 1) % 77; m.h = 9 + mix(seed + 2) % 40; m.layers = 1; m.made = frame; m.tag = seed % 1000; m.pokes.clear();
    Resource r; r.kind = m.kind; cudaResourceDesc rd = {}; cudaTextureDesc td = {}; cudaTextureObject_t texture;
    td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp; td.filterMode = cudaFilterModePoint; td.readMode = cudaReadModeElementType;
    cudaChannelFormatDesc u1 = cudaCreateChannelDesc<uint32_t>(), u2 = cudaCreateChannelDesc<uint2>(), b4 = cudaCreateChannelDesc<uchar4>();
    uint32_t pitch = m.w * 4 + 4 * (seed % 7);              // of the staging memory: odd
    if (m.kind == ARRAY) {
        CK(cudaMallocArray(&r.array, &u1, m.w, m.h, cudaArraySurfaceLoadStore));
        for (uint32_t y = 0; y < m.h; y++) for (uint32_t x = 0; x < m.w; x++) staging[y * pitch / 4 + x] = texel(seed, x, y, 0);
        CK(cudaMemcpy2DToArrayAsync(r.array, 0, 0, staging, pitch, m.w * 4, m.h, cudaMemcpyHostToDevice, stream));
        rd.resType = cudaResourceTypeArray; rd.res.array.array = r.array;
        CK(cudaCreateSurfaceObject(&r.surface, &rd));
    } else if (m.kind == PITCHED) {
        size_t device_pitch; CK(cudaMallocPitch(&r.memory, &device_pitch, m.w * 4, m.h));
        for (uint32_t y = 0; y < m.h; y++) for (uint32_t x = 0; x < m.w; x++) staging[y * pitch / 4 + x] = texel(seed, x, y, 0);
        CK(cudaMemcpy2DAsync(r.memory, device_pitch, staging, pitch, m.w * 4, m.h, cudaMemcpyHostToDevice, stream));
        rd.resType = cudaResourceTypePitch2D; rd.res.pitch2D.devPtr = r.memory; rd.res.pitch2D.desc = b4; rd.res.pitch2D.width = m.w;
        rd.res.pitch2D.height = m.h; rd.res.pitch2D.pitchInBytes = device_pitch;
    } else if (m.kind == LINEAR) {
        uint32_t n = m.w * m.h; CK(cudaMallocAsync(&r.memory, n * 8, stream));
        for (uint32_t i = 0; i < n; i++) { staging[2 * i] = texel(seed, i % m.w, i / m.w, 0); staging[2 * i + 1] = texel(seed, i % m.w, i / m.w, 1); }
        CK(cudaMemcpyAsync(r.memory, staging, n * 8, cudaMemcpyHostToDevice, stream));
        rd.resType = cudaResourceTypeLinear; rd.res.linear.devPtr = r.memory; rd.res.linear.desc = u2; rd.res.linear.sizeInBytes = n * 8;
    } else if (m.kind == LAYERED) {
        m.layers = 1 + seed / 8 % 4; CK(cudaMalloc3DArray(&r.array, &u2, make_cudaExtent(m.w, m.h, m.layers), cudaArrayLayered));
        uint32_t row = m.w + seed % 5;
        for (uint32_t z = 0; z < m.layers; z++) for (uint32_t y = 0; y < m.h; y++) for (uint32_t x = 0; x < m.w; x++) {
            uint32_t *p = staging + 2 * ((z * m.h + y) * row + x); p[0] = texel(seed, x, y, z); p[1] = texel(seed, x, y, z + 10); }
        cudaMemcpy3DParms c = {}; c.srcPtr = make_cudaPitchedPtr(staging, row * 8, m.w, m.h); c.dstArray = r.array;
        c.extent = make_cudaExtent(m.w, m.h, m.layers); c.kind = cudaMemcpyHostToDevice;
        CK(cudaMemcpy3DAsync(&c, stream));
        rd.resType = cudaResourceTypeArray; rd.res.array.array = r.array;
    } else {
        m.w = m.h = 32 << seed / 16 % 2; m.layers = 3; td.normalizedCoords = 1; td.mipmapFilterMode = cudaFilterModePoint; td.maxMipmapLevelClamp = 2;
        CK(cudaMallocMipmappedArray(&r.mipmaps, &u1, make_cudaExtent(m.w, m.h, 0), 3, cudaArraySurfaceLoadStore));
        for (uint32_t level = 0; level < 3; level++) {
            cudaArray_t a; cudaSurfaceObject_t s; cudaResourceDesc ld = {}; CK(cudaGetMipmappedArrayLevel(&a, r.mipmaps, level));
            ld.resType = cudaResourceTypeArray; ld.res.array.array = a; CK(cudaCreateSurfaceObject(&s, &ld));
            LAUNCH(fill_level<<<dim3(1, m.w >> level), 64, 0, stream>>>(s, m.w >> level, seed, level));
            CK(cudaStreamSynchronize(stream)); CK(cudaDestroySurfaceObject(s));
        }
        rd.resType = cudaResourceTypeMipmappedArray; rd.res.mipmap.mipmap = r.mipmaps;
    }
    CK(cudaCreateTextureObject(&texture, &rd, &td, nullptr));
    CK(cudaStreamSynchronize(stream));                      // the staging memory is used again at once
    resources[texture] = r;
    return Material{texture, m.kind, m.w, m.h, m.layers, r.surface, m.tag, frame};
}
static void destroy(cudaTextureObject_t texture) {          // as found in the table
    auto it = resources.find(texture);
    if (it == resources.end()) { wrong++; return; }
    Resource r = it->second; resources.erase(it);
    cudaResourceDesc rd; CK(cudaGetTextureObjectResourceDesc(&rd, texture));
    wrong += r.kind == LINEAR ? rd.resType != cudaResourceTypeLinear || rd.res.linear.devPtr != r.memory : r.array && (rd.resType != cudaResourceTypeArray || rd.res.array.array != r.array);
    CK(cudaDestroyTextureObject(texture));
    if (r.surface) CK(cudaDestroySurfaceObject(r.surface));
    if (r.array) CK(cudaFreeArray(r.array));
    if (r.mipmaps) CK(cudaFreeMipmappedArray(r.mipmaps));
    if (r.memory) { if (r.kind == LINEAR) CK(cudaFreeAsync(r.memory, stream)); else CK(cudaFree(r.memory)); }
}

int main() {
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); CK(cudaMallocHost(&staging, 1 << 20));
    Material *tables[2], *host, *entries; uint32_t *out, *back;
    for (auto &t : tables) CK(cudaMalloc(&t, sizeof(Material) * ENTRIES));
    CK(cudaMallocHost(&host, sizeof(Material) * ENTRIES)); CK(cudaMallocHost(&entries, sizeof(Material) * REPLACED));
    CK(cudaMalloc(&out, ENTRIES * SAMPLES * 4)); CK(cudaMallocHost(&back, ENTRIES * SAMPLES * 4));
    std::vector<Model> models(ENTRIES);
    for (int i = 0; i < ENTRIES; i++) host[i] = make(models[i], mix(i), 0);
    CK(cudaMemcpyAsync(tables[0], host, sizeof(Material) * ENTRIES, cudaMemcpyHostToDevice, stream));
    auto check = [&](int i, int n, uint32_t want) { if (back[n] != want) { if (!wrong++) fprintf(stderr, "entry %d of kind %u\n", i, models[i].kind); } sum = (sum ^ back[n]) * 1099511628211ull; };
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        Material *now = tables[(frame + 1) % 2], *next = tables[frame % 2];
        // Some entries go and others come in their places: 48 bytes each, in the midst of the table.
        CK(cudaMemcpyAsync(host, now, sizeof(Material) * ENTRIES, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        std::vector<int> chosen; for (int k = 0; k < REPLACED; k++) chosen.push_back((frame * 37 + k * 8) % ENTRIES);
        for (int i : chosen) { wrong += host[i].kind != models[i].kind || host[i].w != models[i].w; destroy(host[i].texture); }
        for (int k = REPLACED; k--;) {
            int i = chosen[k]; entries[k] = make(models[i], mix(frame * 1000 + k), frame);
            CK(cudaMemcpyAsync(now + i, entries + k, sizeof(Material), cudaMemcpyHostToDevice, stream));
        }
        if (frame % 3 == 0) { LAUNCH(poke<<<ENTRIES, 128, 0, stream>>>(now, frame)); for (auto &m : models) m.pokes.push_back(frame); }
        const bool constant = frame % 2;
        if (constant) CK(cudaMemcpyToSymbolAsync(constant_table, now, sizeof(Material) * ENTRIES, 0, cudaMemcpyDeviceToDevice, stream));
        LAUNCH(shade<<<ENTRIES, SAMPLES, 0, stream>>>(constant ? nullptr : now, out, frame));
        CK(cudaMemcpyAsync(back, out, ENTRIES * SAMPLES * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        for (int i = 0; i < ENTRIES; i++) for (int t = 0; t < SAMPLES; t++) check(i, i * SAMPLES + t, expected(models[i], where(i, t, frame)) + models[i].tag);
        // The table in another order, by a kernel; handles from there by value to the next.
        LAUNCH(shuffle<<<2, 128, 0, stream>>>(next, now, 7, frame * 3, frame));
        std::vector<Model> old = models; for (int i = 0; i < ENTRIES; i++) { models[i] = old[(i * 7 + frame * 3) % ENTRIES]; models[i].tag = models[i].tag * 3 + frame; }
        CK(cudaMemcpyAsync(host, next, sizeof(Material) * ENTRIES, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        Some some; some.out = out; int from = frame * 5;
        for (int i = 0; i < SOME; i++) { const Material &m = host[(from + i) % ENTRIES]; some.textures[i] = m.texture; some.kinds[i] = m.kind; some.sizes[i] = m.w | m.h << 16; }
        LAUNCH(shade_some<<<SOME, 32, 0, stream>>>(some));
        CK(cudaMemcpyAsync(back, out, SOME * 32 * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        for (int i = 0; i < SOME; i++) for (uint32_t t = 0; t < 32; t++) {
            const Model &m = models[(from + i) % ENTRIES];
            uint32_t x = (t * 7) % m.w, y = (t * 3) % m.h, want = 0;
            if (m.kind == ARRAY) { want = texel(m.seed, x, y, 0); for (uint32_t p : m.pokes) if ((m.made + p) % m.h == y) want = mix(m.made * 17 + p * 999 + x); }
            check((from + i) % ENTRIES, i * 32 + t, want);
        }
    }
    for (int i = 0; i < ENTRIES; i++) destroy(host[i].texture);
    wrong += !resources.empty();
    CK(cudaStreamSynchronize(stream));
    for (auto &t : tables) CK(cudaFree(t)); CK(cudaFree(out)); CK(cudaFreeHost(back)); CK(cudaFreeHost(host)); CK(cudaFreeHost(entries)); CK(cudaFreeHost(staging));
    CK(cudaStreamDestroy(stream));
    printf("texstream: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
