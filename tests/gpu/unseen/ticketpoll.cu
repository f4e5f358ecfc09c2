// An order desk that never waits by a call: kernels take tickets in mapped memory and the last block rings a bell there; the CPU sees it, reads
// the fills and the blocks' logs, and puts everything back to zero, tickets and bell included, before it asks again. Two desks share pages.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int DESKS = 2, BLOCKS = 12, THREADS = 96, ORDERS = 1380, TICKS = 300, LOG = 9;
struct alignas(64) Desk {            // mapped; all but the orders are zero between two ticks
    uint32_t ticket, pad1[15], bell, pad2[15];
    uint64_t total, fills[BLOCKS];
    uint32_t log[BLOCKS][LOG];
    uint32_t orders[ORDERS];
};

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__host__ __device__ inline uint32_t fill_of(uint32_t order, uint32_t book, uint32_t tick) { return mix(order * 3 + book + tick); }

// Not every tick rings when the blocks are done with it: in `trades` a tick stands for several, and only the last one rings.
__global__ void trade(Desk *desk, uint32_t *book, uint32_t *stale, uint32_t tick, uint32_t part, uint32_t parts) {
    __shared__ unsigned long long sum;
    const int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) sum = 0;
    __syncthreads();
    for (int i = b * THREADS + t; i < ORDERS; i += BLOCKS * THREADS) {
        uint32_t v = fill_of(desk->orders[i], book[i], tick);
        book[i] = book[i] * 5 + v;
        atomicAdd(&sum, (unsigned long long)v * (i + 1));
    }
    __syncthreads();
    if (t != 0) return;
    volatile Desk *d = desk;
    if (part == 0 && d->fills[b] != 0) atomicAdd(stale, 1u);
    d->fills[b] = d->fills[b] + sum;
    for (uint32_t j = 0; j < tick % LOG + 1; j++) {
        if (part == 0 && d->log[b][j] != 0) atomicAdd(stale, 1u);            // the slot is not free
        d->log[b][j] = d->log[b][j] + ((uint32_t)sum | 1) + j;
    }
    __threadfence_system();
    uint32_t mine = atomicAdd(&desk->ticket, 1u);
    if (mine != parts * BLOCKS - 1) return;                                  // only the last block of the last part goes on
    __threadfence_system();
    unsigned long long total = tick;
    for (int i = 0; i < BLOCKS; i++) total = total * 1099511628211ull + d->fills[i];
    d->total = total;
    __threadfence_system();
    d->bell = tick + 1;
}

static void await(const uint32_t *bell, uint32_t value, int who) {           // no call here
    auto began = std::chrono::steady_clock::now();
    while (__atomic_load_n(bell, __ATOMIC_ACQUIRE) != value)
        if (std::chrono::steady_clock::now() - began > std::chrono::seconds(15)) {
            fprintf(stderr, "desk %d: nobody rings\n", who); fflush(nullptr); _Exit(3);
        }
}

struct Result { uint64_t sum = 14695981039346656037ull; int wrong = 0; uint32_t stale = 0; };

static void work(int who, Desk *desk, Desk *desk_dev, Result *result) {
    CK(cudaSetDevice(0));
    cudaStream_t stream; uint32_t *book, *stale;
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaMalloc(&book, ORDERS * 4)); CK(cudaMalloc(&stale, 4));
    CK(cudaMemsetAsync(book, 0, ORDERS * 4, stream)); CK(cudaMemsetAsync(stale, 0, 4, stream));
    std::vector<uint32_t> model(ORDERS, 0), back(ORDERS);
    uint64_t last = who;
    for (int i = 0; i < ORDERS; i++) desk->orders[i] = mix(i + who * 5000);
    for (uint32_t tick = 0; tick < TICKS; tick++) {
        uint32_t parts = 1 + tick % 7 / 5;                                  // now and then two launches stand for one tick
        for (uint32_t part = 0; part < parts; part++) trade<<<BLOCKS, THREADS, 0, stream>>>(desk_dev, book, stale, tick, part, parts);
        CK(cudaGetLastError());
        uint64_t fills[BLOCKS] = {}; uint32_t log[BLOCKS][LOG] = {};
        for (uint32_t part = 0; part < parts; part++) {
            uint64_t sums[BLOCKS] = {};
            for (int i = 0; i < ORDERS; i++) {
                uint32_t v = fill_of(desk->orders[i], model[i], tick);
                model[i] = model[i] * 5 + v; sums[i / THREADS % BLOCKS] += (uint64_t)v * (i + 1);
            }
            for (int b = 0; b < BLOCKS; b++) {
                fills[b] += sums[b];
                for (uint32_t j = 0; j < tick % LOG + 1; j++) log[b][j] += ((uint32_t)sums[b] | 1) + j;
            }
        }
        uint64_t total = tick;
        for (int b = 0; b < BLOCKS; b++) total = total * 1099511628211ull + fills[b];
        await(&desk->bell, tick + 1, who);
        result->wrong += desk->total != total || memcmp(desk->fills, fills, sizeof fills) != 0 || memcmp(desk->log, log, sizeof log) != 0;
        result->sum = (result->sum ^ desk->total) * 1099511628211ull;
        for (auto &l : desk->log) for (uint32_t v : l) result->sum = result->sum * 31 + v;
        last = desk->total;
        // Everything as it was, and some new orders that follow from what was filled.
        memset(desk->fills, 0, sizeof desk->fills); memset(desk->log, 0, sizeof desk->log);
        desk->total = 0; desk->ticket = 0;
        for (int i = (int)(last % 11); i < ORDERS; i += 3 + (int)(last % 29)) desk->orders[i] = mix((uint32_t)(last >> 20) + i);
        __atomic_store_n(&desk->bell, 0u, __ATOMIC_RELEASE);
    }
    CK(cudaMemcpyAsync(back.data(), book, ORDERS * 4, cudaMemcpyDeviceToHost, stream));
    CK(cudaMemcpyAsync(&result->stale, stale, 4, cudaMemcpyDeviceToHost, stream));
    CK(cudaStreamSynchronize(stream));
    result->wrong += back != model || result->stale != 0;
    for (uint32_t v : back) result->sum = (result->sum ^ v) * 1099511628211ull;
    CK(cudaFree(book)); CK(cudaFree(stale)); CK(cudaStreamDestroy(stream));
}

int main() {
    Desk *desks, *device; Result results[DESKS]; int wrong = 0; uint64_t sum = 0;
    CK(cudaSetDevice(0));
    CK(cudaHostAlloc(&desks, sizeof(Desk) * DESKS, cudaHostAllocMapped | cudaHostAllocPortable));
    CK(cudaHostGetDevicePointer(&device, desks, 0));
    memset(desks, 0, sizeof(Desk) * DESKS);
    for (int round = 0; round < 2; round++) {               // first by one thread after the other, then side by side
        std::vector<std::thread> threads;
        for (int i = 0; i < DESKS; i++) {
            results[i] = Result();
            threads.emplace_back(work, i, desks + i, device + i, &results[i]);
            if (round == 0) threads.back().join();
        }
        if (round == 1) for (auto &t : threads) t.join();
        for (auto &r : results) { sum = sum * 1099511628211ull + r.sum; wrong += r.wrong; }
        printf("round %d: stale %u %u\n", round, results[0].stale, results[1].stale);
    }
    CK(cudaFreeHost(desks));
    printf("ticketpoll: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
