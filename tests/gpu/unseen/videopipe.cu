// A pipeline of five threads as a video program has it: decode (the CPU fills pinned memory), upload, compute, download, consume;
// each with its own stream, events handed from thread to thread, 60 frames through a ring of four slots.
#include <cuda_runtime.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int W = 322, H = 178, FRAMES = 60, RING = 4, BINS = 64;

template <class T> class Queue {
    std::mutex m; std::condition_variable cv; std::deque<T> items;
public:
    void push(T v) { { std::lock_guard<std::mutex> l(m); items.push_back(v); } cv.notify_one(); }
    T pop() { std::unique_lock<std::mutex> l(m); cv.wait(l, [this] { return !items.empty(); }); T v = items.front(); items.pop_front(); return v; }
};

struct Slot {
    int frame;
    uint8_t *packed;                                        // pinned: Y, then U and V of half the size
    uint8_t *y, *uv; size_t y_pitch, uv_pitch;              // on the device
    uchar4 *rgba; size_t rgba_pitch;
    uchar4 *out; unsigned *bins_device, *bins;              // pinned
    cudaEvent_t uploaded, computed, downloaded;
};
static Slot slots[RING];
static Queue<Slot *> free_slots, to_upload, to_compute, to_download, to_consume;
static int wrong;

__host__ __device__ inline int clamp8(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
__host__ __device__ inline uchar4 convert(int y, int u, int v) {
    int c = 298 * (y - 16), d = u - 128, e = v - 128;
    return make_uchar4(clamp8((c + 409 * e + 128) >> 8), clamp8((c - 100 * d - 208 * e + 128) >> 8), clamp8((c + 516 * d + 128) >> 8), y);
}
__host__ __device__ inline uchar4 blend(uchar4 a, uchar4 b) { return make_uchar4((a.x * 3 + b.x) >> 2, (a.y * 3 + b.y) >> 2, (a.z * 3 + b.z) >> 2, (a.w + b.w + 1) >> 1); }
template <class T> __host__ __device__ T *row(T *p, size_t pitch, int y) { return (T *)((char *)p + pitch * y); }

__global__ void to_rgb(uchar4 *out, size_t out_pitch, const uint8_t *y, size_t y_pitch, const uint8_t *uv, size_t uv_pitch) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= W || py >= H) return;
    const uint8_t *u = uv + uv_pitch * (py / 2);
    ((uchar4 *)((char *)out + out_pitch * py))[px] = convert(y[y_pitch * py + px], u[px / 2 * 2], u[px / 2 * 2 + 1]);
}
__global__ void temporal(uchar4 *p, size_t pitch, uchar4 *previous, size_t previous_pitch, int first) {    // keeps what it makes
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= W || py >= H) return;
    uchar4 *at = row(p, pitch, py) + px, *before = row(previous, previous_pitch, py) + px, v = *at;
    if (!first) v = blend(v, *before);
    *at = *before = v;
}
__global__ void histogram(const uchar4 *p, size_t pitch, unsigned *bins) {
    __shared__ unsigned local[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) local[i] = 0;
    __syncthreads();
    const uchar4 *r = (const uchar4 *)((const char *)p + pitch * blockIdx.x);
    for (int x = threadIdx.x; x < W; x += blockDim.x) atomicAdd(&local[(r[x].x + r[x].y * 2 + r[x].z) / 16], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) if (local[i]) atomicAdd(&bins[i], local[i]);
}

