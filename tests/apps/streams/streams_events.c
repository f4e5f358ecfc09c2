// Two streams over pinned memory, ordered by an event; copies whose results are seen only after a synchronisation
#include "check.h"

enum { N = 2000 };

int main(void)
{
    int *host, *back, n = N, i;
    CUstream first, second;
    CUevent start, copied, done;
    CUresult ready;
    float ms;

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");
    CUdeviceptr memory = allocate(N * sizeof(int));
    void *arguments[] = {&memory, &n};

    CHECK(cuMemAllocHost((void **)&host, N * sizeof(int)));
    CHECK(cuMemHostAlloc((void **)&back, N * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, -1));
    CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&done, CU_EVENT_DEFAULT));
    for (i = 0; i < N; i++)
        host[i] = i;
    CHECK(cuEventRecord(start, first));
    CHECK(cuMemcpyHtoDAsync(memory, host, N * sizeof(int), first));
    CHECK(cuLaunchKernel(add, 8, 1, 1, 256, 1, 1, 0, first, arguments, NULL));
    CHECK(cuEventRecord(copied, first));
    CHECK(cuStreamWaitEvent(second, copied, 0));
    CHECK(cuLaunchKernel(twice, 8, 1, 1, 256, 1, 1, 0, second, arguments, NULL));
    CHECK(cuMemcpyDtoHAsync(back, memory, N * sizeof(int), second));
    CHECK(cuEventRecord(done, second));
    while ((ready = cuEventQuery(done)) == CUDA_ERROR_NOT_READY)
        ;
    CHECK(ready);
    CHECK(cuStreamSynchronize(second));
    CHECK(cuEventElapsedTime(&ms, start, done));
    for (i = 0; i < N; i++)
        REQUIRE(back[i] == 2 * (i + 2));
    // The buffer is used again, for the other direction too.
    for (i = 0; i < N; i++)
        back[i] = -i;
    CHECK(cuMemcpyHtoDAsync(memory, back, N * sizeof(int), first));
    CHECK(cuMemcpyDtoHAsync(host, memory, N * sizeof(int), first));
    CHECK(cuStreamSynchronize(first));
    for (i = 0; i < N; i++)
        REQUIRE(host[i] == -i);
    printf("%d\n", host[N - 1]);
    CHECK(cuEventDestroy(start));
    CHECK(cuEventDestroy(copied));
    CHECK(cuEventDestroy(done));
    CHECK(cuStreamDestroy(first));
    CHECK(cuStreamDestroy(second));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemFreeHost(back));
    CHECK(cuMemFree(memory));
    return 0;
}
