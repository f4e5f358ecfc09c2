// Managed memory, and more pinned memory than is looked at, which the CPU sets to what it was before each launch that changes it
#include "check.h"

enum { WORDS = 1 << 19, TURNS = 3 };

int main(void)
{
    static unsigned back[WORDS];
    unsigned words = WORDS, *memory[2];

    start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass");
    CUdeviceptr to = allocate(sizeof back);
    CHECK(cuMemAllocManaged((CUdeviceptr *)&memory[0], sizeof back, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemHostAlloc((void **)&memory[1], sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int kind = 0; kind < 2; kind++)
        for (int turn = 0; turn < TURNS; turn++) {
            for (int i = 0; i < WORDS; i++)
                memory[kind][i] = 7;
            CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&memory[kind], &words}, NULL));
            CHECK(cuMemcpyDtoD(to, (CUdeviceptr)memory[kind], sizeof back));
            CHECK(cuMemcpyDtoH(back, to, sizeof back));
            printf("%u ", back[WORDS - 1]);
        }
    puts("");
    return 0;
}