static void decode_frame(uint8_t *p, int frame) {
    uint32_t state = frame * 2654435761u + 1;
    for (int i = 0; i < W * H + W * H / 2; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = i < W * H ? (uint8_t)(((i % W + frame * 3) ^ (i / W)) + (state >> 29)) : (uint8_t)(100 + (state >> 26) + frame % 20);
    }
}
static void decode() {
    for (int f = 0; f < FRAMES; f++) { Slot *s = free_slots.pop(); s->frame = f; decode_frame(s->packed, f); to_upload.push(s); }
    to_upload.push(nullptr);
}
static void upload() {
    CK(cudaSetDevice(0));
    cudaStream_t stream; CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    while (Slot *s = to_upload.pop()) {
        CK(cudaMemcpy2DAsync(s->y, s->y_pitch, s->packed, W, W, H, cudaMemcpyHostToDevice, stream));
        CK(cudaMemcpy2DAsync(s->uv, s->uv_pitch, s->packed + W * H, W, W, H / 2, cudaMemcpyHostToDevice, stream));
        CK(cudaEventRecord(s->uploaded, stream));
        to_compute.push(s);
    }
    to_compute.push(nullptr);
    CK(cudaStreamSynchronize(stream)); CK(cudaStreamDestroy(stream));
}
static void compute() {
    CK(cudaSetDevice(0));
    int lowest, highest; CK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    cudaStream_t stream; CK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest));
    uchar4 *previous; size_t pitch; CK(cudaMallocPitch(&previous, &pitch, W * 4, H));
    dim3 block(32, 8), grid((W + 31) / 32, (H + 7) / 8);
    while (Slot *s = to_compute.pop()) {
        CK(cudaStreamWaitEvent(stream, s->uploaded, 0));
        to_rgb<<<grid, block, 0, stream>>>(s->rgba, s->rgba_pitch, s->y, s->y_pitch, s->uv, s->uv_pitch);
        temporal<<<grid, block, 0, stream>>>(s->rgba, s->rgba_pitch, previous, pitch, s->frame % 20 == 0);       // a cut every 20 frames
        CK(cudaGetLastError());
        CK(cudaEventRecord(s->computed, stream));
        to_download.push(s);
    }
    to_download.push(nullptr);
    CK(cudaStreamSynchronize(stream)); CK(cudaStreamDestroy(stream)); CK(cudaFree(previous));
}
static void download() {
    CK(cudaSetDevice(0));
    cudaStream_t stream; CK(cudaStreamCreate(&stream));
    while (Slot *s = to_download.pop()) {
        CK(cudaStreamWaitEvent(stream, s->computed, 0));
        CK(cudaMemcpy2DAsync(s->out, W * 4, s->rgba, s->rgba_pitch, W * 4, H, cudaMemcpyDefault, stream));
        CK(cudaEventRecord(s->downloaded, stream));
        to_consume.push(s);
    }
    to_consume.push(nullptr);
    CK(cudaStreamSynchronize(stream)); CK(cudaStreamDestroy(stream));
}
static void consume(uint64_t *result) {
    CK(cudaSetDevice(0));
    cudaStream_t stream; CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<uchar4> previous(W * H), expected(W * H); std::vector<uint8_t> packed(W * H * 3 / 2);
    uint64_t h = 14695981039346656037ull; int next = 0;
    while (Slot *s = to_consume.pop()) {
        // The histogram is made of what is on the device while the copy of it is still on its way.
        CK(cudaStreamWaitEvent(stream, s->computed, 0));
        CK(cudaMemsetAsync(s->bins_device, 0, BINS * 4, stream));
        histogram<<<H, 64, 0, stream>>>(s->rgba, s->rgba_pitch, s->bins_device);
        CK(cudaMemcpyAsync(s->bins, s->bins_device, BINS * 4, cudaMemcpyDeviceToHost, stream));
        decode_frame(packed.data(), next);
        unsigned bins[BINS] = {};
        for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) {
            const uint8_t *u = &packed[W * H + y / 2 * W + x / 2 * 2];
            uchar4 v = convert(packed[y * W + x], u[0], u[1]);
            if (next % 20) v = blend(v, previous[y * W + x]);
            expected[y * W + x] = previous[y * W + x] = v;
            bins[(v.x + v.y * 2 + v.z) / 16]++;
        }
        if (next % 3) CK(cudaEventSynchronize(s->downloaded));
        else { cudaError_t e; while ((e = cudaEventQuery(s->downloaded)) == cudaErrorNotReady) std::this_thread::yield(); CK(e); }
        CK(cudaStreamSynchronize(stream));
        if (s->frame != next || memcmp(s->out, expected.data(), W * H * 4)) { wrong++; fprintf(stderr, "frame %d differs\n", next); }
        if (memcmp(s->bins, bins, sizeof bins)) { wrong++; fprintf(stderr, "histogram of frame %d differs\n", next); }
        for (int i = 0; i < W * H; i++) h = (h ^ (s->out[i].x | s->out[i].y << 8 | s->out[i].z << 16 | (uint32_t)s->out[i].w << 24)) * 1099511628211ull;
        for (int i = 0; i < BINS; i++) h = (h ^ s->bins[i]) * 1099511628211ull;
        memset(s->packed, 0xaa, W * H * 3 / 2); memset(s->out, 0x55, W * H * 4);    // all of it is new the next time
        next++;
        free_slots.push(s);
    }
    wrong += next != FRAMES;
    CK(cudaStreamDestroy(stream));
    *result = h;
}

int main() {
    CK(cudaSetDevice(0));
    for (auto &s : slots) {
        CK(cudaHostAlloc(&s.packed, W * H * 3 / 2, cudaHostAllocWriteCombined)); CK(cudaMallocHost(&s.out, W * H * 4)); CK(cudaMallocHost(&s.bins, BINS * 4));
        CK(cudaMallocPitch(&s.y, &s.y_pitch, W, H)); CK(cudaMallocPitch(&s.uv, &s.uv_pitch, W, H / 2)); CK(cudaMallocPitch(&s.rgba, &s.rgba_pitch, W * 4, H));
        CK(cudaMalloc(&s.bins_device, BINS * 4));
        CK(cudaEventCreateWithFlags(&s.uploaded, cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&s.computed, cudaEventDisableTiming));
        CK(cudaEventCreateWithFlags(&s.downloaded, cudaEventBlockingSync | cudaEventDisableTiming));
        free_slots.push(&s);
    }
    uint64_t sum = 0;
    std::thread threads[] = {std::thread(decode), std::thread(upload), std::thread(compute), std::thread(download), std::thread(consume, &sum)};
    for (auto &t : threads) t.join();
    CK(cudaDeviceSynchronize());
    for (auto &s : slots) {
        CK(cudaFreeHost(s.packed)); CK(cudaFreeHost(s.out)); CK(cudaFreeHost(s.bins)); CK(cudaFree(s.y)); CK(cudaFree(s.uv)); CK(cudaFree(s.rgba)); CK(cudaFree(s.bins_device));
        CK(cudaEventDestroy(s.uploaded)); CK(cudaEventDestroy(s.computed)); CK(cudaEventDestroy(s.downloaded));
    }
    printf("videopipe: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
