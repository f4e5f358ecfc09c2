// Occupancy, attributes of functions, large dynamic shared memory, cache and carveout preferences, windows of the L2 cache, limits
#include "sample.h"

__global__ void reverse(int *values)
{
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < 40000; i += blockDim.x)
        tile[i] = values[i];
    __syncthreads();
    for (int i = threadIdx.x; i < 40000; i += blockDim.x)
        values[i] = tile[39999 - i] + 1;
}

__global__ void add(int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += i % 3;
}

int main()
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    REQUIRE(properties.sharedMemPerBlockOptin >= 160000);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, reverse));
    REQUIRE(attributes.maxThreadsPerBlock >= 256);
    const int n = 40000;
    std::vector<int> values = numbers<int>(n);
    int *device = upload(values), grid, block, blocks;
    reverse<<<1, 512, n * sizeof(int)>>>(device);
    EXPECT(cudaErrorInvalidValue, cudaGetLastError());
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, n * sizeof(int)));
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    CHECK(cudaFuncSetCacheConfig(add, cudaFuncCachePreferL1));
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    reverse<<<1, 512, n * sizeof(int)>>>(device);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add, 0, n));
    CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, reverse, [](int threads) { return size_t(threads) * 4; }));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, add, 256, 0, cudaOccupancyDefault));
    size_t shared;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, add, 2, 256));
    add<<<(n + block - 1) / block, block>>>(device, n);
    std::vector<int> results = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[n - 1 - i] + 1 + i % 3);
    print("reversed", results);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, properties.persistingL2CacheMaxSize / 2));
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = device;
    window.accessPolicyWindow.num_bytes = n * sizeof(int);
    window.accessPolicyWindow.hitRatio = 0.75f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    CHECK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window));
    for (int i = 0; i < 5; i++)
        add<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
    cudaStreamAttrValue back;
    CHECK(cudaStreamGetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &back));
    REQUIRE(back.accessPolicyWindow.base_ptr == device && back.accessPolicyWindow.hitRatio == 0.75f);
    window.accessPolicyWindow.num_bytes = 0;
    CHECK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window));
    CHECK(cudaCtxResetPersistingL2Cache());
    cudaStream_t other;
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaStreamCopyAttributes(other, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("added", download(device, n));
    return 0;
}
