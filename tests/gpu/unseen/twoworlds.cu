// nvcc: DRIVER
// A host application (driver API, contexts of its own) and a toolbox written for the runtime, in one process: the toolbox works in whatever context
// is current. Every context has its own copy of the toolbox's __device__ and __constant__ variables, its own default stream, pool, textures and
// graphs. Contexts are pushed and popped in the middle, two threads exchange theirs, one context dies and is made anew.
#include <cuda.h>
#include <cuda_runtime.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

constexpr int N = 6000, TAPS = 9;
__device__ uint32_t state[N];                               // one of each in every context
__device__ uint32_t *latest;                                // where the context's last result lies
__device__ uint32_t rounds = 5;
__constant__ uint32_t taps[TAPS];

__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = (v ^ (k * 0x85EBCA77u)) * 0xC2B2AE3Du; return v ^ (v >> 15); }
__global__ void seed(uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) state[i] = mix(i, k); }
__global__ void filter(uint32_t *out, uint32_t k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) latest = out;
    if (i >= N) return;
    uint32_t sum = k;
    for (int t = 0; t < TAPS; t++) sum += state[(i + t) % N] * taps[t];
    out[i] = sum;
}
__global__ void take_back() { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) state[i] = latest[i] ^ rounds; }
__global__ void count_round() { rounds++; }
__global__ void look(uint32_t *out, cudaTextureObject_t tex, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<uint32_t>(tex, x + 0.5f, y + 0.5f) + rounds;
}

// The CPU's idea of one context
struct Model {
    std::vector<uint32_t> state = std::vector<uint32_t>(N), latest = std::vector<uint32_t>(N); uint32_t rounds = 5, taps[TAPS];
    void seed(uint32_t k) { for (int i = 0; i < N; i++) state[i] = mix(i, k); }
    void filter(uint32_t k) { for (int i = 0; i < N; i++) { uint32_t s = k; for (int t = 0; t < TAPS; t++) s += state[(i + t) % N] * taps[t];
        latest[i] = s; } }
    void take_back() { for (int i = 0; i < N; i++) state[i] = latest[i] ^ rounds; }
};

