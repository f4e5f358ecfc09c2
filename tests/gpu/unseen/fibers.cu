// nvcc: -Xcompiler -pthread
// Fibers (ucontext) that wander between threads: two dozen jobs with stacks of their own are run by three threads, whoever is free. A fiber awaits
// an event, or a word from its neighbour, and goes on in another thread; it copies from arrays on its own stack, which it spoils as soon as the call
// returns, begins a relaxed capture in one thread and ends it in another, and gives back memory in a thread that has never seen it.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int FIBERS = 24, ROUNDS = 15, N = 1500, STREAMS = 5;
constexpr size_t STACK = 1 << 20;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline uint32_t churn(uint32_t v, uint32_t left, uint32_t k) { return mix(v + k) + (left << 3 | left >> 29); }

__global__ void work(uint32_t *to, const uint32_t *from, uint32_t k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) to[i] = churn(from[i], from[i ? i - 1 : N - 1], k);
}
struct Pair { const uint32_t *a, *b; uint32_t *to, salt; };
__global__ void join(Pair p) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) p.to[i] = mix(p.a[i] ^ p.salt) + p.b[N - 1 - i]; }

struct Fiber {
    int id; ucontext_t context, *home = nullptr; char *stack; bool over = false;
    std::function<bool()> ready;                            // what it waits for
};
static Fiber fibers[FIBERS];
static uint32_t words[FIBERS][ROUNDS]; static bool written[FIBERS][ROUNDS];       // under the lock
static uint32_t *pinned[FIBERS];
static cudaStream_t streams[STREAMS];

static std::mutex lock; static std::condition_variable news;
static std::deque<Fiber *> runnable; static std::list<Fiber *> waiting; static int alive = FIBERS;

// The fiber goes to sleep; the thread that ran it puts it among the waiting once its registers have been saved
static void await(Fiber *f, std::function<bool()> ready) { f->ready = std::move(ready); swapcontext(&f->context, f->home); }
static void give_way(Fiber *f) { await(f, [] { return true; }); }
static void await_event(Fiber *f, cudaEvent_t e)
{
    await(f, [e] { cudaError_t r = cudaEventQuery(e); if (r == cudaErrorNotReady) { cudaGetLastError(); return false; } CK(r); return true; });
}
static uint32_t fold(const uint32_t *p, uint32_t h) { for (int i = 0; i < N; i++) h = (h ^ p[i]) * 16777619u; return h; }

static void first_words(uint32_t *p, uint32_t seed) { for (int i = 0; i < N; i++) p[i] = mix(seed + i * 77u); }

