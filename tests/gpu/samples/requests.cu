// A small server: threads take requests of several shapes from a queue, each on a stream of its own with memory from the pool, and
// replay the graph that another thread captured for that shape; what comes back goes through pinned buffers that are used again
// nvcc: -Xcompiler -pthread
#include "sample.h"
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

__global__ void layer(const float *in, float *out, const float *weights, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int k = 0; k < 32; k++)
        sum += weights[k] * in[(i + k) % n];
    out[i] = sum > 0 ? sum : 0;
}

struct Request {
    int number, n;
};

struct Shape {
    cudaGraphExec_t executable;
    float *in, *out;
    std::mutex busy;
};

static std::mutex lock;
static std::condition_variable arrived;
static std::queue<Request> waiting;
static std::map<int, std::shared_ptr<Shape>> shapes;
static bool closed;

static std::shared_ptr<Shape> shape(int n, cudaStream_t stream, const float *weights)
{
    std::lock_guard guard(lock);
    std::shared_ptr<Shape> &found = shapes[n];
    if (found)
        return found;
    found = std::make_shared<Shape>();
    float *between;
    CHECK(cudaMalloc(&found->in, n * sizeof(float)));
    CHECK(cudaMalloc(&found->out, n * sizeof(float)));
    CHECK(cudaMalloc(&between, n * sizeof(float)));
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 4; i++) {
        layer<<<(n + 127) / 128, 128, 0, stream>>>(i ? found->out : found->in, between, weights, n);
        layer<<<(n + 127) / 128, 128, 0, stream>>>(between, found->out, weights + 32, n);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&found->executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return found;
}

static void serve(const float *weights, std::vector<double> *results)
{
    cudaStream_t stream;
    cudaEvent_t done;
    float *pinned;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming | cudaEventBlockingSync));
    CHECK(cudaMallocHost(&pinned, 8192 * sizeof(float)));
    for (;;) {
        std::unique_lock guard(lock);
        arrived.wait(guard, [] { return closed || !waiting.empty(); });
        if (waiting.empty())
            break;
        Request request = waiting.front();
        waiting.pop();
        guard.unlock();
        const int n = request.n;
        const size_t bytes = n * sizeof(float);
        std::shared_ptr<Shape> here = shape(n, stream, weights);
        float *staged;
        for (int i = 0; i < n; i++)
            pinned[i] = float(number(i * 31 + request.number) % 5) - 2;
        CHECK(cudaMallocAsync(&staged, bytes, stream));
        CHECK(cudaMemcpyAsync(staged, pinned, bytes, cudaMemcpyHostToDevice, stream));
        {
            std::lock_guard one(here->busy);
            CHECK(cudaMemcpyAsync(here->in, staged, bytes, cudaMemcpyDeviceToDevice, stream));
            CHECK(cudaGraphLaunch(here->executable, stream));
            CHECK(cudaMemcpyAsync(staged, here->out, bytes, cudaMemcpyDeviceToDevice, stream));
            CHECK(cudaEventRecord(done, stream));
            CHECK(cudaEventSynchronize(done));
        }
        CHECK(cudaMemcpyAsync(pinned, staged, bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(staged, stream));
        CHECK(cudaStreamSynchronize(stream));
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += pinned[i];
        (*results)[request.number] = sum;
    }
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(stream));
}

int main()
{
    const int requests = 200, sizes[] = {100, 1000, 4096, 8192};
    std::vector<float> w(64);
    for (int i = 0; i < 64; i++)
        w[i] = float(int(number(i) % 7) - 3) / 16;
    float *weights = upload(w);
    std::vector<double> results(requests);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++)
        threads.emplace_back(serve, weights, &results);
    for (int i = 0; i < requests; i++) {
        std::lock_guard guard(lock);
        waiting.push({i, sizes[number(i) % 4]});
        arrived.notify_one();
    }
    {
        std::lock_guard guard(lock);
        closed = true;
    }
    arrived.notify_all();
    for (std::thread &thread : threads)
        thread.join();
    print("results", results);
    return 0;
}
