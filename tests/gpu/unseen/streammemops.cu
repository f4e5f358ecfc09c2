// nvcc: DRIVER
// Streams that wait for words in memory which other streams write, batches of such operations, events recorded with flags,
// priorities, and chains of host functions and callbacks that write pinned memory which later kernels read.
#include <cuda.h>
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

constexpr uint32_t N = 8192, ROUNDS = 20;
__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
__global__ void stir(uint32_t *p, uint32_t n, uint32_t k) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(p[i], k); }
__global__ void keyed(uint32_t *p, uint32_t n, const volatile uint32_t *key) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(p[i], key[i % 16]); }

static std::atomic<int> wrong{0};
static CUcontext context; static CUfunction stir_f, keyed_f;
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
template <class... A> static void launch(CUfunction f, CUstream s, A... a) { void *args[] = {&a...}; CU(cuLaunchKernel(f, N / 256, 1, 1, 256, 1, 1, 0, s, args, nullptr)); }
static uint64_t fold(const std::vector<uint32_t> &v) { uint64_t h = 14695981039346656037ull; for (uint32_t x : v) h = (h ^ x) * 1099511628211ull; return h; }

// 1. Two streams that take turns upon one buffer by flags in memory. Each wait is enqueued after the write that ends it.
static uint64_t turns(bool pinned_flags) {
    CUstream a, b; int least, greatest; CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    CU(cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, greatest)); CU(cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, least));
    int p = 99; unsigned flags = 0; CU(cuStreamGetPriority(a, &p)); wrong += p != greatest; CU(cuStreamGetFlags(b, &flags)); wrong += flags != CU_STREAM_NON_BLOCKING;
    CUdeviceptr data, flag; uint32_t *host_flag = nullptr;
    CU(cuMemAlloc(&data, N * 4)); CU(cuMemsetD32(data, 5, N));
    if (pinned_flags) { CU(cuMemHostAlloc((void **)&host_flag, 64, CU_MEMHOSTALLOC_DEVICEMAP)); memset(host_flag, 0, 64); CU(cuMemHostGetDevicePointer(&flag, host_flag, 0)); }
    else { CU(cuMemAlloc(&flag, 64)); CU(cuMemsetD8(flag, 0, 64)); }
    CU(cuCtxSynchronize());
    std::vector<uint32_t> ref(N, 5), back(N);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        launch(stir_f, a, data, N, round);
        CU(cuStreamWriteValue32(a, flag, round + 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CU(cuStreamWaitValue32(b, flag, round + 1, round % 2 ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ));
        launch(stir_f, b, data, N, round * 3 + 1);
        CU(cuStreamWriteValue64(b, flag + 8, 0x100000000ull + round, 0));
        CU(cuStreamWaitValue64(a, flag + 8, 0x100000000ull + round, CU_STREAM_WAIT_VALUE_EQ));
        if (round % 4 == 3) {                               // both directions in a batch: two writes by a, two waits by b
            launch(stir_f, a, data, N, 1234u);
            CUstreamBatchMemOpParams ops[2]; memset(ops, 0, sizeof ops);
            for (int i = 0; i < 2; i++) { ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32; ops[i].writeValue.address = flag + 16 + i * 4; ops[i].writeValue.value = (round + 1) << i; }
            CU(cuStreamBatchMemOp(a, 2, ops, 0));
            memset(ops, 0, sizeof ops);
            ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32; ops[0].waitValue.address = flag + 16; ops[0].waitValue.value = round + 1; ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
            ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32; ops[1].waitValue.address = flag + 20; ops[1].waitValue.value = (round + 1) << 1; ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
            CU(cuStreamBatchMemOp(b, 2, ops, 0));
            launch(stir_f, b, data, N, 4321u);
            CU(cuStreamWriteValue32(b, flag + 24, 7 + round, 0)); CU(cuStreamWaitValue32(a, flag + 24, 7 + round, CU_STREAM_WAIT_VALUE_EQ));
        }
        for (auto &v : ref) { v = mix(mix(v, round), round * 3 + 1); if (round % 4 == 3) v = mix(mix(v, 1234), 4321); }
    }
    CU(cuMemcpyDtoHAsync(back.data(), data, N * 4, a)); CU(cuStreamSynchronize(a)); CU(cuStreamSynchronize(b));
    wrong += back != ref;
    uint32_t last[16]; if (pinned_flags) memcpy(last, host_flag, 64); else { CU(cuMemcpyDtoH(last, flag, 64)); }
    wrong += last[0] != ROUNDS || last[2] != ROUNDS - 1 || last[3] != 1 || last[4] != ROUNDS || last[5] != 2 * ROUNDS || last[6] != 7 + ROUNDS - 1 || last[7] != 0;
    if (host_flag) CU(cuMemFreeHost(host_flag)); else CU(cuMemFree(flag));
    CU(cuMemFree(data)); CU(cuStreamDestroy(a)); CU(cuStreamDestroy(b));
    return fold(back);
}

