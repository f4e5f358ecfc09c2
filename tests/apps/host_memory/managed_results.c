// A kernel writes managed memory, and the CPU looks there once it has waited, of which no call tells. What the program does then the first
// argument says: `free` the memory, `reset` the context, go on with another `launch`, or end by `exit` or by `quick` _exit; with `nobody` it
// does not look
#include "check.h"
#include <unistd.h>

enum { N = 4096 };

int main(int argc, char **argv)
{
    const char *then = argc > 1 ? argv[1] : "free";
    int *numbers = malloc(N * sizeof(int)), *results, n = N, i;
    CUdeviceptr memory, managed;
    unsigned sum = 0;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction take = find_kernel(module, "take"), pass = find_kernel(module, "pass");
    memory = allocate(N * sizeof(int));
    for (i = 0; i < N; i++)
        numbers[i] = 7 * (i + 1);
    CHECK(cuMemcpyHtoD(memory, numbers, N * sizeof(int)));
    CHECK(cuMemAllocManaged(&managed, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    results = (int *)managed;
    launch(pass, N / 256, 256, (void *[]){&memory, &n});
    launch(take, N / 256, 256, (void *[]){&managed, &memory, &n});
    CHECK(cuCtxSynchronize());
    for (i = 0; i < N && strcmp(then, "nobody"); i++) {
        REQUIRE(results[i] == (numbers[i] = numbers[i] * 3 + i));
        sum = sum * 31 + results[i];
    }
    if (!strcmp(then, "launch")) {
        launch(pass, N / 256, 256, (void *[]){&managed, &n});
        CHECK(cuCtxSynchronize());
        REQUIRE(results[N - 1] == numbers[N - 1] * 3 + N - 1);
    }
    printf("%u\n", sum);
    fflush(stdout);
    if (!strcmp(then, "free") || !strcmp(then, "launch"))
        CHECK(cuMemFree(managed));
    if (!strcmp(then, "reset"))
        CHECK(cuDevicePrimaryCtxReset(0));
    if (!strcmp(then, "quick"))
        _exit(0);
    return 0;
}
