// A pool of eight workers that share two streams and one pinned staging ring of five slots. A slot is handed back by a host
// function in the stream, which also queues the task's next stage; workers sleep on one condition variable.
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

constexpr int WORKERS = 8, SLOTS = 5, TASKS = 90, STAGES = 3, N = 12000;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline uint32_t work(uint32_t v, uint32_t left, int stage, int i) {
    switch (stage) {
        case 0: return mix(v + i);
        case 1: return v * 2654435761u + (left >> 3);
        default: return (v ^ left) + 17u * i;
    }
}
__global__ void run_stage(uint32_t *out, const uint32_t *in, int n, int stage) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = work(in[i], in[i ? i - 1 : n - 1], stage, i);
}
__global__ void add_up(uint32_t *total, const uint32_t *in, int n) {      // two streams add here: the order does not matter
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&total[i], in[i]);
}

struct Task { int id, stage; std::vector<uint32_t> data; };
struct Slot { uint32_t *in, *out, *device_in, *device_out; };

struct Pool {
    std::mutex m;
    std::condition_variable cv;
    std::deque<Task> queue;
    std::vector<int> free_slots;
    int unfinished = 0, most_busy = 0;
    Slot slots[SLOTS];
    cudaStream_t streams[2];
    uint32_t *total;
    std::vector<std::vector<uint32_t>> results;
    int submitted[2] = {0, 0};
} pool;

struct Ticket { Task task; int slot; };

static void CUDART_CB finished(void *data) {
    Ticket *t = (Ticket *)data;
    size_t n = t->task.data.size();
    memcpy(t->task.data.data(), pool.slots[t->slot].out, n * 4);
    memset(pool.slots[t->slot].out, 0xee, n * 4);              // whoever takes the slot next must write it all
    {
        std::lock_guard<std::mutex> l(pool.m);
        pool.free_slots.push_back(t->slot);
        if (++t->task.stage < STAGES) pool.queue.push_back(std::move(t->task));
        else { pool.results[t->task.id] = std::move(t->task.data); pool.unfinished--; }
    }
    pool.cv.notify_all();
    delete t;
}

static void worker() {
    CK(cudaSetDevice(0));
    for (;;) {
        Ticket *t = new Ticket;
        {
            std::unique_lock<std::mutex> l(pool.m);
            pool.cv.wait(l, [] { return !pool.unfinished || (!pool.queue.empty() && !pool.free_slots.empty()); });
            if (!pool.unfinished) { delete t; return; }
            t->task = std::move(pool.queue.front());
            pool.queue.pop_front();
            t->slot = pool.free_slots.back();
            pool.free_slots.pop_back();
            int busy = SLOTS - (int)pool.free_slots.size();
            if (busy > pool.most_busy) pool.most_busy = busy;
            pool.submitted[(t->task.id + t->task.stage) % 2]++;
        }
        // No lock is held over the CUDA calls: a host function may be waiting for it.
        Slot &slot = pool.slots[t->slot];
        int n = (int)t->task.data.size(), stage = t->task.stage;
        cudaStream_t s = pool.streams[(t->task.id + stage) % 2];
        memcpy(slot.in, t->task.data.data(), n * 4);
        if (t->task.id % 3 == 0) {                              // in two pieces, the second not aligned
            int cut = n / 2 + 1;
            CK(cudaMemcpyAsync(slot.device_in, slot.in, cut * 4, cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(slot.device_in + cut, slot.in + cut, (n - cut) * 4, cudaMemcpyHostToDevice, s));
        } else CK(cudaMemcpyAsync(slot.device_in, slot.in, n * 4, cudaMemcpyDefault, s));
        run_stage<<<20 + t->task.id % 7, 256, 0, s>>>(slot.device_out, slot.device_in, n, stage);
        CK(cudaGetLastError());
        add_up<<<(n + 127) / 128, 128, 0, s>>>(pool.total, slot.device_out, n);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(slot.out, slot.device_out, n * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaLaunchHostFunc(s, finished, t));
    }
}

static std::vector<uint32_t> make_input(int id, int round) {
    std::vector<uint32_t> v(N - (id * 37) % 5000);
    for (size_t i = 0; i < v.size(); i++) v[i] = mix((uint32_t)i * 31 + id * 1009 + round * 77777);
    return v;
}

int main() {
    CK(cudaSetDevice(0));
    int lowest, highest, wrong = 0;
    uint64_t sum = 14695981039346656037ull;
    CK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CK(cudaStreamCreateWithPriority(&pool.streams[0], cudaStreamNonBlocking, lowest));
    CK(cudaStreamCreateWithPriority(&pool.streams[1], cudaStreamNonBlocking, highest));
    uint32_t *ring, *device_ring;
    CK(cudaHostAlloc(&ring, (size_t)SLOTS * 2 * N * 4, cudaHostAllocPortable));
    CK(cudaMalloc(&device_ring, (size_t)SLOTS * 2 * N * 4));
    CK(cudaMalloc(&pool.total, N * 4));
    for (int i = 0; i < SLOTS; i++) {
        pool.slots[i] = {ring + (size_t)2 * i * N, ring + (size_t)(2 * i + 1) * N, device_ring + (size_t)2 * i * N, device_ring + (size_t)(2 * i + 1) * N};
        pool.free_slots.push_back(i);
    }
    std::vector<uint32_t> total(N), got(N);
    for (int round = 0; round < 3; round++) {
        CK(cudaMemset(pool.total, 0, N * 4));
        CK(cudaDeviceSynchronize());                            // the streams do not wait for the default stream
        pool.results.assign(TASKS, {});
        pool.unfinished = TASKS;
        pool.submitted[0] = pool.submitted[1] = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < WORKERS; i++) threads.emplace_back(worker);
        for (int id = 0; id < TASKS; id++) {                    // the main thread feeds while the workers work
            Task t{id, 0, make_input(id, round)};
            { std::lock_guard<std::mutex> l(pool.m); pool.queue.push_back(std::move(t)); }
            pool.cv.notify_all();
        }
        for (auto &t : threads) t.join();
        for (auto s : pool.streams) CK(cudaStreamSynchronize(s));
        wrong += (int)pool.free_slots.size() != SLOTS || pool.most_busy > SLOTS;
        wrong += pool.submitted[0] + pool.submitted[1] != TASKS * STAGES;

        std::fill(total.begin(), total.end(), 0);
        for (int id = 0; id < TASKS; id++) {
            std::vector<uint32_t> v = make_input(id, round), w(v.size());
            for (int stage = 0; stage < STAGES; stage++) {
                for (size_t i = 0; i < v.size(); i++) { w[i] = work(v[i], v[i ? i - 1 : v.size() - 1], stage, (int)i); total[i] += w[i]; }
                v.swap(w);
            }
            if (pool.results[id] != v) { wrong++; if (wrong < 5) fprintf(stderr, "round %d: task %d differs\n", round, id); }
            for (uint32_t x : pool.results[id]) sum = (sum ^ x) * 1099511628211ull;
        }
        CK(cudaMemcpy(got.data(), pool.total, N * 4, cudaMemcpyDeviceToHost));
        if (got != total) { wrong++; fprintf(stderr, "round %d: totals differ\n", round); }
        for (uint32_t x : got) sum = (sum ^ x) * 1099511628211ull;
    }
    for (auto s : pool.streams) CK(cudaStreamDestroy(s));
    CK(cudaFreeHost(ring)); CK(cudaFree(device_ring)); CK(cudaFree(pool.total));
    printf("workerring: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
