// Images by libraries: NPP box filters with and without borders, in tiles; equalisation by histogram and table; Sobel, Canny, morphology,
// median, geometry; nvJPEG encoding in several samplings, decoding one by one, in batches and in phases, with allocators of the program's own.
// nvcc: -lnppif -lnppig -lnppist -lnppial -lnppicc -lnppim -lnppitc -lnppidei -lnppisu -lnppc -lnvjpeg
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <npp.h>
#include <nvjpeg.h>

static NppStreamContext streamContext(cudaStream_t stream)
{
    NppStreamContext c; cudaDeviceProp prop; memset(&c, 0, sizeof c);
    c.hStream = stream; checkCuda(cudaGetDevice(&c.nCudaDeviceId)); checkCuda(cudaGetDeviceProperties(&prop, c.nCudaDeviceId));
    c.nMultiProcessorCount = prop.multiProcessorCount; c.nMaxThreadsPerMultiProcessor = prop.maxThreadsPerMultiProcessor; c.nMaxThreadsPerBlock = prop.maxThreadsPerBlock; c.nSharedMemPerBlock = prop.sharedMemPerBlock;
    checkCuda(cudaDeviceGetAttribute(&c.nCudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMajor, c.nCudaDeviceId)); checkCuda(cudaDeviceGetAttribute(&c.nCudaDevAttrComputeCapabilityMinor, cudaDevAttrComputeCapabilityMinor, c.nCudaDeviceId));
    checkCuda(cudaStreamGetFlags(stream, &c.nStreamFlags));
    return c;
}
// An image on the GPU with a pitch of NPP's choice
struct Image8 {
    int w, h, pitch; Npp8u *data;
    Image8(int w_, int h_) : w(w_), h(h_) { data = nppiMalloc_8u_C1(w, h, &pitch); if (!data) { fprintf(stderr, "nppiMalloc failed\n"); exit(2); } checkCuda(cudaMemset2D(data, pitch, 0, w, h)); checkCuda(cudaDeviceSynchronize()); }
    ~Image8() { nppiFree(data); }
    NppiSize size() const { return {w, h}; }
    void put(const std::vector<Npp8u> &v) { checkCuda(cudaMemcpy2D(data, pitch, v.data(), w, w, h, cudaMemcpyHostToDevice)); checkCuda(cudaDeviceSynchronize()); }
    std::vector<Npp8u> get(cudaStream_t s) { std::vector<Npp8u> v(w * h); checkCuda(cudaStreamSynchronize(s)); checkCuda(cudaMemcpy2D(v.data(), w, data, pitch, w, h, cudaMemcpyDeviceToHost)); digest(v.data(), v.size()); return v; }
};
static int clampTo(int v, int n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }
static int deviceAllocations = 0, pinnedAllocations = 0;
static int deviceAlloc(void **p, size_t n) { deviceAllocations++; return (int)cudaMalloc(p, n); }
static int deviceFree(void *p) { return (int)cudaFree(p); }
static int pinnedAlloc(void **p, size_t n, unsigned flags) { pinnedAllocations++; return (int)cudaHostAlloc(p, n, flags); }
static int pinnedFree(void *p) { return (int)cudaFreeHost(p); }

__global__ void paint(unsigned char *rgb, int w, int h, int phase)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int dx = x - w / 2, dy = y - h / 2, r2 = dx * dx + dy * dy;
    unsigned char *p = rgb + 3 * (y * w + x);
    p[0] = (x * 255 / w + phase * 20) & 255 ? min(255, x * 200 / w + 30) : 30; p[1] = min(255, y * 220 / h + 10); p[2] = r2 < h * h / 9 ? 200 - phase * 10 : 60 + (x + y) * 80 / (w + h);
}

