// Memory of the device's pool that one context's default stream frees and another context's gets: their handles are the same
#include "check.h"
#include <unistd.h>

enum { N = 100000 };

int main(void)
{
    CUstream defaults[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    CUcontext contexts[2];
    CUfunction add;
    int n = N, five = 5, *first;

    contexts[0] = start_driver();
    add = find_kernel(load_module("addresses"), "add_to");
    CHECK(cuMemHostAlloc((void **)&first, sizeof *first, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuCtxCreate(&contexts[1], NULL, 0, 0));
    for (int i = 0; i < 3; i++) {
        CUstream stream = defaults[i];
        CUdeviceptr memory, again;
        int last, tries = 0;

        CHECK(cuCtxSetCurrent(contexts[0]));
        CHECK(cuMemAllocAsync(&memory, N * sizeof(int), stream));
        CHECK(cuMemsetD32Async(memory, i, N, stream));
        CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&memory, &n, &five}, NULL));
        CHECK(cuMemcpyDtoHAsync(first, memory + (N - 1) * sizeof(int), sizeof *first, stream));
        CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuCtxSetCurrent(contexts[1]));
        // Until it is free, or the driver seems not to want it used again.
        do {
            usleep(100000);
            CHECK(cuMemAllocAsync(&again, N * sizeof(int), stream));
        } while (again != memory && ++tries < 10);
        CHECK(cuMemsetD32Async(again, 100 + i, N, stream));
        CHECK(cuMemcpyDtoHAsync(&last, again + (N - 1) * sizeof(int), sizeof last, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuCtxSetCurrent(contexts[0]));
        CHECK(cuStreamSynchronize(stream));
        printf("%d %d\n", *first, last);
        REQUIRE(*first == i + 5 && last == 100 + i);
    }
    return 0;
}
