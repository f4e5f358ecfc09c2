// Events that launches record themselves, as attributes: one tells that a kernel has begun, while it goes on to write mapped memory; others let a
// consumer run beside its producer, with flags in device memory for each part. The same within captured graphs; two graphs in two streams that
// play ping-pong by external events; launches with priorities and memory domains.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int PARTS = 24, PART = 700, ROUNDS = 40, N = 5120;
constexpr unsigned long long PATIENCE = 6000000000ull;       // nanoseconds

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__device__ inline unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ uint32_t gave_up;

__global__ void produce(volatile uint32_t *data, volatile uint32_t *flags, uint32_t round) {
    cudaTriggerProgrammaticLaunchCompletion();
    for (int p = blockIdx.x; p < PARTS; p += gridDim.x) {
        for (int i = threadIdx.x; i < PART; i += blockDim.x) data[p * PART + i] = mix(data[p * PART + i] + round * 1000 + i);
        if (p % 3 == 2) __nanosleep(20000);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) flags[p] = round;
    }
}
__global__ void consume(const volatile uint32_t *data, const volatile uint32_t *flags, uint32_t round, unsigned long long *sums) {
    for (int p = blockIdx.x; p < PARTS; p += gridDim.x) {
        if (threadIdx.x == 0) {
            for (unsigned long long began = now(); flags[p] != round;) {
                if (now() - began > PATIENCE) { atomicAdd(&gave_up, 1u); break; }
                __nanosleep(500);
            }
            __threadfence();
        }
        __syncthreads();
        for (int i = threadIdx.x; i < PART; i += blockDim.x) atomicAdd(sums + p, (unsigned long long)data[p * PART + i] * (i + 1 + round));
    }
}
// Sleeps first, writes the results at its end.
__global__ void slow(const uint32_t *in, uint32_t *mapped_out, uint32_t round, int naps) {
    for (int i = 0; i < naps; i++) __nanosleep(200000);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) mapped_out[i] = mix(in[i] + round);
}
__global__ void quick(const uint32_t *mapped_in, uint32_t *mapped_out, uint32_t *table, uint32_t round) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
        mapped_out[i] = table[i] = table[i] * 3 + mix(mapped_in[i] ^ round);
}
__global__ void add_round(const uint32_t *from, uint32_t *to, uint32_t n, const uint32_t *round) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = mix(from[(i + 1) % n] + *round);
}
__global__ void next_round(uint32_t *round) { ++*round; }
__global__ void first_half(const uint32_t *in, uint32_t *out) {
    cudaTriggerProgrammaticLaunchCompletion();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) out[i] = in[i] * 7 + 1;
}
__global__ void second_half(const uint32_t *in, uint32_t *out) {
    cudaGridDependencySynchronize();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) out[i] = mix(in[N - 1 - i]) + out[i];
}

static int wrong;
static uint64_t checksum = 14695981039346656037ull;
static void digest(const std::vector<uint32_t> &v) { for (uint32_t w : v) checksum = (checksum ^ w) * 1099511628211ull; }
static cudaEvent_t plain_event() { cudaEvent_t e; CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming)); return e; }
static cudaStream_t plain_stream() { cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); return s; }
template <class... P, class... A> static cudaError_t launch(void (*f)(P...), int blocks, cudaStream_t s, std::vector<cudaLaunchAttribute> with, A... a) {
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks); c.blockDim = dim3(128); c.stream = s; c.attrs = with.data(); c.numAttrs = (unsigned)with.size();
    return cudaLaunchKernelEx(&c, f, (P)a...);
}
static cudaLaunchAttribute records(cudaEvent_t e, int kind) {            // 0: has begun; 1: programmatic; 2: that, as each block begins
    cudaLaunchAttribute a = {};
    if (kind == 0) { a.id = cudaLaunchAttributeLaunchCompletionEvent; a.val.launchCompletionEvent.event = e; }
    else { a.id = cudaLaunchAttributeProgrammaticEvent; a.val.programmaticEvent.event = e; a.val.programmaticEvent.triggerAtBlockStart = kind == 2; }
    return a;
}
static cudaLaunchAttribute priority(int p) { cudaLaunchAttribute a = {}; a.id = cudaLaunchAttributePriority; a.val.priority = p; return a; }
static cudaLaunchAttribute domain(bool remote) {
    cudaLaunchAttribute a = {}; a.id = cudaLaunchAttributeMemSyncDomain;
    a.val.memSyncDomain = remote ? cudaLaunchMemSyncDomainRemote : cudaLaunchMemSyncDomainDefault;
    return a;
}

