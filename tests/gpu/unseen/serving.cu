// nvcc: --default-stream per-thread
// An inference server: clients put requests into a queue, six threads with their own default streams take them out in batches.
// Batches of a power of two run as a graph (captured once for its size by whoever needs it first, launched by all threads under
// the plan's lock), others run directly from the thread's own buffers. Completion is polled with cudaStreamQuery.
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int D = 96, LAYERS = 4, MAX_BATCH = 16, SERVERS = 6, CLIENTS = 3, REQUESTS = 200;    // requests of each client

__host__ __device__ inline int activate(int sum, int bias) { int v = (sum + bias) >> 5; return v < 0 ? -v / 4 : v > 127 ? 127 : v; }
__global__ void layer(int *out, const int *in, const int8_t *weights, const int *bias) {
    __shared__ int x[D];
    x[threadIdx.x] = in[blockIdx.x * D + threadIdx.x];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < D; k++) sum += x[k] * weights[k * D + threadIdx.x];
    out[blockIdx.x * D + threadIdx.x] = activate(sum, bias[threadIdx.x]);
}
__global__ void residual(int *x, const int *first) { int i = blockIdx.x * D + threadIdx.x; x[i] = (x[i] + first[i]) & 127; }

static std::vector<int8_t> weights; static std::vector<int> bias;
static int8_t *device_weights; static int *device_bias;

struct Request { int input[D], output[D], version; std::promise<int> done; };

static std::mutex queue_lock; static std::condition_variable queue_cv; static std::deque<Request *> requests; static bool closed;

struct Buffers {            // input, two for the layers, pinned in and out
    int *first, *a, *b, *in, *out;
    void make(int batch) {
        CK(cudaMalloc(&first, batch * D * 4)); CK(cudaMalloc(&a, batch * D * 4)); CK(cudaMalloc(&b, batch * D * 4));
        CK(cudaMallocHost(&in, batch * D * 4)); CK(cudaMallocHost(&out, batch * D * 4));
    }
    void free() { CK(cudaFree(first)); CK(cudaFree(a)); CK(cudaFree(b)); CK(cudaFreeHost(in)); CK(cudaFreeHost(out)); }
};
struct Plan { std::mutex lock; Buffers buffers; cudaGraphExec_t exec = nullptr; int launches = 0; };
static std::mutex plans_lock; static std::map<int, Plan> plans;
static std::atomic<int> captures{0}, wrong{0}, polled{0};

static void submit(const Buffers &u, int batch, cudaStream_t s) {
    CK(cudaMemcpyAsync(u.first, u.in, batch * D * 4, cudaMemcpyHostToDevice, s));
    const int *from = u.first;
    for (int l = 0; l < LAYERS; l++) {
        int *to = l % 2 ? u.b : u.a;
        layer<<<batch, D, 0, s>>>(to, from, device_weights + l * D * D, device_bias + l * D);
        if (l == 2) residual<<<batch, D, 0, s>>>(to, u.first);
        from = to;
    }
    CK(cudaMemcpyAsync(u.out, from, batch * D * 4, cudaMemcpyDeviceToHost, s));
}
static void wait_polling(cudaStream_t s) {
    cudaError_t e;
    while ((e = cudaStreamQuery(s)) == cudaErrorNotReady) { polled++; std::this_thread::yield(); }
    CK(e);
}
static void give(std::vector<Request *> &batch, const int *out) {
    for (size_t i = 0; i < batch.size(); i++) { memcpy(batch[i]->output, out + i * D, D * 4); batch[i]->done.set_value((int)batch.size()); }
}