__attribute__((noinline)) static void one_round(Fiber *f, int r, uint32_t seed, uint32_t *a, uint32_t *b, cudaStream_t own, cudaEvent_t done)
{
    uint32_t local[N], *out = pinned[f->id], k = f->id * 1000 + r;
    cudaStream_t s = streams[(f->id + r) % STREAMS];
    first_words(local, seed);
    if (r % 5 == 3) {                                       // a capture that is begun, continued and ended wherever the fiber happens to be
        CK(cudaMemcpy(a, local, sizeof local, cudaMemcpyHostToDevice)); CK(cudaStreamSynchronize(cudaStreamLegacy));
        cudaGraph_t g; cudaGraphExec_t exec;
        CK(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed));
        work<<<(N + 127) / 128, 128, 0, own>>>(b, a, k); CK(cudaGetLastError()); give_way(f);
        join<<<(N + 255) / 256, 256, 0, own>>>(Pair{a, b, a, k}); CK(cudaGetLastError()); give_way(f);
        CK(cudaMemcpyAsync(out, a, sizeof local, cudaMemcpyDeviceToHost, own)); give_way(f);
        CK(cudaStreamEndCapture(own, &g)); CK(cudaGraphInstantiate(&exec, g, 0)); CK(cudaGraphDestroy(g)); give_way(f);
        CK(cudaGraphLaunch(exec, own)); give_way(f);
        CK(cudaGraphLaunch(exec, own)); CK(cudaEventRecord(done, own)); await_event(f, done);
        CK(cudaGraphExecDestroy(exec));
        return;
    }
    uint32_t *scratch = nullptr;
    CK(cudaMallocAsync(&scratch, sizeof local, s));
    CK(cudaMemcpyAsync(a, local, sizeof local, cudaMemcpyHostToDevice, s)); memset(local, 0xEE, sizeof local);
    work<<<(N + 63) / 64, 64, 0, s>>>(scratch, a, k); CK(cudaGetLastError());
    CK(cudaEventRecord(done, s)); await_event(f, done);     // after this the thread may be another, and so may be the stream
    cudaStream_t t = streams[(f->id * 3 + r) % STREAMS];
    join<<<(N + 127) / 128, 128, 0, t>>>(Pair{a, scratch, b, k * 3}); CK(cudaGetLastError());
    if (r % 2) { CK(cudaEventRecord(done, t)); await_event(f, done); CK(cudaMemcpyAsync(local, b, sizeof local, cudaMemcpyDeviceToHost, t));
        CK(cudaStreamSynchronize(t)); memcpy(out, local, sizeof local); CK(cudaFreeAsync(scratch, t)); }
    else { CK(cudaMemcpyAsync(out, b, sizeof local, cudaMemcpyDeviceToHost, t)); CK(cudaFreeAsync(scratch, t)); CK(cudaEventRecord(done, t));
        await_event(f, done); }
}
static void body(int id)
{
    Fiber *f = &fibers[id]; uint32_t *a, *b, seed = id; cudaStream_t own; cudaEvent_t done;
    CK(cudaMalloc(&a, N * 4)); CK(cudaMalloc(&b, N * 4)); give_way(f);
    CK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)); CK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int r = 0; r < ROUNDS; r++) {
        one_round(f, r, seed, a, b, own, done);
        uint32_t word = fold(pinned[id], seed);
        { std::lock_guard<std::mutex> hold(lock); words[id][r] = word; written[id][r] = true; }
        int other = (id + 1 + r) % FIBERS;                  // another neighbour every time
        if (other != id) await(f, [=] { return written[other][r]; });
        std::lock_guard<std::mutex> hold(lock); seed = word ^ words[other][r] * 5u;
    }
    CK(cudaEventDestroy(done)); CK(cudaStreamDestroy(own)); give_way(f);
    CK(cudaFree(a)); CK(cudaFree(b));
    f->over = true; swapcontext(&f->context, f->home);      // never comes back
}
static void thread_of_many()
{
    ucontext_t here; CK(cudaSetDevice(0));
    std::unique_lock<std::mutex> hold(lock);
    while (alive) {
        for (auto at = waiting.begin(); at != waiting.end();) if ((*at)->ready()) { runnable.push_back(*at); at = waiting.erase(at); } else ++at;
        if (runnable.empty()) { news.wait_for(hold, std::chrono::microseconds(50)); continue; }
        Fiber *f = runnable.front(); runnable.pop_front(); f->home = &here;
        hold.unlock(); swapcontext(&here, &f->context); hold.lock();
        if (f->over) { alive--; munmap(f->stack, STACK); } else waiting.push_back(f);
        news.notify_one();
    }
    news.notify_all();
}

int main()
{
    for (auto &s : streams) CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int i = 0; i < FIBERS; i++) {
        Fiber &f = fibers[i]; f.id = i; CK(cudaMallocHost(&pinned[i], N * 4));
        f.stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f.stack == MAP_FAILED) { perror("mmap"); return 2; }
        getcontext(&f.context); f.context.uc_stack.ss_sp = f.stack; f.context.uc_stack.ss_size = STACK; f.context.uc_link = nullptr;
        makecontext(&f.context, (void (*)())body, 1, i); runnable.push_back(&f);
    }
    std::vector<std::thread> threads; for (int t = 0; t < 3; t++) threads.emplace_back(thread_of_many);
    for (auto &t : threads) t.join();

    int wrong = 0; uint64_t sum = 14695981039346656037ull; std::vector<uint32_t> seeds(FIBERS), a(N), b(N), c(N), now(FIBERS);
    for (int i = 0; i < FIBERS; i++) seeds[i] = i;
    auto worked = [&](std::vector<uint32_t> &to, const std::vector<uint32_t> &from, uint32_t k) {
        for (int i = 0; i < N; i++) to[i] = churn(from[i], from[i ? i - 1 : N - 1], k); };
    auto joined = [&](std::vector<uint32_t> &to, uint32_t salt) { for (int i = 0; i < N; i++) c[i] = mix(a[i] ^ salt) + b[N - 1 - i]; to = c; };
    for (int r = 0; r < ROUNDS; r++) {
        for (int f = 0; f < FIBERS; f++) {
            uint32_t k = f * 1000 + r; first_words(a.data(), seeds[f]);
            if (r % 5 == 3) for (int t = 0; t < 2; t++) { worked(b, a, k); joined(a, k); } else { worked(b, a, k); joined(a, k * 3); }
            now[f] = fold(a.data(), seeds[f]);
            if (now[f] != words[f][r]) { wrong++; fprintf(stderr, "fiber %d round %d differs\n", f, r); }
            sum = (sum ^ words[f][r]) * 1099511628211ull;
        }
        for (int f = 0; f < FIBERS; f++) { int other = (f + 1 + r) % FIBERS;
            seeds[f] = other == f ? now[f] ^ now[f] * 5u : now[f] ^ now[other] * 5u; }
    }
    for (int i = 0; i < FIBERS; i++) CK(cudaFreeHost(pinned[i]));
    for (auto &s : streams) CK(cudaStreamDestroy(s));
    printf("fibers: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
