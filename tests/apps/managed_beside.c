// Managed memory that the CPU has set is written by a kernel and, beside it, by the CPU, in different words
#include "check.h"

enum { N = 1024 };

int main(void)
{
    int *words, n = N / 2;
    CUdeviceptr managed, memory;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    memory = allocate(N * sizeof(int));
    CHECK(cuMemsetD32(memory, 5, N));
    CHECK(cuMemAllocManaged(&managed, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    words = (int *)managed;
    memset(words, 0, N * sizeof(int));
    CHECK(cuCtxSynchronize());
    for (int round = 0; round < 3; round++) {
        launch(take, 2, 256, (void *[]){&managed, &memory, &n});
        words[N - 1] += round + 1;
        CHECK(cuCtxSynchronize());
        REQUIRE(words[0] == 5 && words[N - 1] == (round + 1) * (round + 2) / 2);
    }
    printf("%d\n", words[N - 1]);
    return 0;
}
