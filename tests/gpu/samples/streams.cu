// Streams with priorities, events and waits between them, both kinds of callbacks, times
#include "sample.h"

__global__ void add(int *values, int n, int what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += what;
}

struct Seen {
    int host_functions = 0, callbacks = 0;
    int *results;
};

static void host_function(void *data)
{
    Seen *seen = static_cast<Seen *>(data);
    seen->host_functions++;
    for (int i = 0; i < 100; i++)
        seen->results[i] += 1000;
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *data)
{
    static_cast<Seen *>(data)->callbacks += status == cudaSuccess;
}

int main()
{
    const int n = 10000, STREAMS = 4;
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t streams[STREAMS];
    cudaEvent_t done[STREAMS], begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cudaStreamCreateWithPriority(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault, i % 2 ? greatest : least));
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    }
    int *device = upload(numbers<int>(n)), *pinned;
    CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
    Seen seen;
    seen.results = pinned;
    CHECK(cudaEventRecord(begin, streams[0]));
    for (int i = 0; i < 3 * STREAMS; i++) {
        int s = i % STREAMS;
        if (i > 0)
            CHECK(cudaStreamWaitEvent(streams[s], done[(i - 1) % STREAMS], 0));
        add<<<(n + 255) / 256, 256, 0, streams[s]>>>(device, n, i * i);
        CHECK(cudaEventRecord(done[s], streams[s]));
    }
    CHECK(cudaStreamWaitEvent(streams[0], done[3], 0));
    CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaLaunchHostFunc(streams[0], host_function, &seen));
    CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(int), cudaMemcpyHostToDevice, streams[0]));
    add<<<(n + 255) / 256, 256, 0, streams[0]>>>(device, n, 5);
    CHECK(cudaStreamAddCallback(streams[0], callback, &seen, 0));
    CHECK(cudaEventRecord(end, streams[0]));
    while (cudaEventQuery(end) == cudaErrorNotReady)
        ;
    CHECK(cudaStreamSynchronize(streams[0]));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    REQUIRE(milliseconds > 0 && seen.callbacks == 1 && seen.host_functions == 1);
    std::vector<int> results = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == int(number(i) % 1000) + 506 + (i < 100 ? 1000 : 0) + 5);
    print("results", results);
    int priority;
    unsigned flags;
    CHECK(cudaStreamGetPriority(streams[1], &priority));
    CHECK(cudaStreamGetFlags(streams[1], &flags));
    REQUIRE(priority == greatest && flags == cudaStreamNonBlocking);
    for (auto stream : streams)
        CHECK(cudaStreamDestroy(stream));
    return 0;
}
