// Calls that fail, and a program that goes on
#include "sample.h"

__global__ void work(int *values) { values[threadIdx.x] = threadIdx.x; }

__global__ void __launch_bounds__(64) bounded(int *values) { values[threadIdx.x] += 2; }

int main()
{
    int *values = allocate<int>(1024), count;
    void *memory;
    EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&memory, size_t(1) << 60));
    EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
    EXPECT(cudaSuccess, cudaGetLastError());
    work<<<1, 2048>>>(values);
    EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    EXPECT(cudaErrorInvalidConfiguration, cudaGetLastError());
    work<<<0, 32>>>(values);
    EXPECT(cudaErrorInvalidConfiguration, cudaGetLastError());
    bounded<<<1, 128>>>(values);
    EXPECT(cudaErrorInvalidValue, cudaGetLastError());
    work<<<1, 32, 1 << 20>>>(values);
    EXPECT(cudaErrorInvalidValue, cudaGetLastError());
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(values, nullptr, 16, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(4711));
    EXPECT(cudaErrorInvalidValue, cudaFree(values + 1));
    cudaGetLastError();
    cudaStream_t stream;
    cudaEvent_t never;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&never));
    float milliseconds;
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, never, never));
    cudaGetLastError();
    // What is forbidden while a stream is captured
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    EXPECT(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    EXPECT(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(&count, &count, 4));
    cudaGetLastError();
    CHECK(cudaGetDeviceCount(&count));
    work<<<1, 1024>>>(values);
    bounded<<<1, 64>>>(values);
    CHECK(cudaGetLastError());
    std::vector<int> results = download(values, 1024);
    for (int i = 0; i < 1024; i++)
        REQUIRE(results[i] == i + (i < 64 ? 2 : 0));
    print("results", results);
    printf("%s: %s\n", cudaGetErrorName(cudaErrorInvalidValue), cudaGetErrorString(cudaErrorInvalidValue));
    return 0;
}
