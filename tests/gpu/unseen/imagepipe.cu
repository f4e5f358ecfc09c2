// An image pipeline: upload (pitched) -> array -> colour lookup in a 3D texture -> mipmaps by surfaces -> layered history
// -> composition -> pinned double buffers. Two lanes of streams take turns with the frames.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int W = 512, H = 320, LEVELS = 6, LAYERS = 4, FRAMES = 20, LUT = 17, LANES = 2;

static uint8_t pixel(int frame, int x, int y, int c) {
    uint32_t h = (uint32_t)(x * 374761393u + y * 668265263u + frame * 2246822519u + c * 3266489917u);
    h = (h ^ (h >> 13)) * 1274126177u;
    return (uint8_t)(((h >> 16) & 63) + ((x + y * 2 + frame * 5 + c * 40) & 127));
}

// 1: the grade by a 3D lookup table (linear), input as normalised floats, output as bytes into level 0 of a mipmap.
__global__ void grade(cudaTextureObject_t source, cudaTextureObject_t lut, cudaSurfaceObject_t out, float exposure) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float4 p = tex2D<float4>(source, (x + 0.5f), (y + 0.5f));
    const float k = (LUT - 1.0f) / LUT, o = 0.5f / LUT;
    float4 g = tex3D<float4>(lut, fminf(p.x * exposure, 1.0f) * k + o, p.y * k + o, p.z * k + o);
    uchar4 q = make_uchar4((unsigned char)(g.x * 255.0f + 0.5f), (unsigned char)(g.y * 255.0f + 0.5f), (unsigned char)(g.z * 255.0f + 0.5f), 255);
    surf2Dwrite(q, out, x * (int)sizeof(uchar4), y);
}

// 2: one level from the one above, exact in integers.
__global__ void shrink(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar4 a, b, c, d;
    surf2Dread(&a, from, (2 * x) * 4, 2 * y); surf2Dread(&b, from, (2 * x + 1) * 4, 2 * y);
    surf2Dread(&c, from, (2 * x) * 4, 2 * y + 1); surf2Dread(&d, from, (2 * x + 1) * 4, 2 * y + 1);
    surf2Dwrite(make_uchar4((a.x + b.x + c.x + d.x + 2) / 4, (a.y + b.y + c.y + d.y + 2) / 4, (a.z + b.z + c.z + d.z + 2) / 4, 255), to, x * 4, y);
}

// 3: into the layer of this frame.
__global__ void remember(cudaTextureObject_t mip, cudaSurfaceObject_t history, int layer, float lod) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W / 2 || y >= H / 2) return;
    float4 p = tex2DLod<float4>(mip, (x + 0.5f) / (W / 2), (y + 0.5f) / (H / 2), lod);
    surf2DLayeredwrite(p.x * 0.299f + p.y * 0.587f + p.z * 0.114f, history, x * (int)sizeof(float), y, layer);
}

// 4: the mean of the layers so far plus edges by texture gathering, to pitched memory.
__global__ void compose(cudaTextureObject_t history, int layers, float *out, size_t pitch, const int *weights) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W / 2 || y >= H / 2) return;
    float sum = 0, edge = 0;
    for (int l = 0; l < layers; l++) {
        float c = tex2DLayered<float>(history, x + 0.5f, y + 0.5f, l);
        sum += c * weights[l];
        edge += fabsf(c - tex2DLayered<float>(history, x + 1.5f, y + 0.5f, l)) + fabsf(c - tex2DLayered<float>(history, x + 0.5f, y - 0.5f, l));
    }
    *((float *)((char *)out + y * pitch) + x) = sum / layers + 0.25f * edge;
}

struct Lane {
    cudaStream_t copy, work;
    cudaEvent_t uploaded, graded, composed, downloaded;
    uchar4 *in_host; float *out_host; uchar4 *level_host;       // pinned
    uchar4 *in; size_t in_pitch; float *out; size_t out_pitch;
    cudaArray_t picture; cudaMipmappedArray_t mip;
    cudaTextureObject_t picture_tex, mip_tex;
    cudaSurfaceObject_t levels[LEVELS];
};

static uint64_t fold(uint64_t h, const void *p, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211ull;
    return h;
}

