// Programs that never ask whether work is done, but know: because a free waits for the device, or a copy in the legacy stream does, or a word
// that a second copy brings has changed, or a host function has set a flag. The CPU reads the results at once, puts them back to what they were,
// and writes the next input over the one that the kernel has just read.
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

constexpr uint32_t WORDS = 1700, ROUNDS = 90;
enum Way { FREE, FREE_HOST, FREE_MANAGED, FREE_ARRAY, UNREGISTER, COPY, SYMBOL, SECOND_COPY, HOST_FUNCTION, FLAG_ONLY, WAYS };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__device__ uint32_t settings[4];
// One block: sleeps, reads its input late, writes its results, and last of all the flag.
__global__ void late(const uint32_t *in, uint32_t *state, uint32_t *out, uint32_t n, uint32_t round, volatile uint32_t *flag) {
    for (int i = 0; i < 3; i++) __nanosleep(200000);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = state[i] = state[i] * 3 + mix(in[i] + round + settings[1]);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) *flag = round + 1;
}
static bool await(const uint32_t *flag, uint32_t value) {                    // no call here
    auto began = std::chrono::steady_clock::now();
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
        if (std::chrono::steady_clock::now() - began > std::chrono::seconds(15)) return false;
    return true;
}
static void CUDART_CB tell(void *p) { ((std::atomic<uint32_t> *)p)->fetch_add(1, std::memory_order_release); }

// Input, results and flag are mapped, in one allocation or in three. `only`: one way all the time, or all in turn.
static uint64_t work(bool apart, int only, int *wrong) {
    uint32_t *in, *out, *flag, *dev_in, *dev_out, *dev_flag, *state, *near_out, *near_flag; char *heap; cudaStream_t stream; std::atomic<uint32_t> told{0};
    uint32_t asked = 0; uint64_t sum = 14695981039346656037ull;
    CK(cudaStreamCreate(&stream));                          // a blocking one: the legacy stream waits for it
    if (apart) {
        CK(cudaHostAlloc(&in, WORDS * 4, cudaHostAllocMapped)); CK(cudaHostAlloc(&out, WORDS * 4, cudaHostAllocMapped)); CK(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
    } else {
        CK(cudaHostAlloc(&in, (2 * WORDS + 16) * 4, cudaHostAllocMapped)); out = in + WORDS; flag = out + WORDS + 5;
    }
    CK(cudaHostGetDevicePointer(&dev_in, in, 0));
    if (apart) { CK(cudaHostGetDevicePointer(&dev_out, out, 0)); CK(cudaHostGetDevicePointer(&dev_flag, flag, 0)); }
    else { dev_out = dev_in + WORDS; dev_flag = dev_out + WORDS + 5; }
    CK(cudaMalloc(&state, WORDS * 4)); CK(cudaMalloc(&near_out, WORDS * 4)); CK(cudaMalloc(&near_flag, 4));
    CK(cudaMemset(state, 0, WORDS * 4)); CK(cudaMemset(near_flag, 0, 4));
    heap = (char *)aligned_alloc(4096, 8192); memset(heap, 1, 8192);
    uint32_t zeros[4] = {}; CK(cudaMemcpyToSymbol(settings, zeros, sizeof zeros));
    *flag = 0; memset(out, 0, WORDS * 4);
    std::vector<uint32_t> model(WORDS, 0), back(WORDS); uint32_t setting = 0;
    for (uint32_t i = 0; i < WORDS; i++) in[i] = mix(i + only * 31 + apart);
    CK(cudaDeviceSynchronize());
    for (uint32_t r = 0; r < (only == WAYS ? ROUNDS : ROUNDS / 6); r++) {
        int way = only == WAYS ? (int)(mix(r) % WAYS) : only; uint32_t n = WORDS - r % 31, word = 0;
        void *mine = nullptr; cudaArray_t array = nullptr;
        if (way == FREE) CK(cudaMalloc(&mine, 4096 + r * 512));
        if (way == FREE_HOST) CK(cudaMallocHost(&mine, 4096 + r * 512));
        if (way == FREE_MANAGED) CK(cudaMallocManaged(&mine, 1 << 20));
        if (way == FREE_ARRAY) { cudaChannelFormatDesc d = cudaCreateChannelDesc<float>(); CK(cudaMallocArray(&array, &d, 64, 64)); }
        if (way == UNREGISTER) CK(cudaHostRegister(heap, 8192, cudaHostRegisterDefault));
        late<<<1, 512, 0, stream>>>(dev_in, state, way == SECOND_COPY ? near_out : dev_out, n, r, way == SECOND_COPY ? near_flag : dev_flag);
        CK(cudaGetLastError());
        for (uint32_t i = 0; i < n; i++) model[i] = model[i] * 3 + mix(in[i] + r + setting);
        switch (way) {
        case FREE: case FREE_MANAGED: CK(cudaFree(mine)); break;
        case FREE_HOST: CK(cudaFreeHost(mine)); break;
        case FREE_ARRAY: CK(cudaFreeArray(array)); break;
        case UNREGISTER: CK(cudaHostUnregister(heap)); break;
        case COPY: CK(cudaMemcpy(&word, state + r, 4, cudaMemcpyDeviceToHost)); *wrong += word != model[r]; break;
        case SYMBOL: setting = mix(r); CK(cudaMemcpyToSymbol(settings, &setting, 4, 4)); break;
        case SECOND_COPY:
            CK(cudaMemcpyAsync(out, near_out, n * 4, cudaMemcpyDeviceToHost, stream));
            CK(cudaMemcpyAsync(flag, near_flag, 4, cudaMemcpyDeviceToHost, stream));
            break;
        case HOST_FUNCTION:
            asked++; CK(cudaLaunchHostFunc(stream, tell, &told));
            while (told.load(std::memory_order_acquire) != asked) std::this_thread::yield();
            break;
        }
        if (!await(flag, r + 1)) { fprintf(stderr, "round %u, way %d: the flag does not come\n", r, way); fflush(nullptr); _Exit(3); }
        for (uint32_t i = 0; i < n; i++) { *wrong += out[i] != model[i]; sum = (sum ^ out[i]) * 1099511628211ull; }
        uint32_t pick = out[r];
        for (uint32_t i = pick % 7; i < WORDS; i += 2 + pick % 5) in[i] = mix(in[i] + pick);
        memset(out, 0, WORDS * 4);                          // as it was
        __atomic_store_n(flag, 0u, __ATOMIC_RELEASE);
    }
    CK(cudaMemcpyAsync(back.data(), state, WORDS * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
    *wrong += back != model;
    for (uint32_t v : back) sum = (sum ^ v) * 1099511628211ull;
    CK(cudaFreeHost(in));
    if (apart) { CK(cudaFreeHost(out)); CK(cudaFreeHost(flag)); }
    CK(cudaFree(state)); CK(cudaFree(near_out)); CK(cudaFree(near_flag)); CK(cudaStreamDestroy(stream)); free(heap);
    return sum;
}

int main() {
    static const char *names[] = {"free", "free of pinned memory", "free of managed memory", "free of an array", "unregistering", "copy", "copy to a symbol",
        "second copy", "host function", "flag only", "all in turn"};
    uint64_t checksum = 0; int wrong = 0;
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    for (int apart = 0; apart < 2; apart++)
        for (int way = 0; way <= WAYS; way++) {
            int w = 0; uint64_t sum = work(apart, way, &w);
            checksum = checksum * 1099511628211ull + sum; wrong += w;
            printf("%-24s %016llx wrong %d\n", names[way], (unsigned long long)sum, w);
        }
    printf("quietwaits: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
