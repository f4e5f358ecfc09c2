// nvcc: DRIVER
// Arrays by the driver: of one, two and three dimensions, layered, cubic, with mipmaps; written by copies from everywhere to
// everywhere at odd places and by surfaces, read by textures of arrays, levels, views, linear and pitched memory.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

__global__ void read1d(uint32_t *to, CUtexObject t, uint32_t n) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] = tex1Dfetch<unsigned>(t, i); }
__global__ void read2d(uint32_t *to, CUtexObject t, uint32_t w, uint32_t h) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < w * h) to[i] = tex2D<unsigned>(t, i % w + 0.5f, i / w + 0.5f); }
__global__ void read2d4(uint32_t *to, CUtexObject t, uint32_t w, uint32_t h) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= w * h) return;
    uchar4 c = tex2D<uchar4>(t, i % w + 0.5f, i / w + 0.5f); to[i] = c.x | c.y << 8 | c.z << 16 | (uint32_t)c.w << 24;
}
__global__ void read3d(uint32_t *to, CUtexObject t, uint32_t w, uint32_t h, uint32_t d) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < w * h * d) to[i] = tex3D<unsigned>(t, i % w + 0.5f, i / w % h + 0.5f, i / w / h + 0.5f); }
__global__ void layered(uint32_t *to, CUtexObject t, uint32_t w, uint32_t h, uint32_t d) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < w * h * d) to[i] = tex2DLayered<unsigned>(t, i % w + 0.5f, i / w % h + 0.5f, i / w / h); }
__global__ void scribble(CUsurfObject s, uint32_t w, uint32_t h, uint32_t d, uint32_t k) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= w * h * d) return;
    uint32_t x = i % w, y = i / w % h, z = i / w / h, v; surf2DLayeredread(&v, s, x * 4, y, z); surf2DLayeredwrite(v * 3 + k + i, s, x * 4, y, z);
}
__global__ void faces(uint32_t *to, CUtexObject t) {            // the middle of each face
    const float at[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    int i = threadIdx.x; if (i < 6) to[i] = texCubemap<unsigned>(t, at[i][0], at[i][1], at[i][2]);
}
__global__ void level(uint32_t *to, CUtexObject t, uint32_t size, float lod) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < size * size) to[i] = tex2DLod<unsigned>(t, (i % size + 0.5f) / size, (i / size + 0.5f) / size, lod); }

