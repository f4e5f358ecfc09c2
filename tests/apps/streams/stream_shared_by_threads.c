// Threads that put copies to the host and callbacks behind them into one stream, each waiting for its own: calls that overlap, in an order
// that nobody sees
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 8, ROUNDS = 50 };

static CUstream stream;
static unsigned *slots;
static CUdeviceptr data;
static CUcontext context;

static void CUDA_CB arrived(void *semaphore)
{
    sem_post((sem_t *)semaphore);
}

static void *work(void *number)
{
    size_t thread = (size_t)number;
    unsigned sum = 0;
    sem_t semaphore;

    sem_init(&semaphore, 0, 0);
    CHECK(cuCtxSetCurrent(context));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        CHECK(cuMemsetD32Async(data + thread * 4, thread * 1000 + round, 1, stream));
        CHECK(cuMemcpyDtoHAsync(&slots[thread], data + thread * 4, 4, stream));
        CHECK(cuLaunchHostFunc(stream, arrived, &semaphore));
        while (sem_wait(&semaphore))
            ;
        sum = sum * 31 + slots[thread];
    }
    return (void *)(size_t)sum;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned sum = 0;
    void *part;

    context = start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&slots, THREADS * sizeof *slots, 0));
    data = allocate(THREADS * sizeof *slots);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &part);
        sum = sum * 31 + (unsigned)(size_t)part;
    }
    printf("%u\n", sum);
    return 0;
}
