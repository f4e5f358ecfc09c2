// A callback waits for a thread that fills pinned memory and makes no call; the copy behind it reads that. What is filled is found by calls
// of the main thread, which the callback does not wait for
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WORDS = 4096, ROUNDS = 8 };

static atomic_int asked, filled;
static unsigned *memory;

static void *fill(void *unused)
{
    (void)unused;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        while (asked < (int)round)
            ;
        for (unsigned i = 0; i < WORDS; i++)
            memory[i] = i * round + 7;
        filled = round;
    }
    return NULL;
}

static void CUDA_CB wait_for_it(void *round)
{
    while (filled < (int)(size_t)round)
        ;
    // The main thread's questions find it before this ends.
    struct timespec a_while = {.tv_nsec = 3000000};
    nanosleep(&a_while, NULL);
}

int main(void)
{
    unsigned back[WORDS], sum = 0;
    pthread_t thread;
    CUstream stream;
    CUevent other;

    start_driver();
    CUdeviceptr data = allocate(sizeof back);
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    REQUIRE(!pthread_create(&thread, NULL, fill, NULL));
    for (size_t round = 1; round <= ROUNDS; round++) {
        CHECK(cuLaunchHostFunc(stream, wait_for_it, (void *)round));
        CHECK(cuMemcpyHtoDAsync(data, memory, sizeof back, stream));
        asked = round;
        while (filled < (int)round)
            ;
        CHECK(cuEventQuery(other));
        CHECK(cuMemcpyDtoHAsync(back, data, sizeof back, stream));
        CHECK(cuStreamSynchronize(stream));
        for (unsigned i = 0; i < WORDS; i++)
            sum = sum * 31 + back[i];
    }
    pthread_join(thread, NULL);
    printf("%u\n", sum);
    return 0;
}
