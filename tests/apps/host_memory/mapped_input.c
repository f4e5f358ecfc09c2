// Kernels read pinned, registered and managed memory that the CPU changes between launches, by stores alone
#include "check.h"
#include <sys/mman.h>

enum { N = 1024 };

int main(void)
{
    void *pinned, *registered;
    CUdeviceptr managed, device, seen;
    int results[N], n = N, round, i;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction copy = find_kernel(module, "take");
    CHECK(cuMemHostAlloc(&pinned, N * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    registered = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cuMemHostRegister((char *)registered + 256, N * sizeof(int), CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemAllocManaged(&managed, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    device = allocate(N * sizeof(int));
    int *places[] = {pinned, (int *)((char *)registered + 256), (int *)managed};
    for (round = 0; round < 3; round++) {
        for (i = 0; i < 3; i++) {
            CUdeviceptr from;
            int k;

            for (k = 0; k < N; k += round ? 100 : 1)
                places[i][k] = 1000 * round + 10 * i + k;
            if (i < 2)
                CHECK(cuMemHostGetDevicePointer(&from, places[i], 0));
            else
                from = managed;
            launch(copy, N / 128, 128, (void *[]){&device, &from, &n});
            CHECK(cuMemcpyDtoH(results, device, sizeof results));
            for (k = 0; k < N; k++)
                REQUIRE(results[k] == places[i][k]);
        }
    }
    // The other way: the kernel writes managed memory, and the CPU looks without a copy
    seen = managed;
    launch(copy, N / 128, 128, (void *[]){&seen, &places[0], &n});
    CHECK(cuCtxSynchronize());
    REQUIRE(((int *)managed)[N - 1] == places[0][N - 1]);
    printf("%d\n", ((int *)managed)[900]);
    CHECK(cuMemFree(managed));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemHostUnregister(places[1]));
    return 0;
}