static void side_by_side() {
    uint32_t *data, *flags; unsigned long long *sums; cudaStream_t a = plain_stream(), b = plain_stream(); cudaEvent_t begun[3], eaten = plain_event();
    for (auto &e : begun) e = plain_event();
    CK(cudaMalloc(&data, PARTS * PART * 4)); CK(cudaMalloc(&flags, PARTS * 4)); CK(cudaMalloc(&sums, PARTS * 8));
    CK(cudaMemset(data, 0, PARTS * PART * 4)); CK(cudaMemset(flags, 0, PARTS * 4)); CK(cudaDeviceSynchronize());
    std::vector<uint32_t> model(PARTS * PART, 0), back(model.size()); std::vector<unsigned long long> got(PARTS);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        int kind = round % 3;
        CK(cudaMemsetAsync(sums, 0, PARTS * 8, b));
        CK(launch(produce, 6, a, {records(begun[kind], kind), priority(0)}, data, flags, round));
        CK(cudaStreamWaitEvent(b, begun[kind], 0));
        CK(launch(consume, 4, b, {}, data, flags, round, sums));
        CK(cudaEventRecord(eaten, b));
        CK(cudaStreamWaitEvent(a, eaten, 0));
        for (int p = 0; p < PARTS; p++) for (int i = 0; i < PART; i++) model[p * PART + i] = mix(model[p * PART + i] + round * 1000 + i);
        if (round % 8 == 0) {
            CK(cudaMemcpyAsync(got.data(), sums, PARTS * 8, cudaMemcpyDeviceToHost, b)); CK(cudaStreamSynchronize(b));
            for (int p = 0; p < PARTS; p++) {
                unsigned long long s = 0; for (int i = 0; i < PART; i++) s += (unsigned long long)model[p * PART + i] * (i + 1 + round);
                wrong += got[p] != s; checksum = (checksum ^ got[p]) * 1099511628211ull;
            }
        }
    }
    CK(cudaStreamSynchronize(b)); CK(cudaStreamSynchronize(a));
    CK(cudaMemcpy(back.data(), data, back.size() * 4, cudaMemcpyDeviceToHost));
    wrong += back != model; digest(back);
    CK(cudaFree(data)); CK(cudaFree(flags)); CK(cudaFree(sums)); CK(cudaStreamDestroy(a)); CK(cudaStreamDestroy(b));
    for (auto e : begun) CK(cudaEventDestroy(e));
    CK(cudaEventDestroy(eaten));
}

// The CPU waits until a kernel has begun, works with another stream meanwhile, and reads what the first one wrote only when that has ended.
static void begun_not_done() {
    uint32_t *in, *table, *out1, *out2, *in2, *out1_dev, *out2_dev, *in2_dev; cudaStream_t a = plain_stream(), b = plain_stream();
    cudaEvent_t begun = plain_event(), ended = plain_event();
    CK(cudaMalloc(&in, N * 4)); CK(cudaMalloc(&table, N * 4)); CK(cudaMemset(table, 0, N * 4));
    CK(cudaHostAlloc(&out1, N * 4, cudaHostAllocMapped)); CK(cudaHostAlloc(&out2, N * 4, cudaHostAllocMapped)); CK(cudaHostAlloc(&in2, N * 4, cudaHostAllocMapped));
    CK(cudaHostGetDevicePointer(&out1_dev, out1, 0)); CK(cudaHostGetDevicePointer(&out2_dev, out2, 0)); CK(cudaHostGetDevicePointer(&in2_dev, in2, 0));
    std::vector<uint32_t> first(N), model(N, 0);
    for (int i = 0; i < N; i++) { first[i] = mix(i); out1[i] = out2[i] = in2[i] = 0; }
    CK(cudaMemcpy(in, first.data(), N * 4, cudaMemcpyHostToDevice)); CK(cudaDeviceSynchronize());
    for (uint32_t round = 1; round <= 12; round++) {
        CK(launch(slow, 8, a, {records(begun, round % 3)}, in, out1_dev, round, 8));
        CK(cudaEventRecord(ended, a));
        CK(cudaEventSynchronize(begun));                     // not more than that it has begun
        for (uint32_t turn = 0; turn < 3; turn++) {
            for (int i = turn; i < N; i += 5) in2[i] = mix(out2[i] + i * round);
            for (int i = 0; i < N; i++) model[i] = model[i] * 3 + mix(in2[i] ^ round);
            CK(launch(quick, 8, b, {domain(turn == 1), priority(-1)}, in2_dev, out2_dev, table, round));
            CK(cudaStreamSynchronize(b));
            for (int i = 0; i < N; i++) wrong += out2[i] != model[i];
        }
        CK(cudaEventSynchronize(ended));
        for (int i = 0; i < N; i++) wrong += out1[i] != mix(first[i] + round);
        memset(out1, 0, N * 4);
    }
    digest(model);
    CK(cudaFree(in)); CK(cudaFree(table)); CK(cudaFreeHost(out1)); CK(cudaFreeHost(out2)); CK(cudaFreeHost(in2));
    CK(cudaStreamDestroy(a)); CK(cudaStreamDestroy(b)); CK(cudaEventDestroy(begun)); CK(cudaEventDestroy(ended));
}

