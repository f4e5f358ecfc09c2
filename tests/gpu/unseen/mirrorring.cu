// Software radio on magic rings: memory that is mapped twice in a row, so that nothing ever wraps, registered in one piece. Kernels and
// copies run over the seam, results are read and wiped through the other half. A bulletin board is seen at two addresses, both registered.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr uint32_t N = 32768, TAPS = 48, BATCHES = 64, MOST = 10000;     // samples of 4 bytes; at most three batches are in a ring
struct State { unsigned long long energy, marks; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__host__ __device__ inline uint32_t marked(uint32_t v) { return mix(v) % 97 == 0 ? v ^ 0x80000000u : v; }
static uint32_t sample(uint64_t at) { return mix((uint32_t)at * 7 + 11); }
static uint32_t size_of_batch(int k) { return 6800 + mix(k + 99) % (MOST - 6800); }
static uint32_t tap(uint32_t t) { return (t * t + 3) | 1; }

__constant__ uint32_t taps[TAPS];
__global__ void filter(const uint32_t *in, uint32_t *out, uint32_t n) {       // in begins TAPS samples before the batch
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t v = 0;
        for (uint32_t t = 0; t < TAPS; t++) v += taps[t] * in[i + t];
        out[i] = v;
    }
}
__global__ void detect(uint32_t *out, uint32_t n, State *state) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t v = out[i], m = marked(v);
        if (m != v) { out[i] = m; atomicAdd(&state->marks, 1ull); }
        atomicAdd(&state->energy, (unsigned long long)mix(v + i));
    }
}
__global__ void post(const uint32_t *notes, uint32_t *answers, uint32_t n, uint32_t round) {
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) answers[i] = mix(notes[i] + round);
}
__global__ void collect(const uint32_t *answers, uint32_t *counts, uint32_t n, uint32_t *sums) {
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) { sums[i] = sums[i] * 5 + answers[i]; counts[i] += answers[i] & 7; }
}

static bool map_views(size_t bytes, bool in_a_row, char *views[2]) {
    int fd = memfd_create("ring", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, bytes) != 0) { perror("memfd"); exit(2); }
    if (in_a_row) {
        void *room = mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) { perror("mmap"); exit(2); }
        for (int i = 0; i < 2; i++)
            views[i] = (char *)mmap((char *)room + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    } else {
        for (int i = 0; i < 2; i++) views[i] = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (views[0] == MAP_FAILED || views[1] == MAP_FAILED) { perror("mmap"); exit(2); }
    close(fd);
    memset(views[0], 0, bytes);
    if (in_a_row) return cudaHostRegister(views[0], 2 * bytes, cudaHostRegisterMapped | cudaHostRegisterPortable) == cudaSuccess;
    if (cudaHostRegister(views[0], bytes, cudaHostRegisterMapped) != cudaSuccess) return false;
    return cudaHostRegister(views[1], bytes, cudaHostRegisterMapped) == cudaSuccess;
}

static int wrong;
static uint64_t checksum = 14695981039346656037ull;
static void digest(uint64_t v) { checksum = (checksum ^ v) * 1099511628211ull; }

