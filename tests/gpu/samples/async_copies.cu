// Copies from global to shared memory beside the computing: memcpy_async, pipelines, barriers, cp.async
#include "sample.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

enum { TILE = 256 };

__global__ void by_group(const int *in, int *out)
{
    __shared__ int tile[TILE];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, tile, in + blockIdx.x * TILE, sizeof tile);
    cg::wait(block);
    out[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
}

__global__ void by_barrier(const int *in, int *out)
{
    __shared__ alignas(16) int tile[TILE];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    block.sync();
    cuda::memcpy_async(block, tile, in + blockIdx.x * TILE, cuda::aligned_size_t<16>(sizeof tile), barrier);
    barrier.arrive_and_wait();
    out[blockIdx.x * TILE + threadIdx.x] += tile[threadIdx.x] * 2;
}

__global__ void by_pipeline(const int *in, int *out, int tiles)
{
    __shared__ int stages[2][TILE];
    auto load = [&](int t) {
        __pipeline_memcpy_async(&stages[t % 2][threadIdx.x], &in[t * TILE + threadIdx.x], sizeof(int));
        __pipeline_commit();
    };
    int sum = 0;
    load(0);
    for (int t = 0; t < tiles; t++) {
        if (t + 1 < tiles)
            load(t + 1);
        __pipeline_wait_prior(t + 1 < tiles ? 1 : 0);
        __syncthreads();
        sum += stages[t % 2][(threadIdx.x + t) % TILE];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

__global__ void split_arrival(int *values)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int sums[TILE];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    sums[threadIdx.x] = values[threadIdx.x] * 3;
    auto token = barrier.arrive();
    int own = values[threadIdx.x] + 1;
    barrier.wait(std::move(token));
    values[threadIdx.x] = own + sums[(threadIdx.x + 77) % TILE];
}

int main()
{
    const int n = TILE * 40;
    std::vector<int> values = numbers<int>(n);
    int *in = upload(values), *out = allocate<int>(n);
    by_group<<<n / TILE, TILE>>>(in, out);
    by_barrier<<<n / TILE, TILE>>>(in, out);
    std::vector<int> results = download(out, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[i / TILE * TILE + TILE - 1 - i % TILE] + 2 * values[i]);
    print("blocks", results);
    by_pipeline<<<1, TILE>>>(in, out, n / TILE);
    results = download(out, TILE);
    for (int i = 0; i < TILE; i++) {
        int sum = 0;
        for (int t = 0; t < n / TILE; t++)
            sum += values[t * TILE + (i + t) % TILE];
        REQUIRE(results[i] == sum);
    }
    print("pipeline", results);
    split_arrival<<<1, TILE>>>(in);
    results = download(in, TILE);
    for (int i = 0; i < TILE; i++)
        REQUIRE(results[i] == values[i] + 1 + values[(i + 77) % TILE] * 3);
    print("barrier", results);
    return 0;
}
