// The CPU and a kernel that count in the same managed memory at the same time, with atomics of the whole system. (Pinned memory would
// need a bus with atomics.)
#include "sample.h"

__global__ void count(int *managed, int times)
{
    for (int i = 0; i < times; i++) {
        atomicAdd_system(&managed[0], 1);
        atomicMax_system(&managed[1], int(blockIdx.x * blockDim.x + threadIdx.x));
        atomicOr_system(&managed[2], 1 << (threadIdx.x % 32));
    }
}

int main()
{
    int *managed;
    CHECK(cudaMallocManaged(&managed, 4 * sizeof(int)));
    memset(managed, 0, 4 * sizeof(int));
    count<<<8, 64>>>(managed, 20);
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&managed[0], 1, __ATOMIC_SEQ_CST);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(managed[0] == 8 * 64 * 20 + 1000 && managed[1] == 511 && managed[2] == -1);
    printf("managed %d %d %d\n", managed[0], managed[1], managed[2]);
    return 0;
}