// 2. Keys made on the CPU in stream order: a host function, or a callback, writes what the next kernel reads by a mapped pointer.
struct Keys { uint32_t *pinned; uint32_t *seen; uint32_t state; };
static void CUDA_CB advance(void *data) { Keys *k = (Keys *)data; for (int i = 0; i < 16; i++) { k->state = mix(k->state, i); k->pinned[i] = k->state ^ k->seen[i]; } }
static void CUDA_CB advance_callback(CUstream, CUresult status, void *data) { if (status != CUDA_SUCCESS) wrong++; advance(data); }
static uint64_t keys(uint32_t id) {
    CU(cuCtxSetCurrent(context));
    CUstream s; CU(cuStreamCreate(&s, id % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    CUdeviceptr data, mapped; uint32_t *pinned; CU(cuMemAlloc(&data, N * 4)); CU(cuMemHostAlloc((void **)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CU(cuMemHostGetDevicePointer(&mapped, pinned, 0)); memset(pinned, 0, 4096);
    CUevent begin, end; CU(cuEventCreate(&begin, CU_EVENT_DEFAULT)); CU(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
    Keys live = {pinned, pinned + 64, id}, model; std::vector<uint32_t> model_pinned(128, 0), ref(N, id), back(N);
    model = {model_pinned.data(), model_pinned.data() + 64, id};
    CU(cuMemsetD32Async(data, id, N, s)); CU(cuEventRecordWithFlags(begin, s, CU_EVENT_RECORD_DEFAULT));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (round % 3) CU(cuLaunchHostFunc(s, advance, &live)); else CU(cuStreamAddCallback(s, advance_callback, &live, 0));
        if (round % 5 == 2) CU(cuLaunchHostFunc(s, advance, &live));        // one after another
        launch(keyed_f, s, data, N, mapped);
        CU(cuMemcpyDtoHAsync(pinned + 64, data + round * 64, 64, s));       // into the same page; the next function reads it
        advance(&model); if (round % 5 == 2) advance(&model);
        for (uint32_t i = 0; i < N; i++) ref[i] = mix(ref[i], model_pinned[i % 16]);
        memcpy(&model_pinned[64], &ref[round * 16], 64);
    }
    CU(cuEventRecordWithFlags(end, s, CU_EVENT_RECORD_DEFAULT));
    CU(cuEventSynchronize(end));
    float ms = -1; CU(cuEventElapsedTime(&ms, begin, end)); wrong += !(ms >= 0);
    CU(cuMemcpyDtoHAsync(back.data(), data, N * 4, s)); CU(cuStreamSynchronize(s));
    wrong += back != ref; wrong += memcmp(pinned, model_pinned.data(), 512) != 0; wrong += live.state != model.state;
    CU(cuMemFree(data)); CU(cuMemFreeHost(pinned)); CU(cuEventDestroy(begin)); CU(cuEventDestroy(end)); CU(cuStreamDestroy(s));
    return fold(back);
}

// 3. A flag that a host function's stream raises: the function fills the table, the stream's write lets the other stream go.
struct Fill { uint32_t *p; uint32_t k; };
static void CUDA_CB fill_table(void *data) { Fill *f = (Fill *)data; for (int i = 0; i < 16; i++) f->p[i] = mix(i, f->k); }
static uint64_t gate() {
    CUstream a, b; CU(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)); CU(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    uint32_t *pinned; CUdeviceptr data, flag, mapped; CU(cuMemAlloc(&data, N * 4)); CU(cuMemAlloc(&flag, 4)); CU(cuMemsetD32(flag, 0, 1)); CU(cuMemsetD32(data, 1, N));
    CU(cuMemHostAlloc((void **)&pinned, 64 * 16, CU_MEMHOSTALLOC_DEVICEMAP)); CU(cuMemHostGetDevicePointer(&mapped, pinned, 0)); CU(cuCtxSynchronize());
    std::vector<Fill> fills(16); std::vector<uint32_t> ref(N, 1), back(N); CUevent external; CU(cuEventCreate(&external, CU_EVENT_DISABLE_TIMING));
    for (uint32_t i = 0; i < 16; i++) {
        fills[i] = {pinned + i * 16, i * 3};
        CU(cuLaunchHostFunc(a, fill_table, &fills[i]));
        CU(cuStreamWriteValue32(a, flag, 1u << i, 0));
        if (i % 4 == 3) { CU(cuEventRecord(external, a)); CU(cuStreamWaitEvent(b, external, CU_EVENT_WAIT_DEFAULT)); }
        else { CU(cuStreamWaitValue32(b, flag, 1u << i, CU_STREAM_WAIT_VALUE_GEQ)); }        // later values are greater, too
        launch(keyed_f, b, data, N, mapped + i * 64);
        for (uint32_t j = 0; j < N; j++) ref[j] = mix(ref[j], mix(j % 16, i * 3));
    }
    CU(cuStreamSynchronize(b)); CU(cuStreamSynchronize(a));
    CU(cuMemcpyDtoH(back.data(), data, N * 4)); wrong += back != ref;
    CU(cuMemFree(data)); CU(cuMemFree(flag)); CU(cuMemFreeHost(pinned)); CU(cuEventDestroy(external)); CU(cuStreamDestroy(a)); CU(cuStreamDestroy(b));
    return fold(back);
}

int main() {
    CU(cuInit(0));
    CUdevice device; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    int wide = 0; CU(cuDeviceGetAttribute(&wide, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device)); wrong += !wide;
    stir_f = function((const void *)stir); keyed_f = function((const void *)keyed);
    uint64_t sum = turns(false) * 3 + turns(true) * 5, parts[3];
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 3; i++) threads.emplace_back([&, i] { parts[i] = keys(i); });
    for (auto &t : threads) t.join();
    for (uint64_t p : parts) sum = sum * 31 + p;
    sum = sum * 7 + gate();
    printf("streammemops: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
