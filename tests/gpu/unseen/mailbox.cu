// A command processor: one kernel that runs as long as the program does. Each block serves one client thread by a ring in mapped
// memory; payloads come over the bus, or by copies in the clients' own streams while the kernel runs, results go back likewise.
// One block is rung by a doorbell in device memory that the host sets by a copy. A block that hears nothing for long gives up.
#include <cuda_runtime.h>
#include <cuda/atomic>
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

constexpr int CLIENTS = 4, SLOTS = 4, WORDS = 1500, COMMANDS = 60;
constexpr unsigned long long PATIENCE = 8000000000ull;      // nanoseconds
enum : uint32_t { STOP = 0, HASH_MAPPED = 1, HASH_DEVICE = 2, ACCUMULATE = 3 };

struct Command { uint32_t what, argument, count, pad; uint32_t *source, *result; };         // device pointers
struct Ring { Command commands[SLOTS]; uint32_t tail, pad1[31], head, pad2[31]; uint64_t answers[SLOTS]; };    // tail by the host, head by the GPU
using SystemAtomic = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__device__ inline unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ uint32_t gave_up;

__global__ void processor(Ring *rings, uint32_t *doorbell, uint32_t *accumulators) {
    const int me = blockIdx.x, t = threadIdx.x;
    Ring *ring = rings + me;
    uint32_t *mine = accumulators + me * WORDS;
    __shared__ Command command;
    __shared__ int alive;
    __shared__ unsigned long long partial[256];
    for (uint32_t head = 0;; head++) {
        if (t == 0) {
            alive = 1;
            // The last client rings by a copy to device memory, the others by a store to mapped memory.
            SystemAtomic tail(me == CLIENTS - 1 ? *doorbell : ring->tail);
            for (unsigned long long began = now(); tail.load(cuda::memory_order_acquire) == head;) {
                if (now() - began > PATIENCE) { alive = 0; atomicAdd(&gave_up, 1); break; }
                __nanosleep(200);
            }
            if (alive) {
                const volatile Command *c = &ring->commands[head % SLOTS];
                command.what = c->what; command.argument = c->argument; command.count = c->count; command.source = c->source; command.result = c->result;
                if (command.what == STOP) alive = 0;
            }
            __threadfence_system();
        }
        __syncthreads();
        if (!alive) return;
        const volatile uint32_t *source = command.source;
        unsigned long long h = 0;
        for (uint32_t i = t; i < command.count; i += blockDim.x) {
            uint32_t v = mix(source[i] + command.argument);
            if (command.what == ACCUMULATE) v = mine[i] = mine[i] * 3 + v;
            command.result[i] = v;
            h += (unsigned long long)v * (i + 1);
        }
        partial[t] = h;
        __threadfence_system();
        __syncthreads();
        if (t == 0) {
            for (int i = 1; i < (int)blockDim.x; i++) h += partial[i];
            ring->answers[head % SLOTS] = h;
            __threadfence_system();
            SystemAtomic(ring->head).store(head + 1, cuda::memory_order_release);
        }
        __syncthreads();
    }
}
__global__ void warm_up(uint32_t *p, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = i; }

static std::atomic<int> wrong{0};
static uint64_t sums[CLIENTS];

