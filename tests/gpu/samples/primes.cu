// A program of the runtime of CUDA 12.9, shared and static
// nvcc: -cudart none -L OLDER/lib -l:libcudart.so.12
// nvcc static: -cudart none -L OLDER/lib -l:libcudart_static.a -lrt -lpthread -ldl
#include "sample.h"

__constant__ int most;
__device__ int primes;

__global__ void sieve(const unsigned char *composite, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 2 && i < n && i < most && !composite[i])
        atomicAdd(&primes, 1);
}

__global__ void strike(unsigned char *composite, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 2;
    for (int k = i * i; i * i < n && k < n; k += i)
        composite[k] = 1;
}

int main()
{
    const int n = 20000;
    int limit = 15000, found;
    unsigned char *composite = allocate<unsigned char>(n);
    CHECK(cudaMemset(composite, 0, n));
    CHECK(cudaMemcpyToSymbol(most, &limit, sizeof limit));
    strike<<<1, 160>>>(composite, n);
    sieve<<<(n + 255) / 256, 256>>>(composite, n);
    CHECK(cudaMemcpyFromSymbol(&found, primes, sizeof found));
    REQUIRE(found == 1754);
    print("composite", download(composite, n));
    printf("%d primes\n", found);
    return 0;
}
