// Kernels, copies, fills and graphs of known and different lengths, on one stream and on two at once: to be timed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                              \
    do {                                                                                                         \
        cudaError_t error = (call);                                                                              \
        if (error != cudaSuccess) {                                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                       \
            exit(1);                                                                                             \
        }                                                                                                        \
    } while (0)

template <int ROUNDS> __global__ void chained(float *values, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    float value = values[at];
    for (int round = 0; round < ROUNDS; round++) value = value * 0.999f + 0.5f;
    values[at] = value;
}

__global__ void __launch_bounds__(256) shared_sum(const float *values, float *sums, int count) {
    __shared__ float part[256];
    float sum = 0;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) sum += values[at];
    part[threadIdx.x] = sum;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (!threadIdx.x) sums[blockIdx.x] = part[0];
}

int main() {
    const int count = 1 << 24, times = 40;
    float *values, *sums, *host;
    CHECK(cudaMalloc(&values, count * sizeof(float)));
    CHECK(cudaMalloc(&sums, 256 * sizeof(float)));
    CHECK(cudaMallocHost(&host, count * sizeof(float)));
    for (int at = 0; at < count; at++) host[at] = at % 1000;
    cudaStream_t streams[2];
    for (auto &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int time = 0; time < times; time++) {
        cudaStream_t stream = streams[0];
        CHECK(cudaMemcpyAsync(values, host, count * sizeof(float), cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(sums, 0, 256 * sizeof(float), stream));
        chained<16><<<count / 256, 256, 0, stream>>>(values, count);
        chained<256><<<count / 256, 256, 0, stream>>>(values, count);
        chained<4096><<<count / 256, 256, 0, stream>>>(values, count);
        chained<64><<<16, 256, 0, stream>>>(values, 4096);
        shared_sum<<<256, 256, 0, stream>>>(values, sums, count);
        CHECK(cudaMemcpyAsync(host, sums, 256 * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    // Two that fit beside each other: neither must wait for the other because somebody looks.
    for (int time = 0; time < times; time++)
        for (int half = 0; half < 2; half++)
            chained<65536><<<16, 256, 0, streams[half]>>>(values + half * 4096, 4096);
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    chained<512><<<count / 256, 256, 0, streams[0]>>>(values, count);
    chained<2048><<<count / 256, 256, 0, streams[0]>>>(values, count);
    CHECK(cudaMemsetAsync(sums, 0, 256 * sizeof(float), streams[0]));
    shared_sum<<<256, 256, 0, streams[0]>>>(values, sums, count);
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
    for (int time = 0; time < times; time++) CHECK(cudaGraphLaunch(instance, streams[0]));
    CHECK(cudaMemcpyAsync(host, sums, 256 * sizeof(float), cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaDeviceSynchronize());
    double sum = 0;
    for (int at = 0; at < 256; at++) sum += host[at];
    printf("%.3f\n", sum);
}