struct Client {
    int id; Ring *ring; uint32_t *doorbell;                 // device memory, or null
    uint32_t *mapped, *mapped_device, *pinned, *staged, *results, *bell, *back; cudaStream_t up, down;
    void prepare(int i, Ring *rings, uint32_t *doorbell_device) {
        id = i; ring = rings + i; doorbell = i == CLIENTS - 1 ? doorbell_device : nullptr;
        CK(cudaHostAlloc(&mapped, SLOTS * WORDS * 4, cudaHostAllocMapped)); CK(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
        CK(cudaHostAlloc(&pinned, SLOTS * WORDS * 4, cudaHostAllocDefault)); CK(cudaMallocHost(&bell, SLOTS * 4)); CK(cudaMallocHost(&back, WORDS * 4));
        CK(cudaMalloc(&staged, SLOTS * WORDS * 4)); CK(cudaMalloc(&results, SLOTS * WORDS * 4)); CK(cudaMemset(results, 0, SLOTS * WORDS * 4));
        CK(cudaStreamCreateWithFlags(&up, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&down, cudaStreamNonBlocking));
        // All copies and their code are ready before the long kernel starts.
        CK(cudaMemcpyAsync(staged, pinned, 64, cudaMemcpyHostToDevice, up)); CK(cudaMemcpyAsync(back, results, 64, cudaMemcpyDeviceToHost, down));
        CK(cudaStreamSynchronize(up)); CK(cudaStreamSynchronize(down));
    }
    void ring_up_to(uint32_t tail) {
        if (doorbell) {
            bell[tail % SLOTS] = tail;
            CK(cudaMemcpyAsync(doorbell, bell + tail % SLOTS, 4, cudaMemcpyHostToDevice, up)); CK(cudaStreamSynchronize(up));
        } else SystemAtomic(ring->tail).store(tail, cuda::memory_order_release);
    }
    void wait(uint32_t until) {
        auto began = std::chrono::steady_clock::now();
        while ((int32_t)(SystemAtomic(ring->head).load(cuda::memory_order_acquire) - until) < 0) {
            std::this_thread::yield();
            if (std::chrono::steady_clock::now() - began > std::chrono::seconds(20)) { fprintf(stderr, "client %d: no answer\n", id); exit(3); }
        }
    }
    void run() {
        CK(cudaSetDevice(0));
        struct Pending { uint64_t answer; std::vector<uint32_t> words; } pending[SLOTS];
        std::vector<uint32_t> accumulated(WORDS, 0);
        uint64_t sum = 14695981039346656037ull;
        auto harvest = [&](uint32_t n) {                    // the answer to command n, and sometimes its words
            int slot = n % SLOTS; Pending &p = pending[slot];
            wait(n + 1);
            uint64_t answer = *(volatile uint64_t *)&ring->answers[slot];
            wrong += answer != p.answer; sum = (sum ^ answer) * 1099511628211ull;
            if (n % 5 == 2) {
                CK(cudaMemcpyAsync(back, results + slot * WORDS, p.words.size() * 4, cudaMemcpyDeviceToHost, down)); CK(cudaStreamSynchronize(down));
                wrong += memcmp(back, p.words.data(), p.words.size() * 4) != 0;
                for (size_t i = 0; i < p.words.size(); i += 17) sum = (sum ^ back[i]) * 1099511628211ull;
            }
        };
        uint32_t previous = id;                             // what the next command asks depends on the last answer's words
        for (uint32_t n = 0; n < COMMANDS; n++) {
            int slot = n % SLOTS;
            if (n >= SLOTS) harvest(n - SLOTS);
            uint32_t what = 1 + mix(n * 4 + id) % 3, argument = mix(previous + n), count = WORDS - n % 37 * 11;
            uint32_t *words = what == HASH_MAPPED ? mapped + slot * WORDS : pinned + slot * WORDS;
            for (uint32_t i = 0; i < count; i++) words[i] = mix(n * 100000 + id * 10000000 + i);
            Pending &p = pending[slot]; p.words.resize(count); p.answer = 0;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t v = mix(words[i] + argument);
                if (what == ACCUMULATE) v = accumulated[i] = accumulated[i] * 3 + v;
                p.words[i] = v; p.answer += (uint64_t)v * (i + 1);
            }
            Command &c = ring->commands[slot];
            c.what = what; c.argument = argument; c.count = count; c.result = results + slot * WORDS;
            if (what == HASH_MAPPED) c.source = mapped_device + slot * WORDS;
            else {
                c.source = staged + slot * WORDS;
                CK(cudaMemcpyAsync(c.source, words, count * 4, cudaMemcpyHostToDevice, up)); CK(cudaStreamSynchronize(up));
            }
            ring_up_to(n + 1);
            if (n % 7 == 6) { wait(n + 1); previous = (uint32_t)*(volatile uint64_t *)&ring->answers[slot]; }
        }
        for (uint32_t n = COMMANDS - SLOTS; n < COMMANDS; n++) harvest(n);
        ring->commands[COMMANDS % SLOTS].what = STOP;
        ring_up_to(COMMANDS + 1);
        sums[id] = sum;
    }
    void finish() {
        CK(cudaFreeHost(mapped)); CK(cudaFreeHost(pinned)); CK(cudaFreeHost(bell)); CK(cudaFreeHost(back)); CK(cudaFree(staged)); CK(cudaFree(results));
        CK(cudaStreamDestroy(up)); CK(cudaStreamDestroy(down));
    }
};

int main() {
    Ring *rings, *rings_device; uint32_t *doorbell, *accumulators; cudaStream_t stream; Client clients[CLIENTS];
    CK(cudaSetDeviceFlags(cudaDeviceMapHost));
    CK(cudaHostAlloc(&rings, sizeof(Ring) * CLIENTS, cudaHostAllocMapped | cudaHostAllocPortable)); CK(cudaHostGetDevicePointer(&rings_device, rings, 0));
    memset(rings, 0, sizeof(Ring) * CLIENTS);
    CK(cudaMalloc(&doorbell, 4)); CK(cudaMalloc(&accumulators, CLIENTS * WORDS * 4));
    CK(cudaMemset(doorbell, 0, 4)); CK(cudaMemset(accumulators, 0, CLIENTS * WORDS * 4));
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < CLIENTS; i++) clients[i].prepare(i, rings, doorbell);
    warm_up<<<1, 32, 0, stream>>>(accumulators, 0); CK(cudaGetLastError());
    cudaFuncAttributes attributes; CK(cudaFuncGetAttributes(&attributes, processor));      // loaded now, not later
    uint32_t given_up = 1; CK(cudaMemcpyFromSymbol(&given_up, gave_up, 4)); wrong += given_up != 0;
    CK(cudaDeviceSynchronize());
    for (int session = 0; session < 2; session++) {         // the kernel is started twice, with the same rings
        processor<<<CLIENTS, 256, 0, stream>>>(rings_device, doorbell, accumulators);
        CK(cudaGetLastError());
        std::vector<std::thread> threads;
        for (auto &c : clients) threads.emplace_back([&c] { c.run(); });
        for (auto &t : threads) t.join();
        CK(cudaStreamSynchronize(stream));
        static uint64_t total = 14695981039346656037ull;
        for (uint64_t s : sums) total = (total ^ s) * 1099511628211ull;
        std::vector<uint32_t> words(CLIENTS * WORDS); CK(cudaMemcpy(words.data(), accumulators, words.size() * 4, cudaMemcpyDeviceToHost));
        for (uint32_t w : words) total = (total ^ w) * 1099511628211ull;
        CK(cudaMemcpyFromSymbol(&given_up, gave_up, 4)); wrong += given_up != 0;
        memset(rings, 0, sizeof(Ring) * CLIENTS); CK(cudaMemset(doorbell, 0, 4)); CK(cudaMemset(accumulators, 0, CLIENTS * WORDS * 4));
        CK(cudaDeviceSynchronize());
        if (session == 1) {
            for (auto &c : clients) c.finish();
            CK(cudaFreeHost(rings)); CK(cudaFree(doorbell)); CK(cudaFree(accumulators)); CK(cudaStreamDestroy(stream));
            printf("mailbox: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
        }
    }
    return wrong != 0;
}
