// A program in its debugging mode: it sets CUDA_LAUNCH_BLOCKING for itself, so that a launch has ended when it returns, and from then on it waits
// for nothing. Mapped and managed memory and results of copies are read at once, and inputs written over; by one thread, then by three, with plain,
// cooperative, cluster and extended launches.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr uint32_t WORDS = 2600, ROUNDS = 70; constexpr int THREADS = 3;
struct Page { uint32_t done, pad[15]; uint32_t in[WORDS], out[WORDS]; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__device__ inline void nap() { for (int i = 0; i < 3; i++) __nanosleep(150000); }
// A single block, two blocks that wait for each other, a cluster of two: the same results. The last to write is the word `done`.
__device__ inline void part(Page *p, uint32_t *state, uint32_t n, uint32_t round) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p->out[i] = state[i] = state[i] * 5 + mix(p->in[i] + round);
    __threadfence_system();
}
__device__ inline void finish(Page *p, uint32_t round) { if (blockIdx.x == 0 && threadIdx.x == 0) *(volatile uint32_t *)&p->done = round + 1; }
__global__ void plain(Page *p, uint32_t *state, uint32_t n, uint32_t round) { nap(); part(p, state, n, round); __syncthreads(); finish(p, round); }
__global__ void in_grid(Page *p, uint32_t *state, uint32_t n, uint32_t round) {
    nap(); part(p, state, n, round);
    cooperative_groups::this_grid().sync();
    finish(p, round);
}
__global__ void in_cluster(Page *p, uint32_t *state, uint32_t n, uint32_t round) {
    nap(); part(p, state, n, round);
    cooperative_groups::this_cluster().sync();
    finish(p, round);
}
__global__ void age(uint32_t *managed, uint32_t n, uint32_t round) {
    nap();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) managed[i] = mix(managed[i] + round);
}

static std::atomic<int> late{0};
struct Result { uint64_t sum = 14695981039346656037ull; int wrong = 0; };
static void seen(const uint32_t *done, uint32_t value) {     // it should be there; if not, that is counted
    if (__atomic_load_n(done, __ATOMIC_ACQUIRE) == value) return;
    late++;
    auto began = std::chrono::steady_clock::now();
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != value)
        if (std::chrono::steady_clock::now() - began > std::chrono::seconds(15)) { fprintf(stderr, "a launch does not end\n"); fflush(nullptr); _Exit(3); }
}

static void work(int who, Page *page, Page *dev, bool use_managed, Result *result) {
    CK(cudaSetDevice(0));
    cudaStream_t stream; uint32_t *state, *managed = nullptr, *word; const uint32_t managed_words = 20000;
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaMalloc(&state, WORDS * 4)); CK(cudaMemset(state, 0, WORDS * 4)); CK(cudaMallocHost(&word, 64)); CK(cudaDeviceSynchronize());
    std::vector<uint32_t> model(WORDS, 0), old(managed_words), back(WORDS);
    for (uint32_t i = 0; i < WORDS; i++) page->in[i] = mix(i + who * 9000);
    if (use_managed) {
        CK(cudaMallocManaged(&managed, managed_words * 4));
        for (uint32_t i = 0; i < managed_words; i++) managed[i] = old[i] = mix(i);
    }
    for (uint32_t r = 0; r < ROUNDS; r++) {
        uint32_t n = WORDS - r % 41;
        switch (r % 4) {
        case 0: plain<<<1, 256, 0, stream>>>(dev, state, n, r); CK(cudaGetLastError()); break;
        case 1: {
            void *args[] = {&dev, &state, &n, &r};
            CK(cudaLaunchCooperativeKernel((const void *)in_grid, dim3(2), dim3(256), args, 0, stream));
            break;
        }
        case 2: {
            cudaLaunchAttribute a = {}; cudaLaunchConfig_t c = {};
            a.id = cudaLaunchAttributeClusterDimension; a.val.clusterDim.x = 2; a.val.clusterDim.y = a.val.clusterDim.z = 1;
            c.gridDim = dim3(2); c.blockDim = dim3(256); c.stream = stream; c.attrs = &a; c.numAttrs = 1;
            CK(cudaLaunchKernelEx(&c, in_cluster, dev, state, n, r));
            break;
        }
        case 3: {
            void *args[] = {&dev, &state, &n, &r};
            CK(cudaLaunchKernel((const void *)plain, dim3(1), dim3(512), args, 0, stream));
            break;
        }
        }
        for (uint32_t i = 0; i < n; i++) model[i] = model[i] * 5 + mix(page->in[i] + r);
        seen(&page->done, r + 1);
        for (uint32_t i = 0; i < n; i++) { result->wrong += page->out[i] != model[i]; result->sum = (result->sum ^ page->out[i]) * 1099511628211ull; }
        uint32_t pick = page->out[r];
        for (uint32_t i = pick % 5; i < WORDS; i += 1 + pick % 6) page->in[i] += mix(pick + i);
        memset(page->out, 0, sizeof page->out);
        __atomic_store_n(&page->done, 0u, __ATOMIC_RELEASE);
        if (managed && r % 3 == 0) {                        // nobody waits here either
            age<<<4, 128, 0, stream>>>(managed, managed_words, r);
            CK(cudaGetLastError());
            if (late) CK(cudaStreamSynchronize(stream));     // the mode is not heeded: be right all the same
            for (uint32_t i = 0; i < managed_words; i++) { old[i] = mix(old[i] + r); result->wrong += managed[i] != old[i]; }
            for (uint32_t i = r; i < managed_words; i += 777) { managed[i] ^= pick; old[i] ^= pick; }
            result->sum = result->sum * 31 + managed[r];
        }
        if (r % 9 == 8) {                                   // a copy is no launch
            CK(cudaMemcpyAsync(word, state + r, 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
            result->wrong += *word != model[r];
        }
    }
    CK(cudaMemcpyAsync(back.data(), state, WORDS * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
    result->wrong += back != model;
    for (uint32_t v : back) result->sum = (result->sum ^ v) * 1099511628211ull;
    CK(cudaFree(state)); CK(cudaFreeHost(word)); CK(cudaStreamDestroy(stream));
    if (managed) CK(cudaFree(managed));
}

int main() {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);                  // before anything of CUDA's
    Page *pages, *dev; uint64_t checksum = 0; int wrong = 0, concurrent = 0;
    CK(cudaSetDevice(0)); CK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (!concurrent) printf("skipped: managed memory\n");
    CK(cudaHostAlloc(&pages, THREADS * sizeof(Page), cudaHostAllocMapped | cudaHostAllocPortable)); CK(cudaHostGetDevicePointer(&dev, pages, 0));
    memset(pages, 0, THREADS * sizeof(Page));
    Result alone; work(0, pages, dev, concurrent != 0, &alone);
    printf("one thread: %016llx wrong %d late %d\n", (unsigned long long)alone.sum, alone.wrong, late.load());
    checksum = alone.sum; wrong = alone.wrong;
    memset(pages, 0, THREADS * sizeof(Page));
    Result results[THREADS]; std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(work, i, pages + i, dev + i, false, &results[i]);
    for (auto &t : threads) t.join();
    for (auto &r : results) { checksum = checksum * 1099511628211ull + r.sum; wrong += r.wrong; }
    CK(cudaFreeHost(pages));
    printf("launchblocking: checksum %016llx wrong %d late %d\n", (unsigned long long)checksum, wrong, late.load());
    return wrong != 0;
}