int main()
{
    printf("[nppjpeg]\n");
    findDevice();
    cudaStream_t stream; checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const NppStreamContext ctx = streamContext(stream); const NppLibraryVersion *version = nppGetLibVersion();
    report("NPP's version", version->major >= 11);
    const int W = 512, H = 360; std::vector<Npp8u> src(W * H), out;
    for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) src[y * W + x] = 60 + ((x / 32 + y / 24) % 2) * 70 + nextRandom() % 12;
    Image8 in(W, H), res(W, H), other(W, H); in.put(src);
    {   // box, inner part; box with a border; the same in tiles
        const NppiSize mask = {5, 5}; const NppiPoint anchor = {2, 2}; int bad = 0;
        auto mean = [&](int x, int y) { int s = 0; for (int j = -2; j <= 2; j++) for (int i = -2; i <= 2; i++) s += src[clampTo(y + j, H) * W + clampTo(x + i, W)]; return s / 25.; };
        checkLib(nppiFilterBox_8u_C1R_Ctx(in.data + 2 * in.pitch + 2, in.pitch, res.data + 2 * res.pitch + 2, res.pitch, {W - 4, H - 4}, mask, anchor, ctx));
        out = res.get(stream);
        for (int y = 2; y < H - 2; y += 2) for (int x = 2; x < W - 2; x += 3) bad += fabs(out[y * W + x] - mean(x, y)) > 1;
        report("NPP box filter", bad == 0);
        checkLib(nppiFilterBoxBorder_8u_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, res.data, res.pitch, in.size(), mask, anchor, NPP_BORDER_REPLICATE, ctx));
        out = res.get(stream); bad = 0;
        for (int y = 0; y < H; y += y < 4 || y >= H - 5 ? 1 : 3) for (int x = 0; x < W; x += x < 4 || x >= W - 5 ? 1 : 4) bad += fabs(out[y * W + x] - mean(x, y)) > 1;
        report("NPP box filter, border replicated", bad == 0);
        for (int ty = 0; ty < H; ty += 120) for (int tx = 0; tx < W; tx += 128)
            checkLib(nppiFilterBoxBorder_8u_C1R_Ctx(in.data + ty * in.pitch + tx, in.pitch, in.size(), {tx, ty}, other.data + ty * other.pitch + tx, other.pitch, {128, 120}, mask, anchor, NPP_BORDER_REPLICATE, ctx));
        report("NPP box filter, border, in tiles", other.get(stream) == out);
    }
    {   // equalisation
        const int bins = 255, levels = bins + 1; Npp32s *histogram, host[256] = {0}, values[256], steps[256], *dValues, *dSteps; size_t room; Npp8u *scratch; int bad = 0, wanted[256] = {0}, after[4] = {0};
        checkCuda(cudaMalloc((void **)&histogram, bins * 4)); checkCuda(cudaMalloc((void **)&dValues, 256 * 4)); checkCuda(cudaMalloc((void **)&dSteps, 256 * 4));
        checkLib(nppiHistogramEvenGetBufferSize_8u_C1R_Ctx(in.size(), levels, &room, ctx)); checkCuda(cudaMalloc((void **)&scratch, room + 1));
        checkLib(nppiHistogramEven_8u_C1R_Ctx(in.data, in.pitch, in.size(), histogram, levels, 0, 255, scratch, ctx));
        checkCuda(cudaMemcpyAsync(host, histogram, bins * 4, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream)); digest(host, bins * 4);
        for (auto v : src) wanted[v]++;
        for (int i = 0; i < bins; i++) bad += host[i] != wanted[i];
        report("NPP histogram", bad == 0);
        long sum = 0; for (int i = 0; i < 256; i++) { values[i] = (Npp32s)(sum * 255 / (W * H)); steps[i] = i; if (i < 255) sum += host[i]; }
        checkCuda(cudaMemcpyAsync(dValues, values, sizeof values, cudaMemcpyHostToDevice, stream)); checkCuda(cudaMemcpyAsync(dSteps, steps, sizeof steps, cudaMemcpyHostToDevice, stream));
        checkLib(nppiLUT_8u_C1R_Ctx(in.data, in.pitch, res.data, res.pitch, in.size(), dValues, dSteps, 256, ctx));
        out = res.get(stream); bad = 0;
        for (int i = 0; i < W * H; i++) { bad += src[i] < 255 && out[i] != values[src[i]]; after[out[i] / 64]++; }
        report("NPP equalisation by a table", bad == 0);
        cudaFree(histogram); cudaFree(dValues); cudaFree(dSteps); cudaFree(scratch);
    }
    {   // Sobel, Laplace, Canny
        Npp16s *sobel; int size, edges = 0, odd = 0; Npp8u *scratch; std::vector<Npp16s> s(W * H);
        checkCuda(cudaMalloc((void **)&sobel, W * H * 2));
        checkLib(nppiFilterSobelHorizBorder_8u16s_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, sobel, W * 2, in.size(), NPP_MASK_SIZE_3_X_3, NPP_BORDER_REPLICATE, ctx));
        checkCuda(cudaMemcpyAsync(s.data(), sobel, W * H * 2, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream)); digest(s.data(), W * H * 2);
        int bad = 0;
        for (int y = 0; y < H; y += 3) for (int x = 0; x < W; x += 5) { auto p = [&](int i, int j) { return (int)src[clampTo(y + j, H) * W + clampTo(x + i, W)]; }; bad += abs(s[y * W + x]) != abs(p(-1, -1) + 2 * p(0, -1) + p(1, -1) - p(-1, 1) - 2 * p(0, 1) - p(1, 1)); }
        report("NPP Sobel", bad == 0);
        checkLib(nppiFilterLaplaceBorder_8u_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, res.data, res.pitch, in.size(), NPP_MASK_SIZE_3_X_3, NPP_BORDER_REPLICATE, ctx)); res.get(stream);
        checkLib(nppiFilterCannyBorderGetBufferSize(in.size(), &size)); checkCuda(cudaMalloc((void **)&scratch, size));
        checkLib(nppiFilterCannyBorder_8u_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, res.data, res.pitch, in.size(), NPP_FILTER_SOBEL, NPP_MASK_SIZE_3_X_3, 72, 256, nppiNormL2, NPP_BORDER_REPLICATE, scratch, ctx));
        out = res.get(stream);
        for (auto v : out) { edges += v == 255; odd += v != 0 && v != 255; }
        report("NPP Canny", odd == 0 && edges > 1000 && edges < W * H / 4);
        checkCuda(cudaStreamSynchronize(stream)); cudaFree(sobel); cudaFree(scratch);
    }
    {   // morphology, median, thresholds, geometry
        int bad = 0; NppiSize inner = {W - 2, H - 2}; Npp32u room; Npp8u *scratch;
        checkLib(nppiErode3x3Border_8u_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, res.data, res.pitch, in.size(), NPP_BORDER_REPLICATE, ctx)); out = res.get(stream);
        checkLib(nppiDilate3x3Border_8u_C1R_Ctx(in.data, in.pitch, in.size(), {0, 0}, other.data, other.pitch, in.size(), NPP_BORDER_REPLICATE, ctx)); std::vector<Npp8u> most = other.get(stream);
        for (int y = 1; y < H - 1; y += 2) for (int x = 1; x < W - 1; x += 3) { int lo = 255, hi = 0; for (int k = 0; k < 9; k++) { int v = src[(y - 1 + k / 3) * W + x - 1 + k % 3]; lo = v < lo ? v : lo; hi = v > hi ? v : hi; } bad += out[y * W + x] != lo || most[y * W + x] != hi; }
        report("NPP erosion and dilation", bad == 0);
        checkLib(nppiFilterMedianGetBufferSize_8u_C1R_Ctx(inner, {3, 3}, &room, ctx)); checkCuda(cudaMalloc((void **)&scratch, room + 1));
        checkLib(nppiFilterMedian_8u_C1R_Ctx(in.data + in.pitch + 1, in.pitch, res.data + res.pitch + 1, res.pitch, inner, {3, 3}, {1, 1}, scratch, ctx)); out = res.get(stream); bad = 0;
        for (int y = 1; y < H - 1; y += 4) for (int x = 1; x < W - 1; x += 7) { Npp8u v[9]; for (int k = 0; k < 9; k++) v[k] = src[(y - 1 + k / 3) * W + x - 1 + k % 3]; std::sort(v, v + 9); bad += out[y * W + x] != v[4]; }
        report("NPP median", bad == 0); cudaFree(scratch);
        checkLib(nppiThreshold_GTVal_8u_C1R_Ctx(in.data, in.pitch, res.data, res.pitch, in.size(), 100, 255, ctx)); checkLib(nppiMirror_8u_C1R_Ctx(res.data, res.pitch, other.data, other.pitch, in.size(), NPP_BOTH_AXIS, ctx)); out = other.get(stream); bad = 0;
        for (int i = 0; i < W * H; i++) bad += out[W * H - 1 - i] != (src[i] > 100 ? 255 : src[i]);
        report("NPP threshold and mirror", bad == 0);
        Image8 turned(H, W); checkLib(nppiTranspose_8u_C1R_Ctx(in.data, in.pitch, turned.data, turned.pitch, in.size(), ctx)); out = turned.get(stream); bad = 0;
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x += 3) bad += out[x * H + y] != src[y * W + x];
        report("NPP transpose", bad == 0);
        checkLib(nppiRotate_8u_C1R_Ctx(in.data, in.size(), in.pitch, {0, 0, W, H}, res.data, res.pitch, {0, 0, W, H}, 15, 20, 30, NPPI_INTER_LINEAR, ctx)); res.get(stream);
    }
    // ---------------------------------------------------------------- JPEG
    const int w = 640, h = 400, images = 6; const size_t bytes = 3 * w * h; unsigned char *rgb[images]; std::vector<unsigned char> files[images], originals[images];
    nvjpegDevAllocator_t dev = {deviceAlloc, deviceFree}; nvjpegPinnedAllocator_t pinned = {pinnedAlloc, pinnedFree}; nvjpegHandle_t handle; nvjpegEncoderState_t encoder; nvjpegEncoderParams_t params;
    checkLib(nvjpegCreateEx(NVJPEG_BACKEND_DEFAULT, &dev, &pinned, 0, &handle)); checkLib(nvjpegEncoderStateCreate(handle, &encoder, stream)); checkLib(nvjpegEncoderParamsCreate(handle, &params, stream));
    const nvjpegChromaSubsampling_t samplings[] = {NVJPEG_CSS_444, NVJPEG_CSS_422, NVJPEG_CSS_420};
    int bad = 0;
    for (int i = 0; i < images; i++) {
        checkCuda(cudaMalloc((void **)&rgb[i], bytes)); paint<<<dim3(iDivUp(w, 16), iDivUp(h, 16)), dim3(16, 16), 0, stream>>>(rgb[i], w, h, i); checkLaunch("paint");
        originals[i].resize(bytes); checkCuda(cudaMemcpyAsync(originals[i].data(), rgb[i], bytes, cudaMemcpyDeviceToHost, stream));
        checkLib(nvjpegEncoderParamsSetQuality(params, 70 + 5 * i, stream)); checkLib(nvjpegEncoderParamsSetSamplingFactors(params, samplings[i % 3], stream)); checkLib(nvjpegEncoderParamsSetOptimizedHuffman(params, i % 2, stream));
        nvjpegImage_t image; memset(&image, 0, sizeof image); image.channel[0] = rgb[i]; image.pitch[0] = 3 * w;
        checkLib(nvjpegEncodeImage(handle, encoder, params, &image, NVJPEG_INPUT_RGBI, w, h, stream));
        size_t length; checkLib(nvjpegEncodeRetrieveBitstream(handle, encoder, NULL, &length, stream)); checkCuda(cudaStreamSynchronize(stream)); files[i].resize(length);
        checkLib(nvjpegEncodeRetrieveBitstream(handle, encoder, files[i].data(), &length, stream)); checkCuda(cudaStreamSynchronize(stream)); files[i].resize(length);
        int components, widths[NVJPEG_MAX_COMPONENT], heights[NVJPEG_MAX_COMPONENT]; nvjpegChromaSubsampling_t sampling;
        checkLib(nvjpegGetImageInfo(handle, files[i].data(), length, &components, &sampling, widths, heights));
        bad += components != 3 || sampling != samplings[i % 3] || widths[0] != w || heights[0] != h || length < 1000 || length > bytes;
        digest(files[i].data(), length);
    }
    report("JPEG encoded", bad == 0);
    auto error = [&](const std::vector<unsigned char> &got, int i) { double e = 0; for (size_t k = 0; k < bytes; k += 2) e += abs(got[k] - originals[i][k]); return e * 2 / bytes; };
    std::vector<unsigned char> got(bytes), single[images]; nvjpegJpegState_t state; bad = 0;
    checkLib(nvjpegJpegStateCreate(handle, &state));
    for (int i = 0; i < images; i++) {
        nvjpegImage_t image; memset(&image, 0, sizeof image); image.channel[0] = rgb[i]; image.pitch[0] = 3 * w;
        checkCuda(cudaMemsetAsync(rgb[i], 0, bytes, stream)); checkLib(nvjpegDecode(handle, state, files[i].data(), files[i].size(), NVJPEG_OUTPUT_RGBI, &image, stream));
        single[i].resize(bytes); checkCuda(cudaMemcpyAsync(single[i].data(), rgb[i], bytes, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
        bad += error(single[i], i) > 8; digest(single[i].data(), bytes);
    }
    report("JPEG decoded, one by one", bad == 0);
    {
        nvjpegImage_t out[images]; const unsigned char *data[images]; size_t lengths[images]; bad = 0;
        checkLib(nvjpegDecodeBatchedInitialize(handle, state, images, 1, NVJPEG_OUTPUT_RGBI));
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < images; i++) { memset(&out[i], 0, sizeof out[i]); out[i].channel[0] = rgb[i]; out[i].pitch[0] = 3 * w; data[i] = files[i].data(); lengths[i] = files[i].size(); checkCuda(cudaMemsetAsync(rgb[i], round, bytes, stream)); }
            checkLib(nvjpegDecodeBatched(handle, state, data, lengths, out, stream));
            for (int i = 0; i < images; i++) { checkCuda(cudaMemcpyAsync(got.data(), rgb[i], bytes, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream)); bad += error(got, i) > 8; digest(got.data(), bytes); }
        }
        report("JPEG decoded, in batches", bad == 0);
    }
    {   // phases: the stream parsed, the Huffman part by the CPU, the rest on the GPU; two states in turns
        nvjpegJpegDecoder_t decoder; nvjpegJpegState_t states[2]; nvjpegBufferPinned_t pinnedBuffers[2]; nvjpegBufferDevice_t deviceBuffer; nvjpegJpegStream_t streams[2]; nvjpegDecodeParams_t decode; bad = 0;
        checkLib(nvjpegDecoderCreate(handle, NVJPEG_BACKEND_HYBRID, &decoder)); checkLib(nvjpegBufferDeviceCreate(handle, &dev, &deviceBuffer)); checkLib(nvjpegDecodeParamsCreate(handle, &decode)); checkLib(nvjpegDecodeParamsSetOutputFormat(decode, NVJPEG_OUTPUT_RGBI));
        for (int k = 0; k < 2; k++) { checkLib(nvjpegDecoderStateCreate(handle, decoder, &states[k])); checkLib(nvjpegBufferPinnedCreate(handle, &pinned, &pinnedBuffers[k])); checkLib(nvjpegStateAttachPinnedBuffer(states[k], pinnedBuffers[k])); checkLib(nvjpegStateAttachDeviceBuffer(states[k], deviceBuffer)); checkLib(nvjpegJpegStreamCreate(handle, &streams[k])); }
        for (int i = 0; i < images; i++) {
            int k = i % 2; nvjpegImage_t image; memset(&image, 0, sizeof image); image.channel[0] = rgb[i]; image.pitch[0] = 3 * w;
            checkLib(nvjpegJpegStreamParse(handle, files[i].data(), files[i].size(), 0, 0, streams[k])); checkLib(nvjpegDecodeJpegHost(handle, decoder, states[k], decode, streams[k]));
            checkCuda(cudaStreamSynchronize(stream));
            checkLib(nvjpegDecodeJpegTransferToDevice(handle, decoder, states[k], streams[k], stream)); checkLib(nvjpegDecodeJpegDevice(handle, decoder, states[k], &image, stream));
        }
        checkCuda(cudaStreamSynchronize(stream));
        for (int i = 0; i < images; i++) { checkCuda(cudaMemcpy(got.data(), rgb[i], bytes, cudaMemcpyDeviceToHost)); bad += error(got, i) > 8; digest(got.data(), bytes); }
        report("JPEG decoded, in phases", bad == 0);
        for (int k = 0; k < 2; k++) { nvjpegJpegStreamDestroy(streams[k]); nvjpegBufferPinnedDestroy(pinnedBuffers[k]); nvjpegJpegStateDestroy(states[k]); }
        nvjpegDecodeParamsDestroy(decode); nvjpegBufferDeviceDestroy(deviceBuffer); nvjpegDecoderDestroy(decoder);
    }
    report("own allocators used", deviceAllocations > 0 && pinnedAllocations > 0);
    checkLib(nvjpegJpegStateDestroy(state)); checkLib(nvjpegEncoderParamsDestroy(params)); checkLib(nvjpegEncoderStateDestroy(encoder)); checkLib(nvjpegDestroy(handle));
    for (auto p : rgb) checkCuda(cudaFree(p));
    checkCuda(cudaStreamDestroy(stream));
    FINISH("nppjpeg");
}
