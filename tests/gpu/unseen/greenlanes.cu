// nvcc: DRIVER
// Lanes on one GPU: its multiprocessors are divided among green contexts (audio, vision, the rest), each with streams of its own kind, while the
// memory is everybody's. Lanes wait for one another by events of whole contexts and of streams; one thread makes a lane current and works in it by
// the runtime, another stays in the primary context and only uses the lanes' streams. Then the division is changed, with work kept over it.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *t_ = "?"; cuGetErrorName(e_, &t_); fprintf(stderr, "%s:%d: %s: %s\n", \
    __FILE__, __LINE__, #x, t_); exit(2); } } while (0)

constexpr int TAPS = 48, BLOCK = 2048, W = 320, H = 200, FRAMES = 16, KEYS = 1 << 16, BINS = 256;

__constant__ int taps[TAPS];                                // the filter, changed with each division
__global__ void filter(int *out, const int *in, int n)      // in has TAPS words of the past in front
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    int s = 0; for (int t = 0; t < TAPS; t++) s += taps[t] * in[TAPS + i - t];
    out[i] = s >> 4;
}
__global__ void keep_past(int *in, int n) { int i = threadIdx.x; int v = i < TAPS ? in[n + i] : 0; __syncthreads(); if (i < TAPS) in[i] = v; }
__global__ void edges(uint32_t *out, const uint8_t *image, const int *audio, uint32_t *histogram)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; if (x >= W) return;
    auto at = [&](int u, int v) { u = min(max(u, 0), W - 1); v = min(max(v, 0), H - 1); return (int)image[v * W + u]; };
    int gx = at(x + 1, y - 1) + 2 * at(x + 1, y) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x - 1, y) - at(x - 1, y + 1);
    int gy = at(x - 1, y + 1) + 2 * at(x, y + 1) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x, y - 1) - at(x + 1, y - 1);
    uint32_t v = (uint32_t)(abs(gx) + abs(gy)) + (uint32_t)(audio[(y * W + x) % BLOCK] & 63);
    out[y * W + x] += v; atomicAdd(&histogram[v & (BINS - 1)], 1u);
}
__host__ __device__ inline uint32_t hash(uint32_t v) { v ^= v >> 16; v *= 0x85ebca6bu; v ^= v >> 13; v *= 0xc2b2ae35u; return v ^ (v >> 16); }
__global__ void stir(uint32_t *keys, int n, uint32_t turns, const uint32_t *histogram)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t v = keys[i]; for (uint32_t t = 0; t < turns; t++) v = hash(v + t);
        keys[i] = v ^ histogram[i & (BINS - 1)];
    }
}

struct Lane { CUgreenCtx green = nullptr; CUcontext context = nullptr; unsigned sms = 0; CUstream a = nullptr, b = nullptr;
    CUevent whole = nullptr, done = nullptr; };
static Lane make_lane(const CUdevResource *parts, unsigned count, CUdevice dev, int priority)
{
    Lane l; CUdevResourceDesc desc; std::vector<CUdevResource> copy(parts, parts + count); CUdevResource got = {};
    CU(cuDevResourceGenerateDesc(&desc, copy.data(), count)); CU(cuGreenCtxCreate(&l.green, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM));
    CU(cuCtxFromGreenCtx(&l.context, l.green)); CU(cuGreenCtxGetDevResource(l.green, &got, CU_DEV_RESOURCE_TYPE_SM)); l.sms = got.sm.smCount;
    CU(cuGreenCtxStreamCreate(&l.a, l.green, CU_STREAM_NON_BLOCKING, priority)); CU(cuGreenCtxStreamCreate(&l.b, l.green, CU_STREAM_NON_BLOCKING, 0));
    CUcontext gone; CU(cuCtxPushCurrent(l.context));         // its events belong to it
    CU(cuEventCreate(&l.whole, CU_EVENT_DISABLE_TIMING)); CU(cuEventCreate(&l.done, CU_EVENT_DISABLE_TIMING)); CU(cuCtxPopCurrent(&gone));
    return l;
}
static void destroy(Lane &l)
{
    CU(cuStreamSynchronize(l.a)); CU(cuStreamSynchronize(l.b)); CU(cuEventDestroy(l.whole)); CU(cuEventDestroy(l.done));
    CU(cuStreamDestroy(l.a)); CU(cuStreamDestroy(l.b)); CU(cuGreenCtxDestroy(l.green)); l = Lane();
}

