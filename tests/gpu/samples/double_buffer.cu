// Copies in, kernels and copies out that overlap, through two pinned buffers used again and again
#include "sample.h"

__global__ void transform(const int *in, int *out, int n, int round)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * round + in[(i + 1) % n];
}

int main()
{
    const int n = 8192, rounds = 20;
    int *in[2], *out[2], *device_in[2], *device_out[2];
    cudaStream_t streams[2];
    cudaEvent_t done[2];
    for (int k = 0; k < 2; k++) {
        CHECK(cudaMallocHost(&in[k], n * sizeof(int)));
        CHECK(cudaMallocHost(&out[k], n * sizeof(int)));
        device_in[k] = allocate<int>(n);
        device_out[k] = allocate<int>(n);
        CHECK(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[k], cudaEventBlockingSync | cudaEventDisableTiming));
    }
    std::vector<int> results;
    auto collect = [&](int round) {
        int k = round % 2;
        CHECK(cudaEventSynchronize(done[k]));
        for (int i = 0; i < n; i++)
            REQUIRE(out[k][i] == int(number(i * 31 + round) % 500 * round + number((i + 1) % n * 31 + round) % 500));
        results.insert(results.end(), out[k], out[k] + n);
    };
    for (int round = 0; round < rounds; round++) {
        int k = round % 2;
        if (round >= 2)
            collect(round - 2);
        for (int i = 0; i < n; i++)
            in[k][i] = number(i * 31 + round) % 500;
        CHECK(cudaMemcpyAsync(device_in[k], in[k], n * sizeof(int), cudaMemcpyHostToDevice, streams[k]));
        transform<<<n / 256, 256, 0, streams[k]>>>(device_in[k], device_out[k], n, round);
        CHECK(cudaMemcpyAsync(out[k], device_out[k], n * sizeof(int), cudaMemcpyDeviceToHost, streams[k]));
        CHECK(cudaEventRecord(done[k], streams[k]));
    }
    collect(rounds - 2);
    collect(rounds - 1);
    print("results", results);
    return 0;
}
