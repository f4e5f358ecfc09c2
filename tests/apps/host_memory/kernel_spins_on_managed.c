// Kernels spin on managed memory, and on pinned memory while the CPU uses managed memory, on a stream that others wait for
#include "check.h"

enum { N = 512 };

int main(void)
{
    CUstream stream, beside;
    CUdeviceptr out, taken, managed;
    int *flag, *pinned, *numbers, results[N], result, n = N, i;

    start_driver();
    CUfunction wait = find_kernel(load_module("faults"), "wait_for_host"), take = find_kernel(load_module("memory"), "take");
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    flag = (int *)managed;
    CHECK(cuMemAllocManaged(&managed, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    numbers = (int *)managed;
    CHECK(cuMemAllocHost((void **)&pinned, sizeof *pinned));
    out = allocate(sizeof result);
    taken = allocate(sizeof results);

    *flag = 0;
    CHECK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    *(volatile int *)flag = 41;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&result, out, sizeof result));
    REQUIRE(result == 42);

    *pinned = 0;
    for (i = 0; i < N; i++)
        numbers[i] = 1;
    CHECK(cuLaunchKernel(take, 1, 1, 1, N, 1, 1, 0, beside, (void *[]){&taken, &numbers, &n}, NULL));
    CHECK(cuStreamSynchronize(beside));
    CHECK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&pinned, &out}, NULL));
    for (i = 0; i < N; i++)
        numbers[i] = 7 * i;
    CHECK(cuLaunchKernel(take, 1, 1, 1, N, 1, 1, 0, beside, (void *[]){&taken, &numbers, &n}, NULL));
    CHECK(cuStreamSynchronize(beside));
    *(volatile int *)pinned = result;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(results, taken, sizeof results));
    REQUIRE(results[N - 1] == 7 * (N - 1));
    CHECK(cuMemcpyDtoH(&result, out, sizeof result));
    REQUIRE(result == 43);
    printf("%d\n", result);
    return 0;
}