static int *d_in, *d_out; static uint8_t *d_image; static uint32_t *d_edges, *d_histogram, *d_keys;       // the memory of all lanes
static int *p_audio, *p_filtered; static uint8_t *p_image; static uint32_t *p_edges, *p_histogram, *p_keys;
static int wrong; static uint64_t sum = 14695981039346656037ull;
template <class T> static void check(const char *what, const T *got, const std::vector<T> &want)
{
    if (memcmp(got, want.data(), want.size() * sizeof(T))) { wrong++; fprintf(stderr, "%s differs\n", what); }
    for (const T &v : want) sum = (sum ^ (uint64_t)v) * 1099511628211ull;
}
static int sample(int i) { return (int)(hash(i) % 2001) - 1000; }

struct Model {                                              // the same on the CPU
    std::vector<int> in = std::vector<int>(TAPS + BLOCK), out = std::vector<int>(BLOCK); int taps[TAPS];
    std::vector<uint32_t> edges = std::vector<uint32_t>(W * H), histogram = std::vector<uint32_t>(BINS), keys = std::vector<uint32_t>(KEYS);
    void audio(int f)
    {
        for (int i = 0; i < BLOCK; i++) in[TAPS + i] = sample(f * BLOCK + i);
        for (int i = 0; i < BLOCK; i++) { int s = 0; for (int t = 0; t < TAPS; t++) s += taps[t] * in[TAPS + i - t]; out[i] = s >> 4; }
        memcpy(in.data(), in.data() + BLOCK, TAPS * 4);
    }
    void vision(const uint8_t *m)
    {
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) {
            auto at = [&](int u, int v) { u = std::min(std::max(u, 0), W - 1); v = std::min(std::max(v, 0), H - 1); return (int)m[v * W + u]; };
            int gx = at(x + 1, y - 1) + 2 * at(x + 1, y) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x - 1, y) - at(x - 1, y + 1);
            int gy = at(x - 1, y + 1) + 2 * at(x, y + 1) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x, y - 1) - at(x + 1, y - 1);
            uint32_t v = (uint32_t)(abs(gx) + abs(gy)) + (uint32_t)(out[(y * W + x) % BLOCK] & 63);
            edges[y * W + x] += v; histogram[v & (BINS - 1)]++;
        }
    }
    void stirred(uint32_t turns)
    {
        for (int i = 0; i < KEYS; i++) { uint32_t v = keys[i]; for (uint32_t t = 0; t < turns; t++) v = hash(v + t);
            keys[i] = v ^ histogram[i & (BINS - 1)]; }
    }
};
static Model model;

