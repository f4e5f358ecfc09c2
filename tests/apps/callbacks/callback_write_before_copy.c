// A callback writes pinned memory that a copy behind it in the stream reads, while another thread already waits within a copy to the same
// memory, which the driver was given when the callback had been handed over
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { WORDS = 4096, BYTES = WORDS * 4 };

static unsigned *pinned;
static volatile int put, begun;
static CUdeviceptr data;
static CUcontext context;

static void CUDA_CB gate(void *unused)
{
    (void)unused;
    while (!put)
        usleep(100);
    begun = 1;
    usleep(50000);
}

static void CUDA_CB fill(void *unused)
{
    (void)unused;
    for (int word = 0; word < WORDS; word++)
        pinned[word] = word * 7 + 100;
}

static void *copy(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    while (!begun)
        ;
    CHECK(cuMemcpyDtoH(pinned, data, BYTES / 2));
    return unused;
}

int main(void)
{
    unsigned results[WORDS];
    CUdeviceptr back;
    pthread_t other;

    start_driver();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 0, BYTES);
    data = allocate(BYTES), back = allocate(BYTES);
    CHECK(cuMemsetD32(data, 5, WORDS));
    CHECK(cuMemcpyHtoD(back, pinned, BYTES));
    pthread_create(&other, NULL, copy, NULL);
    CHECK(cuLaunchHostFunc(NULL, gate, NULL));
    CHECK(cuLaunchHostFunc(NULL, fill, NULL));
    CHECK(cuMemcpyHtoDAsync(back, pinned, BYTES, NULL));
    put = 1;
    pthread_join(other, NULL);
    CHECK(cuMemcpyDtoH(results, back, BYTES));
    printf("%u %u %u %u\n", results[0], results[WORDS - 1], pinned[0], pinned[WORDS - 1]);
    return 0;
}
