// A task system: a thread pool, std::async for the front end, futures fulfilled by host functions in streams, a reactor thread that
// polls events in a loop, staging slots in pinned memory that are written again the moment they are free, a pool of events recorded
// over and over, streams of all priorities. The pool and its memory go in a static destructor, with work still pending on a stream.
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); _exit(2); } } while (0)
#include <unistd.h>

constexpr int WORDS = 3001, SLOTS = 7, STREAMS = 6, WORKERS = 5, CHAINS = 10, LENGTH = 12;
typedef std::vector<uint32_t> Vec;
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void transform(uint32_t *p, int n, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(p[i] + k) ^ i; }
__global__ void blend(uint32_t *p, const uint32_t *q, int n, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = p[i] * (k | 1) + q[(i + k) % n]; }
__global__ void busy(uint32_t *p, int times) { uint32_t v = threadIdx.x; for (int i = 0; i < times; i++) v = mix(v + i); p[threadIdx.x] = v; }

class Pool {
    std::mutex mutex; std::condition_variable cv; std::deque<std::function<void()>> queue; bool ending = false; std::vector<std::thread> threads;
public:
    Pool() { for (int i = 0; i < WORKERS; i++) threads.emplace_back([this] { CK(cudaSetDevice(0)); work(); }); }
    void work() {
        for (;;) {
            std::function<void()> f;
            { std::unique_lock<std::mutex> lock(mutex); cv.wait(lock, [&] { return ending || !queue.empty(); });
              if (queue.empty()) return; f = std::move(queue.front()); queue.pop_front(); }
            f();
        }
    }
    void post(std::function<void()> f) { { std::lock_guard<std::mutex> lock(mutex); queue.push_back(std::move(f)); } cv.notify_one(); }
    ~Pool() { { std::lock_guard<std::mutex> lock(mutex); ending = true; } cv.notify_all(); for (auto &t : threads) t.join(); }
};

// Looks at events in turn and posts what waits for them.
class Reactor {
    struct Watch { cudaEvent_t event; std::function<void()> then; };
    std::mutex mutex; std::vector<Watch> fresh; std::vector<cudaEvent_t> idle; std::atomic<bool> ending{false}; Pool &pool; std::thread thread;
public:
    int made = 0;
    explicit Reactor(Pool &p) : pool(p), thread([this] { CK(cudaSetDevice(0)); loop(); }) {}
    void watch(cudaStream_t s, std::function<void()> then) {
        cudaEvent_t e = nullptr;
        { std::lock_guard<std::mutex> lock(mutex); if (!idle.empty()) { e = idle.back(); idle.pop_back(); } else made++; }
        if (!e) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        CK(cudaEventRecord(e, s));
        std::lock_guard<std::mutex> lock(mutex); fresh.push_back({e, std::move(then)});
    }
    void loop() {
        std::vector<Watch> watched;
        while (!ending || !watched.empty()) {
            { std::lock_guard<std::mutex> lock(mutex); for (auto &w : fresh) watched.push_back(std::move(w)); fresh.clear(); }
            for (size_t i = 0; i < watched.size();) {
                cudaError_t state = cudaEventQuery(watched[i].event);
                if (state == cudaErrorNotReady) { cudaGetLastError(); i++; continue; }
                CK(state);
                { std::lock_guard<std::mutex> lock(mutex); idle.push_back(watched[i].event); }
                pool.post(std::move(watched[i].then));
                watched[i] = std::move(watched.back()); watched.pop_back();
            }
            std::this_thread::yield();
        }
    }
    ~Reactor() { ending = true; thread.join(); for (auto e : idle) CK(cudaEventDestroy(e)); }
};

struct Slots {                                              // pinned staging
    std::mutex mutex; std::condition_variable cv; std::vector<uint32_t *> idle; uint32_t *block = nullptr;
    void make() { CK(cudaHostAlloc(&block, SLOTS * WORDS * 4, cudaHostAllocPortable)); for (int i = 0; i < SLOTS; i++) idle.push_back(block + i * WORDS); }
    uint32_t *take() { std::unique_lock<std::mutex> lock(mutex); cv.wait(lock, [&] { return !idle.empty(); }); uint32_t *p = idle.back(); idle.pop_back(); return p; }
    void give(uint32_t *p) { { std::lock_guard<std::mutex> lock(mutex); idle.push_back(p); } cv.notify_one(); }
};

