// Clusters of blocks that read each other's shared memory, set at compile time and at launch
#include "sample.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

enum { BINS = 64 };

__global__ void histogram(const int *values, int n, int *bins)
{
    extern __shared__ int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    int blocks = cluster.num_blocks(), each = BINS / blocks;
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        mine[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = values[i] % BINS;
        int *theirs = cluster.map_shared_rank(mine, bin / each);
        atomicAdd(&theirs[bin % each], 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        atomicAdd(&bins[cluster.block_rank() * each + i], mine[i]);
}

__global__ void __cluster_dims__(4, 1, 1) neighbours(int *out)
{
    __shared__ int value;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0)
        value = blockIdx.x * 10;
    cluster.sync();
    int next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0)
        out[blockIdx.x] = *cluster.map_shared_rank(&value, next);
    cluster.sync();
}

int main()
{
    const int n = 20000;
    std::vector<int> values = numbers<int>(n, 10000), wanted(BINS);
    for (int value : values)
        wanted[value % BINS]++;
    int *device = upload(values), *bins = allocate<int>(BINS);
    for (unsigned size : {1u, 2u, 4u, 8u}) {
        CHECK(cudaMemset(bins, 0, BINS * sizeof(int)));
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {size, 1, 1};
        cudaLaunchConfig_t config = {dim3(32), dim3(128), BINS / size * sizeof(int), nullptr, &attribute, 1};
        int most;
        CHECK(cudaOccupancyMaxActiveClusters(&most, histogram, &config));
        REQUIRE(most > 0);
        CHECK(cudaLaunchKernelEx(&config, histogram, static_cast<const int *>(device), n, bins));
        std::vector<int> results = download(bins, BINS);
        REQUIRE(results == wanted);
        print("histogram", results);
    }
    int *out = allocate<int>(16);
    neighbours<<<16, 32>>>(out);
    std::vector<int> results = download(out, 16);
    for (int i = 0; i < 16; i++)
        REQUIRE(results[i] == (i / 4 * 4 + (i + 1) % 4) * 10);
    print("neighbours", results);
    return 0;
}
