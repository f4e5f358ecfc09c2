// A kernel reads mapped memory, and the program takes no result to the CPU; with `unread` it gives the kernel a place in mapped memory for
// results, and ends before anybody has waited for them; with a number, so many launches
#include "check.h"

enum { N = 1024 };

int main(int argc, char **argv)
{
    int *mapped, n = N, i, is_unread = argc > 1 && !strcmp(argv[1], "unread");
    int launches = argc > 1 && !is_unread ? atoi(argv[1]) : 1;
    CUstream stream;
    CUdeviceptr memory;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemHostAlloc((void **)&mapped, N * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(N * sizeof(int));
    for (i = 0; i < N; i++)
        mapped[i] = i + 1;
    void *to = is_unread ? (void *)&mapped : &memory, *from = is_unread ? (void *)&memory : &mapped;
    while (launches--)
        CHECK(cuLaunchKernel(take, N / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){to, from, &n}, NULL));
    if (!is_unread)
        CHECK(cuStreamSynchronize(stream));
    return 0;
}
