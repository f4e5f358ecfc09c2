// Threads that each write pinned memory of their own and have a kernel read it: what one thread wrote another's call may find, and
// be so long about it that the launch that it was not written for has been waited for when it comes to the bytes
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 8, N = 4096, WRITTEN = 16 * N };
static CUcontext context;
static CUfunction take;

static void *work(void *number)
{
    int id = (int)(size_t)number, *pinned, *results = malloc(N * sizeof(int)), n = N, round, i;
    CUdeviceptr memory;
    CUstream stream;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, WRITTEN * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    memory = allocate(N * sizeof(int));
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < WRITTEN; i++)
            pinned[i] = id * 1000003 + round * 17 + i;
        CHECK(cuLaunchKernel(take, N / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){&memory, &pinned, &n}, NULL));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoHAsync(results, memory, N * sizeof(int), stream));
        for (i = 0; i < N; i++)
            REQUIRE(results[i] == id * 1000003 + round * 17 + i);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t i;

    context = start_driver();
    take = find_kernel(load_module("memory"), "take");
    for (i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