static void radio() {
    char *in_views[2], *out_views[2];
    if (!map_views(N * 4, true, in_views) || !map_views(N * 4, true, out_views)) {
        cudaGetLastError(); printf("skipped: rings that are mapped twice cannot be registered\n"); return;
    }
    uint32_t *in = (uint32_t *)in_views[0], *out = (uint32_t *)out_views[0], *in_dev, *out_dev, *near_in, *near_out, host_taps[TAPS];
    CK(cudaHostGetDevicePointer(&in_dev, in, 0)); CK(cudaHostGetDevicePointer(&out_dev, out, 0));
    CK(cudaMalloc(&near_in, (MOST + TAPS) * 4)); CK(cudaMalloc(&near_out, MOST * 4));
    State *state; CK(cudaMalloc(&state, sizeof(State))); CK(cudaMemset(state, 0, sizeof(State)));
    for (uint32_t t = 0; t < TAPS; t++) host_taps[t] = tap(t);
    CK(cudaMemcpyToSymbol(taps, host_taps, sizeof host_taps));
    cudaStream_t stream; cudaEvent_t done[4];
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto &e : done) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CK(cudaDeviceSynchronize());

    // One thread is the antenna: it writes a batch as soon as there is room, over the seam as it comes, or into the upper half.
    std::mutex lock; std::condition_variable changed; int produced = 0, consumed = 0;
    std::vector<uint64_t> begins(BATCHES + 1, TAPS);
    for (uint32_t k = 0; k < BATCHES; k++) begins[k + 1] = begins[k] + size_of_batch(k);
    std::thread antenna([&] {
        for (uint32_t t = 0; t < TAPS; t++) in[t] = sample(t);
        for (int k = 0; k < (int)BATCHES; k++) {
            { std::unique_lock<std::mutex> l(lock); changed.wait(l, [&] { return k - consumed <= 2; }); }
            uint32_t n = size_of_batch(k), at = begins[k] % N, *to = in + at + (k % 2 && at + n <= N ? N : 0);
            for (uint32_t i = 0; i < n; i++) to[i] = sample(begins[k] + i);
            { std::lock_guard<std::mutex> l(lock); produced = k + 1; }
            changed.notify_all();
        }
    });
    uint64_t energy = 0, marks = 0;
    auto consume = [&](int k) {
        uint32_t n = size_of_batch(k), at = begins[k] % N;
        CK(cudaEventSynchronize(done[k % 4]));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v = 0;
            for (uint32_t t = 0; t < TAPS; t++) v += tap(t) * sample(begins[k] - TAPS + i + t);
            energy += mix(v + i); marks += marked(v) != v;
            uint32_t got = out[(at + i) % N];              // always by the lower half
            wrong += got != marked(v);
            if (i % 13 == 0) digest(got);
        }
        memset(at + n <= N ? out + N + at : out + at, 0, n * 4);     // wiped by the upper half, or over the seam
        { std::lock_guard<std::mutex> l(lock); consumed = k + 1; }
        changed.notify_all();
    };
    for (int k = 0; k < (int)BATCHES; k++) {
        { std::unique_lock<std::mutex> l(lock); changed.wait(l, [&] { return produced > k; }); }
        uint32_t n = size_of_batch(k), from = (begins[k] - TAPS) % N, at = begins[k] % N, over = at + n <= N ? at + N : at;
        const uint32_t *source = in_dev + from; uint32_t *target = out_dev + at;
        if (k % 4 & 1) { CK(cudaMemcpyAsync(near_in, in + from, (n + TAPS) * 4, cudaMemcpyHostToDevice, stream)); source = near_in; }
        if (k % 4 & 2) target = near_out;
        filter<<<24, 128, 0, stream>>>(source, target, n);
        if (k % 4 & 2) CK(cudaMemcpyAsync(out + at, near_out, n * 4, cudaMemcpyDeviceToHost, stream));
        detect<<<16, 128, 0, stream>>>(out_dev + over, n, state);
        CK(cudaGetLastError());
        CK(cudaEventRecord(done[k % 4], stream));
        if (k >= 2) consume(k - 2);
    }
    consume(BATCHES - 2); consume(BATCHES - 1);
    antenna.join();
    State got; CK(cudaMemcpy(&got, state, sizeof got, cudaMemcpyDeviceToHost));
    wrong += got.energy != energy || got.marks != marks;
    digest(got.energy); digest(got.marks);
    printf("radio: %u batches, %llu marks\n", BATCHES, got.marks);
    CK(cudaHostUnregister(in)); CK(cudaHostUnregister(out));
    munmap(in, 2 * N * 4); munmap(out, 2 * N * 4);
    CK(cudaFree(near_in)); CK(cudaFree(near_out)); CK(cudaFree(state)); CK(cudaStreamDestroy(stream));
    for (auto &e : done) CK(cudaEventDestroy(e));
}

static void board() {                                       // notes | answers | counts, each WORDS long, at two addresses
    constexpr uint32_t WORDS = 3000, STRIDE = 4096, ROUNDS = 40;
    char *views[2];
    if (!map_views(3 * STRIDE * 4, false, views)) {
        cudaGetLastError(); printf("skipped: memory cannot be registered at a second address\n"); return;
    }
    uint32_t *host[2], *dev[2], *sums; cudaStream_t stream; cudaEvent_t event;
    for (int v = 0; v < 2; v++) { host[v] = (uint32_t *)views[v]; CK(cudaHostGetDevicePointer(&dev[v], host[v], 0)); }
    CK(cudaMalloc(&sums, WORDS * 4)); CK(cudaMemset(sums, 0, WORDS * 4)); CK(cudaDeviceSynchronize());
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); CK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::vector<uint32_t> notes(WORDS, 0), counts(WORDS, 0), all(WORDS, 0), back(WORDS);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        int w = r & 1, g = (r >> 1) & 1;                    // which view the CPU writes, and the first kernel reads
        for (uint32_t i = r % 7; i < WORDS; i += 1 + r % 5) { notes[i] += counts[(i + r) % WORDS] + r; host[w][i] = notes[i]; }
        post<<<1, 256, 0, stream>>>(dev[g], dev[!g] + STRIDE, WORDS, r);
        collect<<<1, 256, 0, stream>>>(dev[g] + STRIDE, dev[g] + 2 * STRIDE, WORDS, sums);
        CK(cudaGetLastError());
        CK(cudaEventRecord(event, stream)); CK(cudaEventSynchronize(event));
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t a = mix(notes[i] + r);
            all[i] = all[i] * 5 + a; counts[i] += a & 7;
            wrong += host[w][STRIDE + i] != a || host[!w][2 * STRIDE + i] != counts[i];
        }
        if (r % 8 == 5) { memset(host[w] + 2 * STRIDE, 0, WORDS * 4); counts.assign(WORDS, 0); }
    }
    CK(cudaMemcpy(back.data(), sums, WORDS * 4, cudaMemcpyDeviceToHost));
    wrong += back != all;
    for (uint32_t v : back) digest(v);
    for (int v = 0; v < 2; v++) { CK(cudaHostUnregister(host[v])); munmap(host[v], 3 * STRIDE * 4); }
    CK(cudaFree(sums)); CK(cudaStreamDestroy(stream)); CK(cudaEventDestroy(event));
}

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    radio();
    board();
    printf("mirrorring: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
