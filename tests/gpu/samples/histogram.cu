// Histograms by atomics in shared and global memory. Built for older hardware as text, as machine code alone, for several at once,
// with static and older runtimes
// nvcc text: -arch=compute_75
// nvcc machine: -gencode arch=compute_90,code=sm_90
// nvcc several: -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
// nvcc static: -cudart static
// nvcc debug: -g -G -cudart static
// nvcc line: -lineinfo --compress-mode=none -cudart static
// with eager: CUDA_MODULE_LOADING=EAGER
// with blocking: CUDA_LAUNCH_BLOCKING=1
#include "sample.h"

__device__ unsigned long long processed;

__global__ void count(const unsigned *values, int n, unsigned *bins)
{
    __shared__ unsigned mine[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&mine[values[i] % 256], 1u);
        atomicAdd(&processed, 1ull);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&bins[i], mine[i]);
}

__global__ void extremes(const unsigned *values, int n, unsigned *least, unsigned *most, unsigned *flags, unsigned *locked)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicMin(least, values[i]);
    atomicMax(most, values[i]);
    atomicXor(flags, values[i]);
    unsigned old = *locked, seen;
    do {
        seen = old;
        old = atomicCAS(locked, seen, seen + values[i] % 7);
    } while (old != seen);
}

int main()
{
    const int n = 200000;
    std::vector<unsigned> values(n), wanted(256), one(4);
    one[0] = ~0u;
    unsigned flags = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        values[i] = number(i);
        wanted[values[i] % 256]++;
        flags ^= values[i];
        sum += values[i] % 7;
    }
    unsigned *in = upload(values), *bins = allocate<unsigned>(256), *found = upload(one);
    CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    count<<<64, 256>>>(in, n, bins);
    extremes<<<(n + 255) / 256, 256>>>(in, n, found, found + 1, found + 2, found + 3);
    std::vector<unsigned> results = download(bins, 256);
    REQUIRE(results == wanted);
    print("bins", results);
    results = download(found, 4);
    REQUIRE(results[2] == flags && results[3] == sum);
    unsigned long long all;
    CHECK(cudaMemcpyFromSymbol(&all, processed, sizeof all));
    REQUIRE(all == n);
    printf("from %u to %u, %u\n", results[0], results[1], results[3]);
    return 0;
}
