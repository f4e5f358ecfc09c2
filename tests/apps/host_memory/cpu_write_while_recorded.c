// Memory that a kernel is given for the first time is recorded as a whole; just then another thread fills a part of it, waits, and is done
#include "check.h"
#include <pthread.h>

enum { WORDS = 1 << 18, PART = 1 << 10, ROUNDS = 40 };

static unsigned *memory;
static CUcontext context;
static pthread_barrier_t begins, ends;

static void *fill(void *unused)
{
    CUstream stream;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        pthread_barrier_wait(&begins);
        for (int part = 16; part < 20; part++) {
            CHECK(cuMemsetD32Async((CUdeviceptr)(memory + part * PART), round * part, PART, stream));
            CHECK(cuStreamSynchronize(stream));
        }
        pthread_barrier_wait(&ends);
    }
    return NULL;
}

int main(void)
{
    unsigned words = PART, sum = 0, filled[4 * PART];
    pthread_t thread;
    CUstream stream;

    context = start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass");
    CUdeviceptr copy = allocate(sizeof filled);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(pthread_barrier_init(&begins, NULL, 2) == 0 && pthread_barrier_init(&ends, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, fill, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuMemHostAlloc((void **)&memory, WORDS * sizeof *memory, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
        memset(memory, round, WORDS * sizeof *memory);
        pthread_barrier_wait(&begins);
        CHECK(cuLaunchKernel(pass, words / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
        CHECK(cuStreamSynchronize(stream));
        pthread_barrier_wait(&ends);
        CHECK(cuMemcpyDtoD(copy, (CUdeviceptr)(memory + 16 * PART), sizeof filled));
        CHECK(cuMemcpyDtoH(filled, copy, sizeof filled));
        for (int i = 0; i < 4 * PART; i++)
            sum = sum * 31 + filled[i];
        CHECK(cuMemFreeHost(memory));
    }
    pthread_join(thread, NULL);
    printf("%u\n", sum);
    return 0;
}