static void captured() {
    uint32_t *in, *mid, *out; cudaStream_t a = plain_stream(), b = plain_stream(); cudaEvent_t fork = plain_event(), join = plain_event();
    CK(cudaMalloc(&in, N * 4)); CK(cudaMalloc(&mid, N * 4)); CK(cudaMalloc(&out, N * 4));
    std::vector<uint32_t> first(N), model(N, 0), back(N); for (int i = 0; i < N; i++) first[i] = mix(i + 5);
    CK(cudaMemcpy(in, first.data(), N * 4, cudaMemcpyHostToDevice)); CK(cudaMemset(out, 0, N * 4)); CK(cudaDeviceSynchronize());
    cudaGraph_t g = nullptr; cudaGraphExec_t exec = nullptr;
    CK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    bool fine = launch(first_half, 8, a, {records(fork, 1)}, in, mid) == cudaSuccess && cudaStreamWaitEvent(b, fork, 0) == cudaSuccess &&
        launch(second_half, 8, b, {}, mid, out) == cudaSuccess && cudaEventRecord(join, b) == cudaSuccess && cudaStreamWaitEvent(a, join, 0) == cudaSuccess;
    fine = cudaStreamEndCapture(a, &g) == cudaSuccess && fine;
    fine = fine && cudaGraphInstantiate(&exec, g, 0) == cudaSuccess;
    cudaGetLastError();
    if (!fine) printf("skipped: a graph with a programmatic event\n");
    for (int turn = 0; fine && turn < 5; turn++) {
        CK(cudaGraphLaunch(exec, a));
        for (int i = 0; i < N; i++) model[i] += mix(first[N - 1 - i] * 7 + 1);
    }
    CK(cudaStreamSynchronize(a)); CK(cudaStreamSynchronize(b));
    CK(cudaMemcpy(back.data(), out, N * 4, cudaMemcpyDeviceToHost));
    wrong += back != model; digest(back);
    if (exec) CK(cudaGraphExecDestroy(exec));
    if (g) CK(cudaGraphDestroy(g));
    CK(cudaFree(in)); CK(cudaFree(mid)); CK(cudaFree(out)); CK(cudaStreamDestroy(a)); CK(cudaStreamDestroy(b)); CK(cudaEventDestroy(fork)); CK(cudaEventDestroy(join));
}

// Two graphs, each of which waits for an event that the other one records.
static void ping_pong() {
    uint32_t *ball[2], *round, n = 3000; cudaStream_t s[2] = {plain_stream(), plain_stream()}; cudaEvent_t hit[2] = {plain_event(), plain_event()};
    cudaGraphExec_t exec[2];
    for (auto &p : ball) { CK(cudaMalloc(&p, n * 4)); CK(cudaMemset(p, 0, n * 4)); }
    CK(cudaMalloc(&round, 4)); CK(cudaMemset(round, 0, 4)); CK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++) {
        cudaGraph_t g;
        CK(cudaStreamBeginCapture(s[i], cudaStreamCaptureModeThreadLocal));
        CK(cudaStreamWaitEvent(s[i], hit[!i], cudaEventWaitExternal));
        add_round<<<6, 128, 0, s[i]>>>(ball[!i], ball[i], n, round);
        next_round<<<1, 1, 0, s[i]>>>(round);
        CK(cudaGetLastError());
        CK(cudaEventRecordWithFlags(hit[i], s[i], cudaEventRecordExternal));
        CK(cudaStreamEndCapture(s[i], &g)); CK(cudaGraphInstantiate(&exec[i], g, 0)); CK(cudaGraphDestroy(g));
    }
    std::vector<uint32_t> model[2] = {std::vector<uint32_t>(n, 0), std::vector<uint32_t>(n, 0)}, back(n);
    for (uint32_t r = 0; r < 60; r++) {
        int i = r & 1;
        CK(cudaGraphLaunch(exec[i], s[i]));
        for (uint32_t j = 0; j < n; j++) model[i][j] = mix(model[!i][(j + 1) % n] + r);
    }
    CK(cudaEventSynchronize(hit[1])); CK(cudaStreamSynchronize(s[0])); CK(cudaStreamSynchronize(s[1]));
    for (int i = 0; i < 2; i++) { CK(cudaMemcpy(back.data(), ball[i], n * 4, cudaMemcpyDeviceToHost)); wrong += back != model[i]; digest(back); }
    for (int i = 0; i < 2; i++) { CK(cudaGraphExecDestroy(exec[i])); CK(cudaFree(ball[i])); CK(cudaStreamDestroy(s[i])); CK(cudaEventDestroy(hit[i])); }
    CK(cudaFree(round));
}

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    side_by_side();
    begun_not_done();
    captured();
    ping_pong();
    uint32_t given_up = 1; CK(cudaMemcpyFromSymbol(&given_up, gave_up, 4)); wrong += given_up != 0;
    printf("launchevents: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
