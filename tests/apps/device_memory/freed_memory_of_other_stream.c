// Memory that one stream frees and another gets, with nothing in the program that says in which order: the driver knew
#include "check.h"
#include <unistd.h>

enum { N = 100000 };

int main(void)
{
    int n = N, five = 5, first, seen, i;
    CUdeviceptr memory, again;
    CUstream streams[2];

    start_driver();
    CUfunction add = find_kernel(load_module("addresses"), "add_to");
    CHECK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&memory, N * sizeof(int), streams[0]));
    CHECK(cuMemsetD32Async(memory, 1, N, streams[0]));
    CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, streams[0], (void *[]){&memory, &n, &five}, NULL));
    CHECK(cuMemcpyDtoHAsync(&first, memory, sizeof first, streams[0]));
    CHECK(cuMemFreeAsync(memory, streams[0]));
    // Until it is free, or the driver seems not to want it used again.
    i = 0;
    do {
        usleep(100000);
        CHECK(cuMemAllocAsync(&again, N * sizeof(int), streams[1]));
    } while (again != memory && ++i < 20);
    CHECK(cuMemsetD32Async(again, 7, N, streams[1]));
    CHECK(cuStreamSynchronize(streams[0]));
    CHECK(cuMemcpyDtoHAsync(&seen, again + (N - 1) * sizeof(int), sizeof seen, streams[1]));
    CHECK(cuStreamSynchronize(streams[1]));
    printf("%d %d\n", first, seen);
    REQUIRE(first == 6 && seen == 7);
    return 0;
}
