// Cooperative groups: synchronisation of the whole grid, tiles, labelled groups, reductions; a cooperative launch
#include "sample.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// Sums in place by halves, all blocks in step
__global__ void sum_grid(int *values, int n)
{
    cg::grid_group grid = cg::this_grid();
    for (int half = n / 2; half > 0; half /= 2) {
        for (int i = grid.thread_rank(); i < half; i += grid.size())
            values[i] += values[i + half];
        grid.sync();
    }
}

__global__ void tiles(const int *values, int *sums, int *odd)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int value = values[blockIdx.x * blockDim.x + threadIdx.x];
    int sum = cg::reduce(tile, value, cg::plus<int>());
    if (tile.thread_rank() == 0)
        sums[(blockIdx.x * blockDim.x + threadIdx.x) / 8] = sum;
    auto warp = cg::tiled_partition<32>(block);
    auto alike = cg::labeled_partition(warp, value % 3);
    int members = alike.size();
    if (value % 2) {
        auto active = cg::coalesced_threads();
        members += 1000 * active.size() + 100000 * active.thread_rank();
    }
    odd[blockIdx.x * blockDim.x + threadIdx.x] = members;
}

int main()
{
    int device = 0, supported, blocks, processors;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device));
    REQUIRE(supported);
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_grid, 256, 0));
    int n = 1 << 16, grid = blocks * processors < 64 ? blocks * processors : 64;
    std::vector<int> values = numbers<int>(n);
    int *memory = upload(values), *sums = allocate<int>(n / 8), *odd = allocate<int>(n);
    tiles<<<n / 256, 256>>>(memory, sums, odd);
    std::vector<int> tile_sums = download(sums, n / 8), members = download(odd, n);
    for (int i = 0; i < n / 8; i++) {
        int sum = 0;
        for (int k = 0; k < 8; k++)
            sum += values[i * 8 + k];
        REQUIRE(tile_sums[i] == sum);
    }
    print("tiles", tile_sums);
    print("members", members);
    void *arguments[] = {&memory, &n};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(sum_grid), dim3(grid), dim3(256), arguments, 0, nullptr));
    int wanted = 0;
    for (int value : values)
        wanted += value;
    REQUIRE(download(memory, 1)[0] == wanted);
    // The same as an attribute of a launch
    CHECK(cudaMemcpy(memory, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {dim3(grid), dim3(256), 0, nullptr, &attribute, 1};
    CHECK(cudaLaunchKernelEx(&config, sum_grid, memory, n));
    REQUIRE(download(memory, 1)[0] == wanted);
    printf("sum %d\n", wanted);
    // Too large a grid is refused
    EXPECT(cudaErrorCooperativeLaunchTooLarge, cudaLaunchCooperativeKernel(reinterpret_cast<void *>(sum_grid),
        dim3(blocks * processors + 1), dim3(256), arguments, 0, nullptr));
    return 0;
}