int main() {
    int least, greatest;
    CK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaChannelFormatDesc rgba = cudaCreateChannelDesc<uchar4>(), gray = cudaCreateChannelDesc<float>(), wide = cudaCreateChannelDesc<float4>();

    // The lookup table: a 3D array, filled by a copy of a part of a larger pitched volume.
    std::vector<float4> cube((LUT + 3) * (LUT + 2) * LUT);
    for (int z = 0; z < LUT; z++) for (int y = 0; y < LUT + 2; y++) for (int x = 0; x < LUT + 3; x++)
        cube[(z * (LUT + 2) + y) * (LUT + 3) + x] = make_float4((x - 1) / (LUT - 1.0f) * 0.875f, (y - 2) / (LUT - 1.0f), 1.0f - z / (LUT - 1.0f), 1.0f);
    cudaArray_t lut; cudaTextureObject_t lut_tex;
    CK(cudaMalloc3DArray(&lut, &wide, make_cudaExtent(LUT, LUT, LUT), 0));
    cudaMemcpy3DParms copy3 = {};
    copy3.srcPtr = make_cudaPitchedPtr(cube.data(), (LUT + 3) * sizeof(float4), LUT + 3, LUT + 2);
    copy3.srcPos = make_cudaPos(1, 2, 0);
    copy3.dstArray = lut; copy3.extent = make_cudaExtent(LUT, LUT, LUT); copy3.kind = cudaMemcpyHostToDevice;
    CK(cudaMemcpy3D(&copy3));
    cudaResourceDesc res = {}; cudaTextureDesc tex = {};
    res.resType = cudaResourceTypeArray; res.res.array.array = lut;
    for (auto &m : tex.addressMode) m = cudaAddressModeClamp;
    tex.filterMode = cudaFilterModeLinear; tex.readMode = cudaReadModeElementType; tex.normalizedCoords = 1;
    CK(cudaCreateTextureObject(&lut_tex, &res, &tex, nullptr));

    // The history: layered, shared by the lanes.
    cudaArray_t history; cudaSurfaceObject_t history_surf; cudaTextureObject_t history_tex;
    CK(cudaMalloc3DArray(&history, &gray, make_cudaExtent(W / 2, H / 2, LAYERS), cudaArrayLayered | cudaArraySurfaceLoadStore));
    res.res.array.array = history;
    CK(cudaCreateSurfaceObject(&history_surf, &res));
    tex.filterMode = cudaFilterModePoint; tex.normalizedCoords = 0;
    CK(cudaCreateTextureObject(&history_tex, &res, &tex, nullptr));
    int weights_host[LAYERS] = {1, 2, 1, 3}, *weights;
    CK(cudaMalloc(&weights, sizeof weights_host));
    CK(cudaMemcpy(weights, weights_host, sizeof weights_host, cudaMemcpyHostToDevice));

    CK(cudaDeviceSynchronize());        // the streams below do not wait for the default one

    Lane lanes[LANES];
    for (int l = 0; l < LANES; l++) {
        Lane &a = lanes[l];
        CK(cudaStreamCreateWithPriority(&a.copy, cudaStreamNonBlocking, greatest));
        CK(cudaStreamCreateWithPriority(&a.work, cudaStreamNonBlocking, least));
        for (cudaEvent_t *e : {&a.uploaded, &a.graded, &a.composed, &a.downloaded}) CK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
        CK(cudaMallocHost((void **)&a.in_host, W * H * sizeof(uchar4)));
        CK(cudaMallocHost((void **)&a.out_host, (W / 2) * (H / 2) * sizeof(float)));
        CK(cudaHostAlloc((void **)&a.level_host, (W >> 3) * (H >> 3) * sizeof(uchar4), cudaHostAllocDefault));
        CK(cudaMallocPitch((void **)&a.in, &a.in_pitch, W * sizeof(uchar4) + 20, H));
        CK(cudaMallocPitch((void **)&a.out, &a.out_pitch, (W / 2) * sizeof(float) + 4, H / 2));
        CK(cudaMallocArray(&a.picture, &rgba, W, H, cudaArrayTextureGather));
        CK(cudaMallocMipmappedArray(&a.mip, &rgba, make_cudaExtent(W, H, 0), LEVELS, cudaArraySurfaceLoadStore));
        cudaResourceDesc r = {}; cudaTextureDesc t = {};
        r.resType = cudaResourceTypeArray; r.res.array.array = a.picture;
        for (auto &m : t.addressMode) m = cudaAddressModeBorder;
        t.readMode = cudaReadModeNormalizedFloat; t.filterMode = cudaFilterModePoint;
        CK(cudaCreateTextureObject(&a.picture_tex, &r, &t, nullptr));
        for (int i = 0; i < LEVELS; i++) {
            CK(cudaGetMipmappedArrayLevel(&r.res.array.array, a.mip, i));
            cudaChannelFormatDesc d; cudaExtent e; unsigned f;
            CK(cudaArrayGetInfo(&d, &e, &f, r.res.array.array));
            if (e.width != (size_t)(W >> i) || e.height != (size_t)(H >> i)) { printf("level %d is %zux%zu\n", i, e.width, e.height); return 1; }
            CK(cudaCreateSurfaceObject(&a.levels[i], &r));
        }
        r.resType = cudaResourceTypeMipmappedArray; r.res.mipmap.mipmap = a.mip;
        for (auto &m : t.addressMode) m = l ? cudaAddressModeMirror : cudaAddressModeWrap;
        t.normalizedCoords = 1; t.filterMode = cudaFilterModeLinear; t.mipmapFilterMode = cudaFilterModeLinear;
        t.maxMipmapLevelClamp = LEVELS - 1; t.maxAnisotropy = 1;
        cudaResourceViewDesc view = {};
        view.format = cudaResViewFormatUnsignedChar4; view.width = W; view.height = H; view.firstMipmapLevel = 0; view.lastMipmapLevel = LEVELS - 1;
        CK(cudaCreateTextureObject(&a.mip_tex, &r, &t, l ? &view : nullptr));
    }

    uint64_t sum = 14695981039346656037ull; int wrong = 0;
    auto collect = [&](int frame) {
        Lane &a = lanes[frame % LANES];
        while (true) {
            cudaError_t s = cudaEventQuery(a.downloaded);
            if (s == cudaSuccess) break;
            if (s != cudaErrorNotReady) CK(s);
            CK(cudaEventSynchronize(a.downloaded));
        }
        sum = fold(sum, a.out_host, (W / 2) * (H / 2) * sizeof(float));
        sum = fold(sum, a.level_host, (W >> 3) * (H >> 3) * sizeof(uchar4));
        for (int i = 0; i < (W >> 3) * (H >> 3); i++) wrong += a.level_host[i].w != 255;
        for (int i = 0; i < (W / 2) * (H / 2); i++) wrong += !(a.out_host[i] >= 0.0f && a.out_host[i] < 8.0f);
    };

    const dim3 block(32, 8);
    auto grid = [&](int w, int h) { return dim3((w + 31) / 32, (h + 7) / 8); };
    cudaEvent_t history_written = nullptr;                      // of the frame before: the history goes in order
    for (int frame = 0; frame < FRAMES; frame++) {
        Lane &a = lanes[frame % LANES];
        if (frame >= LANES) collect(frame - LANES);
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x++)
            a.in_host[y * W + x] = make_uchar4(pixel(frame, x, y, 0), pixel(frame, x, y, 1), pixel(frame, x, y, 2), (unsigned char)frame);
        CK(cudaMemcpy2DAsync(a.in, a.in_pitch, a.in_host, W * sizeof(uchar4), W * sizeof(uchar4), H, cudaMemcpyHostToDevice, a.copy));
        if (frame % 3 == 1) CK(cudaMemset2DAsync((char *)a.in + 16 * a.in_pitch + 64 * 4, a.in_pitch, 0x40 + frame, 100 * 4, 50, a.copy));   // a watermark
        if (frame % 4 != 3) {
            CK(cudaMemcpy2DToArrayAsync(a.picture, 0, 0, a.in, a.in_pitch, W * sizeof(uchar4), H, cudaMemcpyDeviceToDevice, a.copy));
        } else {                                                // in two halves, swapped
            CK(cudaMemcpy2DToArrayAsync(a.picture, W * 2, 0, a.in, a.in_pitch, W * 2, H, cudaMemcpyDefault, a.copy));
            CK(cudaMemcpy2DToArrayAsync(a.picture, 0, 0, (char *)a.in + W * 2, a.in_pitch, W * 2, H, cudaMemcpyDefault, a.copy));
        }
        CK(cudaEventRecord(a.uploaded, a.copy));
        CK(cudaStreamWaitEvent(a.work, a.uploaded, 0));
        grade<<<grid(W, H), block, 0, a.work>>>(a.picture_tex, lut_tex, a.levels[0], 0.75f + 0.05f * (frame % 7));
        for (int i = 1; i < LEVELS; i++) shrink<<<grid(W >> i, H >> i), block, 0, a.work>>>(a.levels[i - 1], a.levels[i], W >> i, H >> i);
        CK(cudaEventRecord(a.graded, a.work));
        if (history_written) CK(cudaStreamWaitEvent(a.work, history_written, 0));
        remember<<<grid(W / 2, H / 2), block, 0, a.work>>>(a.mip_tex, history_surf, frame % LAYERS, 0.5f + 0.25f * (frame % 5));
        compose<<<grid(W / 2, H / 2), block, 0, a.work>>>(history_tex, frame < LAYERS ? frame + 1 : LAYERS, a.out, a.out_pitch, weights);
        CK(cudaGetLastError());
        CK(cudaEventRecord(a.composed, a.work));
        history_written = a.composed;
        CK(cudaStreamWaitEvent(a.copy, a.graded, 0));
        cudaArray_t third; CK(cudaGetMipmappedArrayLevel(&third, a.mip, 3));
        CK(cudaMemcpy2DFromArrayAsync(a.level_host, (W >> 3) * 4, third, 0, 0, (W >> 3) * 4, H >> 3, cudaMemcpyDeviceToHost, a.copy));
        CK(cudaStreamWaitEvent(a.copy, a.composed, 0));
        CK(cudaMemcpy2DAsync(a.out_host, (W / 2) * sizeof(float), a.out, a.out_pitch, (W / 2) * sizeof(float), H / 2, cudaMemcpyDeviceToHost, a.copy));
        CK(cudaEventRecord(a.downloaded, a.copy));
    }
    for (int f = FRAMES - LANES; f < FRAMES; f++) collect(f);

    // What arrived in the array of the last frame but one (not swapped) is what the CPU makes.
    Lane &last = lanes[(FRAMES - 2) % LANES];
    std::vector<uchar4> back(W * H);
    CK(cudaMemcpy2DFromArray(back.data(), W * 4, last.picture, 0, 0, W * 4, H, cudaMemcpyDeviceToHost));
    for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) {
        if ((FRAMES - 2) % 3 == 1 && x >= 64 && x < 164 && y >= 16 && y < 66) continue;
        uchar4 p = back[y * W + x];
        wrong += p.x != pixel(FRAMES - 2, x, y, 0) || p.y != pixel(FRAMES - 2, x, y, 1) || p.z != pixel(FRAMES - 2, x, y, 2) || p.w != FRAMES - 2;
    }
    // The whole history through a 3D copy to pinned memory.
    float *all; CK(cudaMallocHost((void **)&all, (W / 2) * (H / 2) * LAYERS * sizeof(float)));
    cudaMemcpy3DParms out = {};
    out.srcArray = history; out.dstPtr = make_cudaPitchedPtr(all, W / 2 * sizeof(float), W / 2, H / 2);
    out.extent = make_cudaExtent(W / 2, H / 2, LAYERS); out.kind = cudaMemcpyDeviceToHost;
    CK(cudaMemcpy3DAsync(&out, lanes[0].work));
    CK(cudaStreamSynchronize(lanes[0].work));
    sum = fold(sum, all, (W / 2) * (H / 2) * LAYERS * sizeof(float));
    CK(cudaFreeHost(all));
    for (Lane &a : lanes) {
        CK(cudaDestroyTextureObject(a.picture_tex)); CK(cudaDestroyTextureObject(a.mip_tex));
        for (auto s : a.levels) CK(cudaDestroySurfaceObject(s));
        CK(cudaFreeArray(a.picture)); CK(cudaFreeMipmappedArray(a.mip)); CK(cudaFree(a.in)); CK(cudaFree(a.out));
        CK(cudaFreeHost(a.in_host)); CK(cudaFreeHost(a.out_host)); CK(cudaFreeHost(a.level_host));
        for (cudaEvent_t e : {a.uploaded, a.graded, a.composed, a.downloaded}) CK(cudaEventDestroy(e));
        CK(cudaStreamDestroy(a.copy)); CK(cudaStreamDestroy(a.work));
    }
    CK(cudaDestroyTextureObject(lut_tex)); CK(cudaDestroyTextureObject(history_tex)); CK(cudaDestroySurfaceObject(history_surf));
    CK(cudaFreeArray(lut)); CK(cudaFreeArray(history)); CK(cudaFree(weights));
    printf("imagepipe: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