static void one_division(int turn, Lane &audio, Lane &vision, Lane &rest)
{
    for (int t = 0; t < TAPS; t++) model.taps[t] = (t * 7 + turn * 5) % 23 - 11;
    CK(cudaMemcpyToSymbol(taps, model.taps, sizeof model.taps)); CK(cudaDeviceSynchronize());
    // Background work: its own thread has the lane current, and makes streams and memory in it by the runtime
    std::thread background([&] {
        CU(cuCtxSetCurrent(rest.context)); cudaStream_t s; uint32_t *spare; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CK(cudaMalloc(&spare, KEYS * 4)); CK(cudaMemsetAsync(spare, turn + 1, KEYS * 4, s));
        cudaGraph_t g; cudaGraphExec_t exec; CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < 3; i++) stir<<<64, 128, 0, s>>>(spare + BINS, KEYS - BINS, 5 + i, spare);
        CK(cudaMemcpyAsync(p_keys, spare, KEYS * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamEndCapture(s, &g)); CK(cudaGraphInstantiate(&exec, g, 0));
        for (int i = 0; i < 2; i++) CK(cudaGraphLaunch(exec, s));
        CK(cudaStreamSynchronize(s));
        std::vector<uint32_t> want(KEYS, 0x01010101u * (turn + 1));
        for (int i = BINS; i < KEYS; i++) for (int k = 0; k < 6; k++) { uint32_t v = want[i]; for (int t = 0; t < 5 + k % 3; t++) v = hash(v + t);
            want[i] = v ^ want[0]; }
        check("spare", p_keys, want);
        CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(g)); CK(cudaFree(spare)); CK(cudaStreamDestroy(s)); CU(cuCtxSetCurrent(nullptr));
    });
    background.join();
    for (int f = 0; f < FRAMES; f++) {                      // from the primary context, by the lanes' streams
        int n = turn * FRAMES + f; bool by_context = f % 3 != 1;
        for (int i = 0; i < BLOCK; i++) p_audio[i] = sample(n * BLOCK + i);
        for (int i = 0; i < W * H; i++) p_image[i] = (uint8_t)(hash(i / 7 + n * 1000) >> 3);
        CK(cudaMemcpyAsync(d_in + TAPS, p_audio, BLOCK * 4, cudaMemcpyHostToDevice, audio.a));
        filter<<<(BLOCK + 127) / 128, 128, 0, audio.a>>>(d_out, d_in, BLOCK); keep_past<<<1, 64, 0, audio.a>>>(d_in, BLOCK); CK(cudaGetLastError());
        if (f % 4 == 0) CK(cudaMemcpyAsync(p_filtered, d_out, BLOCK * 4, cudaMemcpyDeviceToHost, audio.a));
        if (by_context) { CU(cuGreenCtxRecordEvent(audio.green, audio.whole)); CU(cuGreenCtxWaitEvent(vision.green, audio.whole)); }
        else { CU(cuEventRecord(audio.done, audio.a)); CU(cuStreamWaitEvent(vision.a, audio.done, 0));
            CU(cuStreamWaitEvent(vision.b, audio.done, 0)); }
        CUstream s = f % 2 ? vision.b : vision.a, other = f % 2 ? vision.a : vision.b; uint8_t *extra;
        CK(cudaMallocAsync(&extra, W * H, s));              // the picture goes a detour
        CK(cudaMemcpyAsync(extra, p_image, W * H, cudaMemcpyHostToDevice, s)); CK(cudaMemcpyAsync(d_image, extra, W * H, cudaMemcpyDeviceToDevice,
            s));
        edges<<<dim3((W + 63) / 64, H), 64, 0, s>>>(d_edges, d_image, d_out, d_histogram); CK(cudaGetLastError()); CK(cudaFreeAsync(extra, s));
        CU(cuEventRecord(vision.done, s)); CU(cuStreamWaitEvent(other, vision.done, 0)); CU(cuStreamWaitEvent(audio.a, vision.done, 0));
        CU(cuStreamWaitEvent(rest.a, vision.done, 0));
        stir<<<96, 128, 0, rest.a>>>(d_keys, KEYS, 3 + f % 5, d_histogram); CK(cudaGetLastError());
        CU(cuGreenCtxRecordEvent(rest.green, rest.whole)); CU(cuGreenCtxWaitEvent(vision.green, rest.whole));     // the histogram stays until then
        model.audio(n); model.vision(p_image); model.stirred(3 + f % 5);
        CU(cuEventSynchronize(vision.done));                // the pinned inputs are written again
        if (f % 4 == 0) { CU(cuStreamSynchronize(audio.a)); check("audio", p_filtered, model.out); }
    }
    CUgreenCtx green = nullptr; CU(cuStreamGetGreenCtx(vision.b, &green)); wrong += green == nullptr;
    CK(cudaMemcpyAsync(p_edges, d_edges, W * H * 4, cudaMemcpyDeviceToHost, vision.a));
    CK(cudaMemcpyAsync(p_keys, d_keys, KEYS * 4, cudaMemcpyDeviceToHost, rest.a));
    CK(cudaMemcpyAsync(p_histogram, d_histogram, BINS * 4, cudaMemcpyDeviceToHost, vision.a)); CK(cudaDeviceSynchronize());
    CU(cuStreamSynchronize(vision.a)); CU(cuStreamSynchronize(rest.a));
    check("edges", p_edges, model.edges); check("histogram", p_histogram, model.histogram); check("keys", p_keys, model.keys);
}

