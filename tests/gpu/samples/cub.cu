// CUB: sorts of keys and pairs, segments, scans, histograms and reductions of the device, blocks and warps
// nvcc: --extended-lambda
#include "sample.h"
#include <algorithm>
#include <cub/cub.cuh>

__global__ void by_block(const int *in, int *out)
{
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union { Sort::TempStorage sort; Scan::TempStorage scan; } shared;
    int mine[4];
    for (int k = 0; k < 4; k++)
        mine[k] = in[(blockIdx.x * 128 + threadIdx.x) * 4 + k];
    Sort(shared.sort).Sort(mine);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(mine, mine);
    for (int k = 0; k < 4; k++)
        out[(blockIdx.x * 128 + threadIdx.x) * 4 + k] = mine[k];
}

template <class Work> static void with_storage(Work work)
{
    size_t size = 0;
    void *storage = nullptr;
    CHECK(work(storage, size));
    CHECK(cudaMalloc(&storage, size + 1));
    CHECK(work(storage, size));
    CHECK(cudaFree(storage));
}

int main()
{
    const int n = 1 << 16, bins = 50;
    std::vector<int> values = numbers<int>(n, 100000), sorted = values;
    std::sort(sorted.begin(), sorted.end());
    int *in = upload(values), *out = allocate<int>(n), *count = allocate<int>(bins), *indices = upload(numbers<int>(n)), *moved = allocate<int>(n);
    with_storage([&](void *s, size_t &z) { return cub::DeviceRadixSort::SortKeys(s, z, in, out, n); });
    REQUIRE(download(out, n) == sorted);
    print("sorted", sorted);
    with_storage([&](void *s, size_t &z) { return cub::DeviceRadixSort::SortPairsDescending(s, z, in, out, indices, moved, n, 0, 20); });
    print("pairs", download(moved, n));
    with_storage([&](void *s, size_t &z) { return cub::DeviceScan::ExclusiveSum(s, z, in, out, n); });
    print("scan", download(out, n));
    with_storage([&](void *s, size_t &z) { return cub::DeviceHistogram::HistogramEven(s, z, in, count, bins + 1, 0, 100000, n); });
    std::vector<int> histogram = download(count, bins), wanted(bins);
    for (int value : values)
        wanted[value / 2000]++;
    REQUIRE(histogram == wanted);
    print("histogram", histogram);
    with_storage([&](void *s, size_t &z) { return cub::DeviceReduce::Max(s, z, in, out, n); });
    REQUIRE(download(out, 1)[0] == sorted.back());
    std::vector<int> offsets;
    for (int i = 0; i <= 64; i++)
        offsets.push_back(i * i * 16);
    int *segments = upload(offsets);
    with_storage([&](void *s, size_t &z) { return cub::DeviceSegmentedReduce::Sum(s, z, in, out, 64, segments, segments + 1); });
    print("segments", download(out, 64));
    with_storage([&](void *s, size_t &z) { return cub::DeviceMergeSort::SortKeys(s, z, moved, n, [] __device__(int a, int b) { return a < b; }); });
    print("merged", download(moved, n));
    with_storage([&](void *s, size_t &z) { return cub::DeviceSelect::Unique(s, z, moved, out, count, n); });
    print("unique", download(out, download(count, 1)[0]));
    by_block<<<n / 512, 128>>>(in, out);
    print("blocks", download(out, n));
    return 0;
}