// The toolbox: knows nothing of contexts
struct Toolbox {
    uint32_t *result[2]; cudaStream_t stream; cudaEvent_t done; cudaGraphExec_t graph; cudaArray_t array; cudaTextureObject_t tex; uint32_t *host;
    Model model; int id;
    explicit Toolbox(int number) : id(number)
    {
        CK(cudaStreamCreate(&stream)); CK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming)); CK(cudaMallocHost(&host, N * 4));
        for (auto &r : result) CK(cudaMalloc(&r, N * 4));
        for (int t = 0; t < TAPS; t++) model.taps[t] = mix(t, 500 + id);
        CK(cudaMemcpyToSymbol(taps, model.taps, sizeof model.taps));
        seed<<<(N + 255) / 256, 256>>>(id); CK(cudaGetLastError()); model.seed(id);
        cudaGraph_t g; CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));     // five steps by one launch
        for (int i = 0; i < 5; i++) {
            filter<<<(N + 255) / 256, 256, 0, stream>>>(result[i % 2], 40 + i); count_round<<<1, 1, 0, stream>>>();
            take_back<<<(N + 255) / 256, 256, 0, stream>>>();
        }
        CK(cudaStreamEndCapture(stream, &g)); CK(cudaGraphInstantiate(&graph, g, 0)); CK(cudaGraphDestroy(g));
        cudaChannelFormatDesc d = cudaCreateChannelDesc<uint32_t>(); CK(cudaMallocArray(&array, &d, 100, N / 100));
        cudaResourceDesc r; memset(&r, 0, sizeof r); r.resType = cudaResourceTypeArray; r.res.array.array = array;
        cudaTextureDesc t; memset(&t, 0, sizeof t); t.readMode = cudaReadModeElementType; CK(cudaCreateTextureObject(&tex, &r, &t, nullptr));
    }
    void steps()                                            // in the default stream, by launches, and in the other one, by the graph
    {
        filter<<<(N + 255) / 256, 256>>>(result[1], id * 3); take_back<<<(N + 255) / 256, 256>>>();
        model.filter(id * 3); model.take_back();
        CK(cudaGraphLaunch(graph, stream));
        for (int i = 0; i < 5; i++) { model.filter(40 + i); model.rounds++; model.take_back(); }
        uint32_t more = mix(model.rounds, id);              // one constant is changed by a copy from the stack, another from the heap
        CK(cudaMemcpyToSymbolAsync(taps, &more, 4, 4 * (model.rounds % TAPS), cudaMemcpyHostToDevice, stream));
        model.taps[model.rounds % TAPS] = more;
        CK(cudaEventRecord(done, stream));
    }
    int verify(unsigned long long &sum)
    {
        int bad = 0; std::vector<uint32_t> got(N); uint32_t r, *where, t[TAPS];
        CK(cudaStreamWaitEvent(0, done, 0));
        CK(cudaMemcpyFromSymbol(&r, rounds, 4)); CK(cudaMemcpyFromSymbol(&where, latest, sizeof where)); CK(cudaMemcpyFromSymbol(t, taps, sizeof t));
        bad += r != model.rounds; bad += where != result[0]; bad += memcmp(t, model.taps, sizeof t) != 0;
        CK(cudaMemcpyFromSymbolAsync(host, state, sizeof state, 0, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        bad += memcmp(host, model.state.data(), N * 4) != 0;
        uint32_t *p; CK(cudaGetSymbolAddress((void **)&p, state));
        CK(cudaMemcpy2DToArrayAsync(array, 0, 0, p, 400, 400, N / 100, cudaMemcpyDeviceToDevice, stream));
        uint32_t *seen; CK(cudaMallocAsync(&seen, N * 4, stream));
        look<<<dim3(1, N / 100), 128, 0, stream>>>(seen, tex, 100, N / 100); CK(cudaGetLastError());
        CK(cudaMemcpyAsync(got.data(), seen, N * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaFreeAsync(seen, stream));
        CK(cudaStreamSynchronize(stream));
        for (int i = 0; i < N; i++) { bad += got[i] != model.state[i] + model.rounds; sum = (sum ^ got[i]) * 1099511628211ull; }
        return bad;
    }
    ~Toolbox()
    {
        CK(cudaStreamSynchronize(stream)); CK(cudaDestroyTextureObject(tex)); CK(cudaFreeArray(array)); CK(cudaGraphExecDestroy(graph));
        CK(cudaEventDestroy(done));
        CK(cudaStreamDestroy(stream)); CK(cudaFreeHost(host)); for (auto r : result) CK(cudaFree(r));
    }
};

static CUcontext new_context(CUdevice device) { CUcontext c, old; CU(cuCtxCreate(&c, nullptr, CU_CTX_SCHED_AUTO, device)); CU(cuCtxPopCurrent(&old));
    return c; }

int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull;
    CU(cuInit(0)); CUdevice device; CU(cuDeviceGet(&device, 0));
    CUcontext contexts[3], popped; Toolbox *boxes[3];
    CU(cuDevicePrimaryCtxRetain(&contexts[0], device));     // the first is the one that the runtime would take by itself
    for (int c = 1; c < 3; c++) contexts[c] = new_context(device);
    for (int c = 0; c < 3; c++) { CU(cuCtxPushCurrent(contexts[c])); boxes[c] = new Toolbox(c); CU(cuCtxPopCurrent(&popped));
        wrong += popped != contexts[c]; }

    // 1. One thread that goes from context to context, also in the middle of the toolbox's work
    for (int round = 0; round < 6; round++) {
        for (int c = 0; c < 3; c++) {
            CU(cuCtxPushCurrent(contexts[c])); boxes[c]->steps();
            if (round % 2) { CU(cuCtxPushCurrent(contexts[(c + 1) % 3])); wrong += boxes[(c + 1) % 3]->verify(checksum) != 0;
                CU(cuCtxPopCurrent(&popped)); wrong += boxes[c]->verify(checksum) != 0; }
            CU(cuCtxPopCurrent(&popped));
        }
        for (int c = 2; c >= 0; c--) { CU(cuCtxSetCurrent(contexts[c])); wrong += boxes[c]->verify(checksum) != 0; }
        CU(cuCtxSetCurrent(nullptr));
    }
    printf("one thread, three contexts: wrong %d\n", wrong);

    // 2. Results go from one context to another by peer copies and by the CPU
    std::vector<uint32_t> moved(N);
    for (int c = 0; c < 3; c++) {
        int d = (c + 1) % 3;
        CU(cuCtxSetCurrent(contexts[c]));
        CU(cuMemcpyPeer((CUdeviceptr)boxes[d]->result[1], contexts[d], (CUdeviceptr)boxes[c]->result[0], contexts[c], N * 4));
        CU(cuCtxSetCurrent(contexts[d])); CK(cudaMemcpy(moved.data(), boxes[d]->result[1], N * 4, cudaMemcpyDeviceToHost));
        wrong += moved != boxes[c]->model.latest; for (uint32_t v : moved) checksum = (checksum ^ v) * 1099511628211ull;
    }
    printf("copies between them: wrong %d\n", wrong);

    // 3. Two threads that exchange their contexts after each round
    std::mutex lock; std::condition_variable changed; int arrived = 0, generation = 0; unsigned long long sums[2] = {1, 2}; int bad[2] = {0, 0};
    auto meet = [&] { std::unique_lock<std::mutex> l(lock); int g = generation; if (++arrived == 2) { arrived = 0; generation++; changed.notify_all();
        } else changed.wait(l, [&] { return generation != g; }); };
    std::thread threads[2];
    for (int t = 0; t < 2; t++) threads[t] = std::thread([&, t] {
        for (int round = 0; round < 10; round++) {
            int c = 1 + (t + round) % 2;
            CU(cuCtxSetCurrent(contexts[c])); boxes[c]->steps();
            if (round % 3 == t) bad[t] += boxes[c]->verify(sums[t]) != 0;
            meet();
        }
        CU(cuCtxSetCurrent(contexts[1 + t])); bad[t] += boxes[1 + t]->verify(sums[t]) != 0;
    });
    for (auto &t : threads) t.join();
    wrong += bad[0] + bad[1]; checksum = (checksum ^ sums[0]) * 1099511628211ull ^ sums[1];
    printf("two threads, exchanging: wrong %d\n", wrong);

    // 4. One context dies with all that it has, twice; its variables begin anew, those of the others do not
    for (int again = 0; again < 2; again++) {
        CU(cuCtxSetCurrent(contexts[1])); delete boxes[1]; CU(cuCtxSetCurrent(nullptr)); CU(cuCtxDestroy(contexts[1]));
        contexts[1] = new_context(device); CU(cuCtxPushCurrent(contexts[1]));
        uint32_t r; CK(cudaMemcpyFromSymbol(&r, rounds, 4)); wrong += r != 5;
        boxes[1] = new Toolbox(7 + again); boxes[1]->steps(); wrong += boxes[1]->verify(checksum) != 0; CU(cuCtxPopCurrent(&popped));
        for (int c : {0, 2}) { CU(cuCtxSetCurrent(contexts[c])); boxes[c]->steps(); wrong += boxes[c]->verify(checksum) != 0; }
        CU(cuCtxSetCurrent(nullptr));
    }
    uint32_t r, kept = boxes[0]->model.rounds;
    for (int c = 0; c < 3; c++) { CU(cuCtxSetCurrent(contexts[c])); delete boxes[c]; CU(cuCtxSetCurrent(nullptr));
        if (c) CU(cuCtxDestroy(contexts[c])); }
    CU(cuDevicePrimaryCtxRelease(device));                  // the runtime has a share of its own in it
    CK(cudaSetDevice(0)); CK(cudaMemcpyFromSymbol(&r, rounds, 4)); printf("primary context, released by the host: rounds %u\n", r);
    wrong += r != kept;
    CK(cudaDeviceReset()); CK(cudaMemcpyFromSymbol(&r, rounds, 4)); printf("reset: rounds %u\n", r); wrong += r != 5;
    printf("twoworlds: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