static void serve(int id) {
    CK(cudaSetDevice(0));
    Buffers own; own.make(MAX_BATCH);
    cudaEvent_t mark; CK(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming));
    int largest = 1 + id * 3;                               // the servers differ: 1, 4, 7, 10, 13, 16
    for (;;) {
        std::vector<Request *> batch;
        {
            std::unique_lock<std::mutex> l(queue_lock);
            queue_cv.wait(l, [] { return closed || !requests.empty(); });
            if (requests.empty()) break;
            while (!requests.empty() && (int)batch.size() < largest) { batch.push_back(requests.front()); requests.pop_front(); }
        }
        int n = (int)batch.size();
        if (n & (n - 1)) {                                  // not a power of two: directly, in this thread's default stream
            for (int i = 0; i < n; i++) memcpy(own.in + i * D, batch[i]->input, D * 4);
            submit(own, n, 0);
            CK(cudaGetLastError());
            CK(cudaEventRecord(mark));
            wait_polling(n % 4 == 3 ? cudaStreamPerThread : (cudaStream_t)0);
            CK(cudaEventQuery(mark));
            give(batch, own.out);
            continue;
        }
        Plan *plan;
        { std::lock_guard<std::mutex> l(plans_lock); plan = &plans[n]; }
        std::lock_guard<std::mutex> l(plan->lock);
        if (!plan->exec) {
            cudaGraph_t graph; cudaStream_t capturing = cudaStreamPerThread;
            if (n % 4 == 0) CK(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking));
            plan->buffers.make(n);
            CK(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal));
            submit(plan->buffers, n, capturing);
            CK(cudaStreamEndCapture(capturing, &graph));
            CK(cudaGraphInstantiate(&plan->exec, graph, 0));
            CK(cudaGraphDestroy(graph));
            if (n % 4 == 0) CK(cudaStreamDestroy(capturing));
            CK(cudaGraphUpload(plan->exec, cudaStreamPerThread));
            captures++;
        }
        for (int i = 0; i < n; i++) memcpy(plan->buffers.in + i * D, batch[i]->input, D * 4);
        CK(cudaGraphLaunch(plan->exec, cudaStreamPerThread));
        wait_polling(cudaStreamPerThread);
        plan->launches++;
        give(batch, plan->buffers.out);
    }
    CK(cudaStreamSynchronize(cudaStreamPerThread));
    CK(cudaEventDestroy(mark));
    own.free();
}

static void reference(const int *input, int *output) {
    int x[D], y[D];
    memcpy(x, input, sizeof x);
    for (int l = 0; l < LAYERS; l++) {
        for (int j = 0; j < D; j++) {
            int sum = 0;
            for (int k = 0; k < D; k++) sum += x[k] * weights[l * D * D + k * D + j];
            y[j] = activate(sum, bias[l * D + j]);
            if (l == 2) y[j] = (y[j] + input[j]) & 127;
        }
        memcpy(x, y, sizeof x);
    }
    memcpy(output, x, sizeof x);
}

static std::vector<std::unique_ptr<std::vector<Request>>> kept[CLIENTS];      // until the servers have left set_value
static uint64_t client(int id) {
    uint64_t h = 14695981039346656037ull; uint32_t state = 12345 + id;
    for (int sent = 0; sent < REQUESTS; ) {
        int burst = 1 + (sent * 7 + id) % 23; if (burst > REQUESTS - sent) burst = REQUESTS - sent;
        kept[id].push_back(std::make_unique<std::vector<Request>>(burst));
        std::vector<Request> &mine = *kept[id].back(); std::vector<std::future<int>> futures;
        for (auto &r : mine) {
            for (int &v : r.input) { state = state * 1664525u + 1013904223u; v = state >> 25; }
            futures.push_back(r.done.get_future());
        }
        { std::lock_guard<std::mutex> l(queue_lock); for (auto &r : mine) requests.push_back(&r); }
        queue_cv.notify_all();
        for (auto &f : futures) { int n = f.get(); if (n < 1 || n > MAX_BATCH) wrong++; }
        for (auto &r : mine) {
            int expected[D]; reference(r.input, expected);
            wrong += memcmp(expected, r.output, sizeof expected) != 0;
            for (int v : r.output) h = (h ^ (uint32_t)v) * 1099511628211ull;
        }
        sent += burst;
    }
    return h;
}

int main() {
    CK(cudaSetDevice(0));
    uint32_t state = 99;
    auto random = [&] { state = state * 1664525u + 1013904223u; return state >> 16; };
    for (int i = 0; i < LAYERS * D * D; i++) weights.push_back((int8_t)(random() % 15) - 7);
    for (int i = 0; i < LAYERS * D; i++) bias.push_back((int)(random() % 200) - 60);
    CK(cudaMalloc(&device_weights, weights.size())); CK(cudaMalloc(&device_bias, bias.size() * 4));
    CK(cudaMemcpy(device_weights, weights.data(), weights.size(), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(device_bias, bias.data(), bias.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaDeviceSynchronize());
    std::vector<std::thread> servers, clients; uint64_t sums[CLIENTS], sum = 0;
    for (int i = 0; i < SERVERS; i++) servers.emplace_back(serve, i);
    for (int i = 0; i < CLIENTS; i++) clients.emplace_back([&sums, i] { sums[i] = client(i); });
    for (auto &t : clients) t.join();
    { std::lock_guard<std::mutex> l(queue_lock); closed = true; }
    queue_cv.notify_all();
    for (auto &t : servers) t.join();
    for (auto h : sums) sum = sum * 31 + h;
    int graphs = 0;
    for (auto &p : plans) { CK(cudaGraphExecDestroy(p.second.exec)); p.second.buffers.free(); graphs++; wrong += p.second.launches < 1; }
    wrong += graphs != captures.load();
    CK(cudaFree(device_weights)); CK(cudaFree(device_bias));
    printf("serving: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
