// Memory that kernels allocate: malloc and free, new and delete, kept from one launch to the next; limits
#include "sample.h"

__device__ int *kept[128];

__global__ void make(int *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, len = i % 10 + 1;
    int *mine = static_cast<int *>(malloc(len * sizeof(int)));
    if (!mine)
        return;
    for (int k = 0; k < len; k++)
        mine[k] = i * k;
    kept[i] = mine;
    counts[i] = len;
}

__global__ void use(const int *counts, int *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int *scratch = new int[counts[i]];
    for (int k = 0; k < counts[i]; k++)
        scratch[k] = kept[i][k] + 1;
    sums[i] = 0;
    for (int k = 0; k < counts[i]; k++)
        sums[i] += scratch[k];
    delete[] scratch;
    free(kept[i]);
    kept[i] = nullptr;
}

int main()
{
    size_t heap;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    REQUIRE(heap >= 32 << 20);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    int *counts = allocate<int>(128), *sums = allocate<int>(128);
    make<<<4, 32>>>(counts);
    use<<<4, 32>>>(counts, sums);
    std::vector<int> results = download(sums, 128);
    for (int i = 0; i < 128; i++) {
        int len = i % 10 + 1;
        REQUIRE(results[i] == i * (len * (len - 1) / 2) + len);
    }
    print("sums", results);
    return 0;
}
