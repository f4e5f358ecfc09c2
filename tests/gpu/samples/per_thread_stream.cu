// Threads that each use their own default stream
// nvcc: --default-stream per-thread
#include "sample.h"
#include <thread>

__global__ void grow(int *values, int n, int with)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * 3 + with;
}

static void run(int thread, std::vector<int> *results)
{
    const int n = 3000;
    int *device = allocate<int>(n), *pinned;
    CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        pinned[i] = number(i + thread) % 100;
    CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(int), cudaMemcpyHostToDevice, 0));
    for (int turn = 0; turn < 10; turn++)
        grow<<<(n + 127) / 128, 128>>>(device, n, thread + turn);
    CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    results->assign(pinned, pinned + n);
    grow<<<(n + 127) / 128, 128, 0, cudaStreamLegacy>>>(device, n, 1);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
}

int main()
{
    std::vector<std::vector<int>> results(6);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++)
        threads.emplace_back(run, i, &results[i]);
    for (auto &thread : threads)
        thread.join();
    for (int t = 0; t < 6; t++) {
        for (int i = 0; i < 3000; i++) {
            int value = number(i + t) % 100;
            for (int turn = 0; turn < 10; turn++)
                value = value * 3 + t + turn;
            REQUIRE(results[t][i] == value);
        }
        print("thread", results[t]);
    }
    return 0;
}
