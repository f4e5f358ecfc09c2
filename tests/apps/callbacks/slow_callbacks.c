// Callbacks that wait for the program, which meanwhile writes memory that other work reads; and one that never returns
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { N = 512, BYTES = N * sizeof(int) };
static volatile int go, ran;

static void CUDA_CB wait_for_it(void *unused)
{
    (void)unused;
    while (!go)
        usleep(1000);
}

static void CUDA_CB quick(void *unused)
{
    (void)unused;
    ran++;
}

// Its work is seen by others before it is done
static void CUDA_CB fill(void *place)
{
    int *numbers = place, i;

    usleep(2000);
    for (i = 0; i < N; i++)
        numbers[i] = 7 * i + 1;
    usleep(3000);
}

int main(int argc, char **argv)
{
    int *pinned, *filled, results[N], n = N, round, i;
    CUdeviceptr memory;
    CUstream stream, beside, third;
    int never = argc > 1 && !strcmp(argv[1], "never");

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memory = allocate(BYTES);
    memset(pinned, 1, BYTES);
    CHECK(cuMemAllocHost((void **)&filled, BYTES));
    memset(filled, 0, BYTES);
    CHECK(cuLaunchHostFunc(stream, fill, filled));
    CHECK(cuMemcpyHtoDAsync(memory, filled, BYTES, stream));
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        usleep(200);
    CHECK(cuMemcpyDtoH(results, memory, BYTES));
    REQUIRE(results[N - 1] == 7 * (N - 1) + 1);
    CHECK(cuLaunchKernel(take, 2, 1, 1, N / 2, 1, 1, 0, stream, (void *[]){&memory, &pinned, &n}, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLaunchHostFunc(beside, wait_for_it, NULL));
    usleep(never ? 30000 : 2000);
    for (round = 1; round < 6; round++) {
        // Another one has just been, while the first still waits
        CHECK(cuLaunchHostFunc(third, quick, NULL));
        while (ran < round)
            usleep(100);
        for (i = 0; i < N; i++)
            pinned[i] = 1000 * round + i;
        CHECK(cuLaunchKernel(take, 2, 1, 1, N / 2, 1, 1, 0, stream, (void *[]){&memory, &pinned, &n}, NULL));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoHAsync(results, memory, BYTES, stream));
        REQUIRE(results[0] == 1000 * round && results[N - 1] == 1000 * round + N - 1);
        // Longer than a callback is taken for the writer of what changes meanwhile
        if (round == 3 && !never)
            usleep(120000);
    }
    printf("%d\n", results[1]);
    fflush(stdout);
    if (never)
        _exit(0);
    go = 1;
    CHECK(cuStreamSynchronize(beside));
    return 0;
}
