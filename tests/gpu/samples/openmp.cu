// Threads of OpenMP that launch on the default stream and on their own
// nvcc: -Xcompiler -fopenmp -lgomp
#include "sample.h"
#include <omp.h>

__global__ void add(int *values, int n, int what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += what;
}

int main()
{
    const int n = 64000, parts = 4;
    int *host, *device = allocate<int>(n);
    CHECK(cudaMallocHost(&host, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        host[i] = i;
    #pragma omp parallel num_threads(parts)
    {
        int part = omp_get_thread_num(), each = n / parts;
        cudaStream_t stream;
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamCreate(&stream));
        int *mine = device + part * each;
        CHECK(cudaMemcpyAsync(mine, host + part * each, each * sizeof(int), cudaMemcpyHostToDevice, stream));
        for (int turn = 0; turn < 4; turn++)
            add<<<(each + 255) / 256, 256, 0, turn % 2 ? stream : 0>>>(mine, each, part + turn);
        #pragma omp barrier
        CHECK(cudaMemcpyAsync(host + part * each, mine, each * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
    for (int i = 0; i < n; i++)
        REQUIRE(host[i] == i + 4 * (i / (n / parts)) + 6);
    print("results", std::vector<int>(host, host + n));
    return 0;
}
