// The CPU writes managed memory that a kernel was given, and the device takes it back at the end of the next kernel: when the program has
// waited, no page tells of it
#include "check.h"

enum { N = 1024 };

int main(void)
{
    volatile int *words, *flag;
    int n = N / 2, one = 1, round;
    unsigned rounds = 100000, many = 1500000;
    CUdeviceptr managed, memory, other, place;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take"), busy = find_kernel(load_module("faults"), "busy");
    memory = allocate(N * sizeof(int));
    other = allocate(N * sizeof(int));
    CHECK(cuMemAllocManaged(&managed, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    words = (int *)managed;
    CHECK(cuMemHostAlloc((void **)&flag, sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&place, (void *)flag, 0));
    *flag = 0;
    for (round = 1; round <= 3; round++) {
        CHECK(cuMemsetD32(memory, round, N));
        CHECK(cuCtxSynchronize());
        // Until all is put
        launch(busy, 1, 1, (void *[]){&many, &other});
        launch(take, 2, 256, (void *[]){&managed, &memory, &n});
        launch(busy, 1, 1, (void *[]){&rounds, &other});
        launch(take, 1, 1, (void *[]){&place, &memory, &one});
        while (words[0] != round)
            ;
        words[N - 1] += round;
        while (*flag != round)
            ;
        CHECK(cuCtxSynchronize());
    }
    REQUIRE(words[0] == 3 && words[N - 1] == 6);
    printf("%d\n", words[N - 1]);
    return 0;
}
