// Kernels that launch kernels: nested, recursive, tail and fire-and-forget launches
// nvcc: -rdc=true -lcudadevrt
#include "sample.h"

__global__ void leaf(int *values, int begin, int count, int depth)
{
    int i = threadIdx.x;
    if (i < count)
        values[begin + i] += depth * 100 + i;
}

__global__ void split(int *values, int begin, int count, int depth)
{
    if (count <= 32 || depth == 4) {
        leaf<<<1, count>>>(values, begin, count, depth);
        return;
    }
    split<<<1, 1>>>(values, begin, count / 2, depth + 1);
    split<<<1, 1>>>(values, begin + count / 2, count - count / 2, depth + 1);
}

__global__ void finish(const int *values, int n, int *sum)
{
    *sum = 0;
    for (int i = 0; i < n; i++)
        *sum += values[i];
}

__global__ void begin_all(int *values, int n, int *sum)
{
    leaf<<<1, 64, 0, cudaStreamFireAndForget>>>(values, 0, 64, 9);
    split<<<1, 1>>>(values, 64, n - 64, 0);
    // After everything else of this kernel's
    finish<<<1, 1, 0, cudaStreamTailLaunch>>>(values, n, sum);
}

__global__ void with_streams(int *values)
{
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    leaf<<<1, 32, 0, stream>>>(values, threadIdx.x * 32, 32, threadIdx.x);
    cudaStreamDestroy(stream);
}

int main()
{
    const int n = 512;
    int *values = allocate<int>(n), *sum = allocate<int>(1);
    CHECK(cudaMemset(values, 0, n * sizeof(int)));
    CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 4096));
    begin_all<<<1, 1>>>(values, n, sum);
    std::vector<int> results = download(values, n);
    int wanted = 0;
    for (int i = 0; i < 64; i++)
        REQUIRE(results[i] == 900 + i);
    for (int value : results)
        wanted += value;
    REQUIRE(results[64] == 400 && results[n - 1] == 400 + 27);
    REQUIRE(download(sum, 1)[0] == wanted);
    print("split", results);
    with_streams<<<1, 4>>>(values);
    print("streams", download(values, n));
    printf("sum %d\n", wanted);
    return 0;
}
