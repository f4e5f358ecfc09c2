// Constant and global variables: copied to and from by symbol, with offsets, asynchronously; addresses as arguments and in memory
#include "sample.h"

__constant__ float factors[64];
__device__ int table[256];
__device__ int *where;
__device__ float total = 3;

__global__ void scale(float *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * factors[i % 64] + table[i % 256];
}

__global__ void follow(int n)
{
    if (threadIdx.x < n)
        where[threadIdx.x] += 7;
    if (threadIdx.x == 0)
        total = total * 2 + 1;
}

__global__ void fill(int *memory) { memory[threadIdx.x] = threadIdx.x * 3; }

int main()
{
    const int n = 1000;
    std::vector<float> values = numbers(n), factor = numbers(64, 9);
    float *device = upload(values);
    CHECK(cudaMemcpyToSymbol(factors, factor.data(), 32 * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(factors, &factor[32], 32 * sizeof(float), 32 * sizeof(float)));
    void *address;
    size_t size;
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaGetSymbolSize(&size, table));
    REQUIRE(size == sizeof table);
    fill<<<1, 256>>>(static_cast<int *>(address));
    scale<<<(n + 255) / 256, 256>>>(device, n);
    std::vector<float> results = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[i] * factor[i % 64] + i % 256 * 3);
    print("scaled", results);

    // A variable that holds another's address
    CHECK(cudaMemcpyToSymbol(where, &address, sizeof address));
    follow<<<1, 64>>>(64);
    std::vector<int> back(256);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbolAsync(back.data(), table, sizeof table, 0, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 256; i++)
        REQUIRE(back[i] == i * 3 + (i < 64 ? 7 : 0));
    print("followed", back);
    float sum;
    CHECK(cudaMemcpyFromSymbol(&sum, total, sizeof sum));
    REQUIRE(sum == 7);
    CHECK(cudaMemset(address, 1, 16));
    CHECK(cudaMemcpyFromSymbol(back.data(), table, 16, 8));
    REQUIRE(back[0] == 0x01010101 && back[2] == 4 * 3 + 7);
    printf("total %g\n", sum);
    return 0;
}