int main()
{
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    CK(cudaMalloc(&d_in, (TAPS + BLOCK) * 4)); CK(cudaMemset(d_in, 0, (TAPS + BLOCK) * 4)); CK(cudaMalloc(&d_out, BLOCK * 4));
    CK(cudaMalloc(&d_image, W * H));
    CK(cudaMalloc(&d_edges, W * H * 4)); CK(cudaMemset(d_edges, 0, W * H * 4)); CK(cudaMalloc(&d_histogram, BINS * 4));
    CK(cudaMemset(d_histogram, 0, BINS * 4));
    CK(cudaMalloc(&d_keys, KEYS * 4)); for (int i = 0; i < KEYS; i++) model.keys[i] = i * 3 + 1;
    CK(cudaMemcpy(d_keys, model.keys.data(), KEYS * 4, cudaMemcpyHostToDevice)); CK(cudaDeviceSynchronize());
    CK(cudaMallocHost(&p_audio, BLOCK * 4)); CK(cudaMallocHost(&p_filtered, BLOCK * 4)); CK(cudaMallocHost(&p_image, W * H));
    CK(cudaMallocHost(&p_edges, W * H * 4));
    CK(cudaMallocHost(&p_histogram, BINS * 4)); CK(cudaMallocHost(&p_keys, KEYS * 4));
    CUdevice dev; CU(cuDeviceGet(&dev, 0)); int least, greatest; CK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int turn = 0; turn < 3; turn++) {                  // three divisions of the multiprocessors
        CUdevResource all = {}, parts[8] = {}, left = {}; CU(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
        unsigned groups = turn == 1 ? 3 : 2, least_sms = turn == 0 ? 16 : turn == 1 ? 24 : 32;
        CU(cuDevSmResourceSplitByCount(parts, &groups, &all, &left, 0, least_sms));
        if (groups != (turn == 1 ? 3u : 2u) || left.sm.smCount == 0) { fprintf(stderr, "not enough multiprocessors\n"); return 2; }
        Lane audio = make_lane(&parts[0], 1, dev, greatest), vision = make_lane(&parts[1], turn == 1 ? 2 : 1, dev, 0), rest = make_lane(&left, 1,
            dev, 0);
        wrong += audio.sms < least_sms || vision.sms < least_sms * (turn == 1 ? 2 : 1) || audio.sms + vision.sms + rest.sms > all.sm.smCount;
        one_division(turn, audio, vision, rest);
        destroy(vision); destroy(audio); destroy(rest);
    }
    CK(cudaFree(d_in)); CK(cudaFree(d_out)); CK(cudaFree(d_image)); CK(cudaFree(d_edges)); CK(cudaFree(d_histogram)); CK(cudaFree(d_keys));
    CK(cudaFreeHost(p_audio)); CK(cudaFreeHost(p_filtered)); CK(cudaFreeHost(p_image)); CK(cudaFreeHost(p_edges)); CK(cudaFreeHost(p_histogram));
    CK(cudaFreeHost(p_keys));
    printf("greenlanes: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
