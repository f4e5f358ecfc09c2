// Two sources linked on the device: functions, variables and a kernel of the other one
// nvcc: -rdc=true separate_part.cu
#include "sample.h"

extern __device__ float twice(float value);
extern __device__ int counter;
extern __constant__ float offsets[4];
extern __global__ void other_kernel(float *values);

__global__ void apply(float *values)
{
    int i = threadIdx.x;
    values[i] = twice(values[i]) + offsets[i % 4];
    atomicAdd(&counter, i);
}

int main()
{
    const int n = 512;
    std::vector<float> values = numbers(n);
    float *device = upload(values), shift[4] = {1, 2, 3, 4};
    CHECK(cudaMemcpyToSymbol(offsets, shift, sizeof shift));
    apply<<<1, n>>>(device);
    other_kernel<<<1, n>>>(device);
    std::vector<float> results = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == (values[i] * 2 + shift[i % 4]) * shift[i % 4]);
    int count;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    REQUIRE(count == n * (n - 1) / 2 + 5);
    print("results", results);
    printf("counter %d\n", count);
    return 0;
}
