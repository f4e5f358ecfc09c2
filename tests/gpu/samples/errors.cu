// Calls that fail, and a program that goes on
#include "sample.h"

__global__ void work(int *values) { values[threadIdx.x] = threadIdx.x; }

__global__ void __launch_bounds__(64) bounded(int *values) { values[threadIdx.x] += 2; }

// Which error it is differs from runtime to runtime
static void fails(const char *what, cudaError_t result)
{
    REQUIRE(result != cudaSuccess);
    printf("%s: %s\n", what, cudaGetErrorName(result));
    cudaGetLastError();
}

int main()
{
    int *values = allocate<int>(1024), count;
    void *memory;
    EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&memory, size_t(1) << 60));
    EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
    EXPECT(cudaSuccess, cudaGetLastError());
    work<<<1, 2048>>>(values);
    cudaError_t peeked = cudaPeekAtLastError();
    fails("too many threads", cudaPeekAtLastError());
    REQUIRE(cudaPeekAtLastError() == cudaSuccess && peeked != cudaSuccess);
    work<<<0, 32>>>(values);
    fails("no blocks", cudaGetLastError());
    bounded<<<1, 128>>>(values);
    fails("more threads than the bounds", cudaGetLastError());
    work<<<1, 32, 1 << 20>>>(values);
    fails("too much shared memory", cudaGetLastError());
    fails("no source", cudaMemcpy(values, nullptr, 16, cudaMemcpyHostToDevice));
    fails("no such device", cudaSetDevice(4711));
    fails("not the beginning", cudaFree(values + 1));
    cudaStream_t stream;
    cudaEvent_t never;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&never));
    float milliseconds;
    fails("never recorded", cudaEventElapsedTime(&milliseconds, never, never));
    // What is forbidden while a stream is captured
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fails("waited for under capture", cudaStreamSynchronize(stream));
    fails("invalidated", cudaStreamEndCapture(stream, &graph));
    fails("no symbol", cudaMemcpyToSymbol(&count, &count, 4));
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
