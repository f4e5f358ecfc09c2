// Allocations in stream order: the default pool, own ones, reuse attributes, trimming, use from several streams
#include "sample.h"

__global__ void fill(int *values, int n, int with)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = with + i;
}

__global__ void sum_into(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += a[i] - 2 * b[i];
}

int main()
{
    const int n = 50000;
    cudaStream_t one, two;
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreate(&two));
    cudaMemPool_t standard, own;
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    uint64_t threshold = 1 << 20;
    CHECK(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &threshold));
    int off = 0;
    CHECK(cudaMemPoolSetAttribute(standard, cudaMemPoolReuseAllowOpportunistic, &off));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemPoolCreate(&own, &properties));
    int *out = allocate<int>(n);
    CHECK(cudaMemset(out, 0, n * sizeof(int)));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int turn = 0; turn < 6; turn++) {
        int *a, *b;
        CHECK(cudaMallocAsync(&a, n * sizeof(int), one));
        CHECK(cudaMallocFromPoolAsync(&b, n * sizeof(int) + turn * 100000, own, two));
        fill<<<(n + 255) / 256, 256, 0, one>>>(a, n, turn);
        fill<<<(n + 255) / 256, 256, 0, two>>>(b, n, 3);
        CHECK(cudaEventRecord(event, two));
        CHECK(cudaStreamWaitEvent(one, event, 0));
        sum_into<<<(n + 255) / 256, 256, 0, one>>>(a, b, out, n);
        CHECK(cudaFreeAsync(a, one));
        CHECK(cudaFreeAsync(b, one));
    }
    CHECK(cudaStreamSynchronize(one));
    std::vector<int> results = download(out, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == 15 - 36 - 6 * i);
    print("results", results);
    CHECK(cudaMemPoolTrimTo(standard, 0));
    CHECK(cudaMemPoolTrimTo(own, 0));
    uint64_t used;
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
    REQUIRE(used == 0);
    int *last;
    CHECK(cudaDeviceSetMemPool(0, own));
    CHECK(cudaMallocAsync(&last, 4096, 0));
    CHECK(cudaMemsetAsync(last, 9, 4096, 0));
    print("last", download(last, 1024));
    CHECK(cudaFree(last));
    CHECK(cudaDeviceSetMemPool(0, standard));
    CHECK(cudaMemPoolDestroy(own));
    return 0;
}
