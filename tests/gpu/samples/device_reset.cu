// The device is reset in the middle, twice, and everything begins anew; at the end after a fault
#include "sample.h"

__device__ int launches = 10;
__constant__ int factor;

__global__ void work(int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * factor + launches;
    if (i == 0)
        launches++;
}

__global__ void fault(int *nowhere) { nowhere[threadIdx.x] = 1; }

int main()
{
    const int n = 1000;
    for (int round = 0; round < 3; round++) {
        std::vector<int> values = numbers<int>(n);
        int *device = upload(values), by = round + 2, *pinned;
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
        CHECK(cudaMemcpyToSymbol(factor, &by, sizeof by));
        work<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
        CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            REQUIRE(pinned[i] == values[i] * by + 10);
        print("round", std::vector<int>(pinned, pinned + n));
        if (round == 2) {
            fault<<<1, 32>>>(nullptr);
            EXPECT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
            EXPECT(cudaErrorIllegalAddress, cudaMemcpyAsync(pinned, device, 4, cudaMemcpyDeviceToHost, stream));
            cudaDeviceReset();
        } else {
            CHECK(cudaDeviceReset());
        }
        cudaGetLastError();
    }
    return 0;
}
