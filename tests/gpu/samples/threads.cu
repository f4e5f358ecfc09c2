// Eight threads with a stream each, which share a device, a module and some memory
#include "sample.h"
#include <thread>

__device__ unsigned long long grand_total;

__global__ void work(int *values, int n, int thread)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] = values[i] * 5 + thread;
        atomicAdd(&grand_total, (unsigned long long)(values[i] & 15));
    }
}

static void run(int thread, int *shared, std::vector<int> *results)
{
    const int n = 6000;
    CHECK(cudaSetDevice(0));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<int> values(n);
    for (int i = 0; i < n; i++)
        values[i] = number(i * 8 + thread) % 50;
    int *device = shared + thread * n;
    for (int turn = 0; turn < 5; turn++) {
        int *own;
        CHECK(cudaMalloc(&own, n * sizeof(int)));
        CHECK(cudaMemcpyAsync(own, values.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
        work<<<(n + 127) / 128, 128, 0, stream>>>(own, n, thread);
        CHECK(cudaMemcpyAsync(device, own, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(values.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int &value : values)
            value %= 50;
        CHECK(cudaFree(own));
    }
    CHECK(cudaStreamDestroy(stream));
    *results = values;
}

int main()
{
    int *shared = allocate<int>(8 * 6000);
    std::vector<std::vector<int>> results(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back(run, i, shared, &results[i]);
    for (auto &thread : threads)
        thread.join();
    for (int t = 0; t < 8; t++) {
        for (int i = 0; i < 6000; i++) {
            int value = number(i * 8 + t) % 50;
            for (int turn = 0; turn < 5; turn++)
                value = (value * 5 + t) % 50;
            REQUIRE(results[t][i] == value);
        }
        print("thread", results[t]);
    }
    unsigned long long total;
    CHECK(cudaMemcpyFromSymbol(&total, grand_total, sizeof total));
    printf("total %llu\n", total);
    return 0;
}