static int wrong = 0; static uint64_t checksum = 14695981039346656037ull; static CUstream stream; static CUdeviceptr out;
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
template <class... A> static void launch(const void *symbol, uint32_t n, A... a) { void *args[] = {&a...}; CU(cuLaunchKernel(function(symbol), (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, args, nullptr)); }
static void same(const uint32_t *got, const std::vector<uint32_t> &ref, int line) {
    if (memcmp(got, ref.data(), ref.size() * 4)) { wrong++; fprintf(stderr, "line %d\n", line); }
    for (size_t i = 0; i < ref.size(); i++) checksum = (checksum ^ got[i]) * 1099511628211ull;
}
static void compare(const std::vector<uint32_t> &ref, int line) { std::vector<uint32_t> back(ref.size()); CU(cuMemcpyDtoHAsync(back.data(), out, back.size() * 4, stream)); CU(cuStreamSynchronize(stream)); same(back.data(), ref, line); }
static CUarray make(size_t w, size_t h, size_t d, unsigned flags, CUarray_format f = CU_AD_FORMAT_UNSIGNED_INT32, unsigned channels = 1) {
    CUDA_ARRAY3D_DESCRIPTOR a; memset(&a, 0, sizeof a); a.Width = w; a.Height = h; a.Depth = d; a.Format = f; a.NumChannels = channels; a.Flags = flags;
    CUarray array; CU(cuArray3DCreate(&array, &a));
    CUDA_ARRAY3D_DESCRIPTOR b; CU(cuArray3DGetDescriptor(&b, array)); wrong += b.Width != w || b.Height != h || b.Depth != d || b.Format != f || b.NumChannels != channels;
    return array;
}
static CUtexObject texture(const CUDA_RESOURCE_DESC &r, unsigned flags = CU_TRSF_READ_AS_INTEGER, float most = 0, const CUDA_RESOURCE_VIEW_DESC *view = nullptr) {
    CUDA_TEXTURE_DESC t; memset(&t, 0, sizeof t); for (auto &m : t.addressMode) m = CU_TR_ADDRESS_MODE_CLAMP;
    t.filterMode = CU_TR_FILTER_MODE_POINT; t.mipmapFilterMode = CU_TR_FILTER_MODE_POINT; t.flags = flags; t.maxMipmapLevelClamp = most;
    CUtexObject o; CU(cuTexObjectCreate(&o, &r, &t, view)); return o;
}
static CUDA_RESOURCE_DESC of(CUarray a) { CUDA_RESOURCE_DESC r; memset(&r, 0, sizeof r); r.resType = CU_RESOURCE_TYPE_ARRAY; r.res.array.hArray = a; return r; }
static std::vector<uint32_t> pattern(size_t n, uint32_t k) { std::vector<uint32_t> v(n); for (size_t i = 0; i < n; i++) v[i] = (uint32_t)i * 2654435761u + k; return v; }
static void sync() { CU(cuCtxSynchronize()); }              // synchronous copies come before what follows in the stream

int main() {
    CU(cuInit(0));
    CUdevice device; CUcontext context; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context)); CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); CU(cuMemAlloc(&out, 1 << 20));
    // One dimension: CPU, array, array, device, array, CPU, with offsets in bytes.
    {
        CUDA_ARRAY_DESCRIPTOR ad = {500, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1}; CUarray a, b; CU(cuArrayCreate(&a, &ad)); CU(cuArrayCreate(&b, &ad));
        auto v = pattern(500, 1), zero = pattern(500, 77); std::vector<uint32_t> got(500);
        CU(cuMemcpyHtoA(a, 0, v.data(), 2000)); CU(cuMemcpyHtoA(b, 0, zero.data(), 2000));
        CU(cuMemcpyAtoA(b, 40, a, 80, 1000)); memcpy(&zero[10], &v[20], 1000);
        CU(cuMemcpyAtoD(out + 4, b, 4, 1600)); CU(cuMemcpyDtoA(a, 12, out + 8, 400)); memcpy(&v[3], &zero[2], 400);
        CU(cuMemcpyAtoH(got.data(), a, 0, 2000)); same(got.data(), v, __LINE__); CU(cuMemcpyAtoH(got.data(), b, 0, 2000)); same(got.data(), zero, __LINE__);
        uint32_t *pinned; CU(cuMemAllocHost((void **)&pinned, 4096)); for (int i = 0; i < 100; i++) pinned[i] = v[50 + i] = i * i;
        sync(); CU(cuMemcpyHtoAAsync(a, 200, pinned, 400, stream)); CU(cuMemcpyAtoHAsync(pinned + 101, a, 100, 1600, stream)); CU(cuStreamSynchronize(stream));
        same(pinned + 101, std::vector<uint32_t>(v.begin() + 25, v.begin() + 425), __LINE__);
        CU(cuMemFreeHost(pinned)); CU(cuArrayDestroy(a)); CU(cuArrayDestroy(b));
    }
    // Two dimensions, four bytes a texel: a rectangle from the CPU, one from pitched memory, one from another array.
    {
        const uint32_t w = 61, h = 37; CUarray a = make(w, h, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4), b = make(w + 7, h + 5, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4); CUdeviceptr p; size_t pitch; CU(cuMemAllocPitch(&p, &pitch, w * 4, h, 4));
        auto v = pattern(w * h, 5), u = pattern((w + 7) * (h + 5), 6); CUDA_MEMCPY2D c;
        auto all = [&](CUarray to, const std::vector<uint32_t> &from, uint32_t wide) { memset(&c, 0, sizeof c); c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = from.data(); c.srcPitch = wide * 4; c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = to; c.WidthInBytes = wide * 4; c.Height = from.size() / wide; CU(cuMemcpy2D(&c)); };
        all(a, v, w); all(b, u, w + 7);
        memset(&c, 0, sizeof c); c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.srcArray = b; c.srcXInBytes = 20; c.srcY = 3; c.dstArray = a; c.dstXInBytes = 12; c.dstY = 7; c.WidthInBytes = 100; c.Height = 11; CU(cuMemcpy2D(&c));
        for (uint32_t y = 0; y < 11; y++) for (uint32_t x = 0; x < 25; x++) v[(7 + y) * w + 3 + x] = u[(3 + y) * (w + 7) + 5 + x];
        std::vector<uint32_t> rows = pattern(w * h, 8); memset(&c, 0, sizeof c); c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = rows.data(); c.srcPitch = w * 4; c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.dstDevice = p; c.dstPitch = pitch; c.WidthInBytes = w * 4; c.Height = h; CU(cuMemcpy2DUnaligned(&c));
        memset(&c, 0, sizeof c); c.srcMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = p; c.srcPitch = pitch; c.srcXInBytes = 28; c.srcY = 9; c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = a; c.dstXInBytes = 80; c.dstY = 20; c.WidthInBytes = 60; c.Height = 13;
        sync(); CU(cuMemcpy2DAsync(&c, stream)); for (uint32_t y = 0; y < 13; y++) for (uint32_t x = 0; x < 15; x++) v[(20 + y) * w + 20 + x] = rows[(9 + y) * w + 7 + x];
        CUtexObject t = texture(of(a)); launch((const void *)read2d4, w * h, out, t, w, h); compare(v, __LINE__);
        CUDA_RESOURCE_VIEW_DESC view; memset(&view, 0, sizeof view); view.format = CU_RES_VIEW_FORMAT_UINT_4X8; view.width = w; view.height = h; CUtexObject viewed = texture(of(a), CU_TRSF_READ_AS_INTEGER, 0, &view);
        CUDA_RESOURCE_VIEW_DESC seen; CU(cuTexObjectGetResourceViewDesc(&seen, viewed)); wrong += seen.format != view.format || seen.width != w;
        launch((const void *)read2d4, w * h, out, viewed, w, h); compare(v, __LINE__);
        // The pitched memory itself as a texture, and linear memory.
        CUDA_RESOURCE_DESC r; memset(&r, 0, sizeof r); r.resType = CU_RESOURCE_TYPE_PITCH2D; r.res.pitch2D.devPtr = p; r.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT32; r.res.pitch2D.numChannels = 1; r.res.pitch2D.width = w; r.res.pitch2D.height = h; r.res.pitch2D.pitchInBytes = pitch;
        CUtexObject q = texture(r); launch((const void *)read2d, w * h, out, q, w, h); compare(rows, __LINE__);
        memset(&r, 0, sizeof r); r.resType = CU_RESOURCE_TYPE_LINEAR; r.res.linear.devPtr = p; r.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32; r.res.linear.numChannels = 1; r.res.linear.sizeInBytes = w * 4; CUtexObject l = texture(r);
        CU(cuMemcpyHtoDAsync(p + 8, v.data(), 40, stream)); memcpy(&rows[2], &v[0], 40);                    // seen by the kernels after it
        launch((const void *)read1d, w, out, l, w); compare(std::vector<uint32_t>(rows.begin(), rows.begin() + w), __LINE__);
        for (CUtexObject o : {t, viewed, q, l}) CU(cuTexObjectDestroy(o)); CU(cuArrayDestroy(a)); CU(cuArrayDestroy(b)); CU(cuMemFree(p));
    }
    // Three dimensions: a box from one volume into another; then layers, written by a surface and read by a texture.
    {
        const uint32_t w = 33, h = 17, d = 9, n = w * h * d; CUarray a = make(w, h, d, 0), b = make(w + 4, h + 3, d + 2, CUDA_ARRAY3D_SURFACE_LDST), l = make(w, h, d, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST);
        auto v = pattern(n, 10); CUDA_MEMCPY3D c; CUdeviceptr box; CU(cuMemAlloc(&box, n * 4));
        auto blank = [&](uint32_t x, uint32_t y, uint32_t z) { memset(&c, 0, sizeof c); c.WidthInBytes = x * 4; c.Height = y; c.Depth = z; };
        blank(w, h, d); c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = v.data(); c.srcPitch = w * 4; c.srcHeight = h; c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = a; CU(cuMemcpy3D(&c)); c.dstArray = l; CU(cuMemcpy3D(&c));
        c.dstArray = b; c.dstXInBytes = 8; c.dstY = 3; c.dstZ = 1; CU(cuMemcpy3D(&c));
        blank(11, 7, 5); c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.srcArray = b; c.srcXInBytes = 8 + 12; c.srcY = 3 + 2; c.srcZ = 1 + 1; c.dstArray = a; c.dstXInBytes = 60; c.dstY = 9; c.dstZ = 3; CU(cuMemcpy3D(&c));
        auto ref = v; for (uint32_t z = 0; z < 5; z++) for (uint32_t y = 0; y < 7; y++) for (uint32_t x = 0; x < 11; x++) ref[((3 + z) * h + 9 + y) * w + 15 + x] = v[((1 + z) * h + 2 + y) * w + 3 + x];
        sync(); CUtexObject t = texture(of(a)); launch((const void *)read3d, n, out, t, w, h, d); compare(ref, __LINE__);
        blank(w, h, d); c.srcMemoryType = CU_MEMORYTYPE_ARRAY; c.srcArray = a; c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.dstDevice = box; c.dstPitch = w * 4; c.dstHeight = h; CU(cuMemcpy3DAsync(&c, stream));
        std::vector<uint32_t> got(n); CU(cuMemcpyDtoHAsync(got.data(), box, n * 4, stream)); CU(cuStreamSynchronize(stream)); same(got.data(), ref, __LINE__);
        CUDA_RESOURCE_DESC r = of(l); CUsurfObject s; CU(cuSurfObjectCreate(&s, &r)); CUtexObject lt = texture(r);
        for (uint32_t k = 0; k < 3; k++) { launch((const void *)scribble, n, s, w, h, d, k); for (uint32_t i = 0; i < n; i++) v[i] = v[i] * 3 + k + i; }
        launch((const void *)layered, n, out, lt, w, h, d); compare(v, __LINE__);
        blank(w, h, 1); c.srcMemoryType = CU_MEMORYTYPE_ARRAY; c.srcArray = l; c.srcZ = 4; c.dstMemoryType = CU_MEMORYTYPE_HOST; c.dstHost = got.data(); c.dstPitch = w * 4; c.dstHeight = h; CU(cuMemcpy3D(&c)); same(got.data(), std::vector<uint32_t>(v.begin() + 4 * w * h, v.begin() + 5 * w * h), __LINE__);
        CU(cuTexObjectDestroy(t)); CU(cuTexObjectDestroy(lt)); CU(cuSurfObjectDestroy(s)); CU(cuArrayDestroy(a)); CU(cuArrayDestroy(b)); CU(cuArrayDestroy(l)); CU(cuMemFree(box));
    }
    // A cube of 5 by 5 faces, and mipmaps of three levels: each level by its own copy.
    {
        CUarray cube = make(5, 5, 6, CUDA_ARRAY3D_CUBEMAP); auto v = pattern(150, 20); CUDA_MEMCPY3D c; memset(&c, 0, sizeof c); c.WidthInBytes = 20; c.Height = 5; c.Depth = 6;
        c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = v.data(); c.srcPitch = 20; c.srcHeight = 5; c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = cube; CU(cuMemcpy3D(&c)); sync();
        CUtexObject t = texture(of(cube), CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES); launch((const void *)faces, 32, out, t);
        std::vector<uint32_t> middle; for (int f = 0; f < 6; f++) middle.push_back(v[f * 25 + 12]); compare(middle, __LINE__); CU(cuTexObjectDestroy(t)); CU(cuArrayDestroy(cube));
        CUDA_ARRAY3D_DESCRIPTOR ad; memset(&ad, 0, sizeof ad); ad.Width = ad.Height = 32; ad.Format = CU_AD_FORMAT_UNSIGNED_INT32; ad.NumChannels = 1; CUmipmappedArray mip; CU(cuMipmappedArrayCreate(&mip, &ad, 3));
        std::vector<std::vector<uint32_t>> levels;
        for (unsigned i = 0; i < 3; i++) {
            CUarray a; CU(cuMipmappedArrayGetLevel(&a, mip, i)); uint32_t size = 32 >> i; levels.push_back(pattern(size * size, 30 + i));
            CUDA_MEMCPY2D m; memset(&m, 0, sizeof m); m.srcMemoryType = CU_MEMORYTYPE_HOST; m.srcHost = levels[i].data(); m.srcPitch = size * 4; m.dstMemoryType = CU_MEMORYTYPE_ARRAY; m.dstArray = a; m.WidthInBytes = size * 4; m.Height = size; CU(cuMemcpy2D(&m));
        }
        sync(); CUDA_RESOURCE_DESC r; memset(&r, 0, sizeof r); r.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY; r.res.mipmap.hMipmappedArray = mip; t = texture(r, CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES, 2);
        for (uint32_t i = 0; i < 3; i++) { launch((const void *)level, (32u >> i) * (32u >> i), out, t, 32u >> i, (float)i); compare(levels[i], __LINE__); }
        CU(cuTexObjectDestroy(t)); CU(cuMipmappedArrayDestroy(mip));
    }
    CU(cuMemFree(out)); CU(cuStreamDestroy(stream));
    printf("arraykinds: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
