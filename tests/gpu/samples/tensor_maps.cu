// Tensor maps made by the driver: passed by value, kept in constant and in global memory; bulk copies both ways
#include "sample.h"
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

enum { SIDE = 256, BOX = 32 };

__constant__ CUtensorMap constant_map;

__device__ void twice(const CUtensorMap *from, const CUtensorMap *to, int x, int y)
{
    __shared__ alignas(128) int tile[BOX * BOX];
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
        int at[2] = {x, y};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, from, at, cuda::device::barrier_native_handle(barrier));
        token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof tile);
    } else {
        token = barrier.arrive();
    }
    barrier.wait(std::move(token));
    for (int i = threadIdx.x; i < BOX * BOX; i += blockDim.x)
        tile[i] = tile[i] * 2 + 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        int at[2] = {x, y};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, to, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

__global__ void by_value(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
    twice(&from, &to, blockIdx.x * BOX, blockIdx.y * BOX);
}

__global__ void from_memory(const CUtensorMap *to) { twice(&constant_map, to, blockIdx.x * BOX, blockIdx.y * BOX); }

static CUtensorMap map_of(int *memory)
{
    CUtensorMap map;
    cuuint64_t sizes[2] = {SIDE, SIDE}, strides[1] = {SIDE * sizeof(int)};
    cuuint32_t box[2] = {BOX, BOX}, steps[2] = {1, 1};
    void *encode;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    ZERO(reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, memory, sizes, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

int main()
{
    std::vector<int> values = numbers<int>(SIDE * SIDE);
    int *in = upload(values), *out = allocate<int>(SIDE * SIDE);
    dim3 grid(SIDE / BOX, SIDE / BOX);
    CUtensorMap from = map_of(in), to = map_of(out);
    by_value<<<grid, 128>>>(from, to);
    CHECK(cudaGetLastError());
    std::vector<int> results = download(out, SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        REQUIRE(results[i] == values[i] * 2 + 1);
    print("by value", results);
    CHECK(cudaMemcpyToSymbol(constant_map, &to, sizeof to));
    CUtensorMap *stored = upload(std::vector<CUtensorMap>{from});
    from_memory<<<grid, 128>>>(stored);
    CHECK(cudaGetLastError());
    results = download(in, SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        REQUIRE(results[i] == values[i] * 4 + 3);
    print("from memory", results);
    return 0;
}