// All that is left at the end goes here, after main.
struct Runtime {
    Slots slots; cudaStream_t streams[STREAMS] = {}; uint32_t *scratch = nullptr, *last = nullptr; uint32_t expected = 0; bool made = false;
    void make() {
        int low, high; CK(cudaDeviceGetStreamPriorityRange(&low, &high));
        for (int i = 0; i < STREAMS; i++) CK(cudaStreamCreateWithPriority(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault, high + i % (low - high + 1)));
        slots.make(); CK(cudaMalloc(&scratch, 1024)); CK(cudaMallocHost(&last, 1024)); made = true;
    }
    ~Runtime() {
        if (!made) return;
        CK(cudaStreamSynchronize(streams[0]));              // main left it at work
        if (last[5] != expected) { fprintf(stderr, "what was pending at the end is wrong\n"); _exit(1); }
        for (auto s : streams) CK(cudaStreamDestroy(s));
        CK(cudaFreeHost(slots.block)); CK(cudaFreeHost(last)); CK(cudaFree(scratch));
    }
};
static Runtime *runtime;

// One task: upload -> transform -> download -> a look by the CPU -> upload -> blend with the result of another chain -> download.
struct Task {
    Vec input; int chain, step; std::shared_future<Vec> other;
    std::promise<Vec> promise; uint32_t *slot = nullptr, *device = nullptr, *neighbour = nullptr; cudaStream_t stream;
};
struct Landing { std::promise<void> landed; };
static void CUDART_CB landed(void *p) { ((Landing *)p)->landed.set_value(); }

static uint32_t salt(int chain, int step) { return mix(chain * 1000 + step); }
static void cpu_stage(uint32_t *p, int chain, int step) { for (int i = 0; i < WORDS; i++) p[i] += (i % 7 == chain % 7) ? step : p[i] >> 9; }

static std::atomic<int> wrong{0}, tasks{0};
static void finish(Pool &pool, Reactor &reactor, std::shared_ptr<Task> t) {
    memcpy(t->slot, t->other.get().data(), WORDS * 4);      // the future is there already: its chain is behind ours by one
    CK(cudaMemcpyAsync(t->neighbour, t->slot, WORDS * 4, cudaMemcpyHostToDevice, t->stream));
    blend<<<(WORDS + 127) / 128, 128, 0, t->stream>>>(t->device, t->neighbour, WORDS, salt(t->step, t->chain));
    CK(cudaGetLastError());
    CK(cudaMemcpyAsync(t->slot, t->device, WORDS * 4, cudaMemcpyDeviceToHost, t->stream));
    reactor.watch(t->stream, [t] {
        Vec out(t->slot, t->slot + WORDS);
        runtime->slots.give(t->slot); CK(cudaFreeAsync(t->device, t->stream)); CK(cudaFreeAsync(t->neighbour, t->stream));
        tasks++; t->promise.set_value(std::move(out));
    });
}
static std::future<Vec> submit(Pool &pool, Reactor &reactor, Vec input, int chain, int step, std::shared_future<Vec> other) {
    auto t = std::make_shared<Task>(); t->input = std::move(input); t->chain = chain; t->step = step; t->other = other;
    t->stream = runtime->streams[(chain + step) % STREAMS];
    t->slot = runtime->slots.take();                         // by the chain's own thread: workers never wait for slots
    auto future = t->promise.get_future();
    pool.post([&pool, &reactor, t] {
        memcpy(t->slot, t->input.data(), WORDS * 4);
        CK(cudaMallocAsync(&t->device, WORDS * 4, t->stream)); CK(cudaMallocAsync(&t->neighbour, WORDS * 4, t->stream));
        CK(cudaMemcpyAsync(t->device, t->slot, WORDS * 4, cudaMemcpyHostToDevice, t->stream));
        transform<<<(WORDS + 255) / 256, 256, 0, t->stream>>>(t->device, WORDS, salt(t->chain, t->step));
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(t->slot, t->device, WORDS * 4, cudaMemcpyDeviceToHost, t->stream));
        if (t->step % 3 == 0) {                             // wait by a promise that a host function keeps
            Landing landing; auto f = landing.landed.get_future();
            CK(cudaLaunchHostFunc(t->stream, landed, &landing)); f.wait();
            CK(cudaStreamSynchronize(t->stream));
        } else if (t->step % 3 == 1) {                      // ask the stream
            for (cudaError_t e; (e = cudaStreamQuery(t->stream)) != cudaSuccess;) { if (e != cudaErrorNotReady) CK(e); cudaGetLastError(); std::this_thread::yield(); }
        } else { reactor.watch(t->stream, [&pool, &reactor, t] {
            cpu_stage(t->slot, t->chain, t->step);
            CK(cudaMemcpyAsync(t->device, t->slot, WORDS * 4, cudaMemcpyHostToDevice, t->stream));
            CK(cudaStreamSynchronize(t->stream));           // the slot is needed for the neighbour's words
            finish(pool, reactor, t); }); return; }
        cpu_stage(t->slot, t->chain, t->step);
        CK(cudaMemcpyAsync(t->device, t->slot, WORDS * 4, cudaMemcpyHostToDevice, t->stream));
        CK(cudaStreamSynchronize(t->stream));
        finish(pool, reactor, t);
    });
    return future;
}

static Vec initial(int chain) { Vec v(WORDS); for (int i = 0; i < WORDS; i++) v[i] = mix(chain * 7919 + i); return v; }

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    static Runtime life; runtime = &life;                   // made after CUDA was started, and so gone before it
    runtime->make();
    uint64_t sum = 14695981039346656037ull;
    std::vector<Vec> results(CHAINS);
    {
        Pool pool; Reactor reactor(pool);
        // What step s of chain c gives is a promise; step s of chain c needs step s - 1 of chain c - 1 (in a ring).
        std::vector<std::vector<std::promise<Vec>>> promises(CHAINS); std::vector<std::vector<std::shared_future<Vec>>> futures(CHAINS);
        for (int c = 0; c < CHAINS; c++) {
            promises[c].resize(LENGTH + 1); for (auto &p : promises[c]) futures[c].push_back(p.get_future().share());
            promises[c][0].set_value(initial(c));
        }
        std::vector<std::future<void>> fronts;
        for (int c = 0; c < CHAINS; c++) fronts.push_back(std::async(std::launch::async, [&, c] {
            CK(cudaSetDevice(0));
            for (int s = 1; s <= LENGTH; s++) {
                auto other = futures[(c + CHAINS - 1) % CHAINS][s - 1];
                other.wait();                               // so that no worker ever has to
                promises[c][s].set_value(submit(pool, reactor, futures[c][s - 1].get(), c, s, other).get());
            }
        }));
        for (auto &f : fronts) f.get();
        for (int c = 0; c < CHAINS; c++) results[c] = futures[c][LENGTH].get();
        if (reactor.made > CHAINS + 2) wrong++;
    }
    std::vector<Vec> ref(CHAINS), old(CHAINS); for (int c = 0; c < CHAINS; c++) ref[c] = initial(c);
    for (int s = 1; s <= LENGTH; s++) {
        old = ref;
        for (int c = 0; c < CHAINS; c++) {
            Vec &v = ref[c]; const Vec &q = old[(c + CHAINS - 1) % CHAINS]; uint32_t k = salt(s, c);
            for (int i = 0; i < WORDS; i++) v[i] = mix(v[i] + salt(c, s)) ^ i;
            cpu_stage(v.data(), c, s);
            for (int i = 0; i < WORDS; i++) v[i] = v[i] * (k | 1) + q[(i + k) % WORDS];
        }
    }
    for (int c = 0; c < CHAINS; c++) { wrong += results[c] != ref[c]; for (uint32_t v : results[c]) sum = (sum ^ v) * 1099511628211ull; }
    wrong += tasks != CHAINS * LENGTH;
    // Something still runs when main ends; the static destructor looks at it.
    busy<<<1, 256, 0, runtime->streams[0]>>>(runtime->scratch, 100000); CK(cudaGetLastError());
    CK(cudaMemcpyAsync(runtime->last, runtime->scratch, 1024, cudaMemcpyDeviceToHost, runtime->streams[0]));
    uint32_t v = 5; for (int i = 0; i < 100000; i++) v = mix(v + i); runtime->expected = v;
    printf("futures: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
