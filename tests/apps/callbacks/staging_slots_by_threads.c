// Staging slots of one piece of pinned memory, given back by callbacks, filled by one thread and copied from by others while kernels run
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

enum { SLOT = 64, SLOTS = 12, THREADS = 4, ROUNDS = 400 };

static unsigned char *memory;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, put = PTHREAD_MUTEX_INITIALIZER;
static char taken[SLOTS];
static CUstream copies, freer, launches;
static CUdeviceptr device;
static CUcontext context;
static struct { int slot, round; } queue[ROUNDS];
static atomic_int head, tail;

static int take(void)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < SLOTS; i++)
            if (!taken[i]) {
                taken[i] = 1;
                pthread_mutex_unlock(&lock);
                return i;
            }
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
}

static void CUDA_CB give(void *slot)
{
    pthread_mutex_lock(&lock);
    taken[(long)slot] = 0;
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
    CUevent event;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (;;) {
        int at = atomic_fetch_add(&tail, 1);
        if (at >= ROUNDS)
            return unused;
        while (at >= head)
            sched_yield();
        int slot = queue[at].slot;
        pthread_mutex_lock(&put);
        CHECK(cuMemcpyHtoDAsync(device + queue[at].round * SLOT, memory + slot * SLOT, SLOT, copies));
        pthread_mutex_unlock(&put);
        CHECK(cuEventRecord(event, copies));
        CHECK(cuStreamWaitEvent(freer, event, 0));
        CHECK(cuLaunchHostFunc(freer, give, (void *)(long)slot));
    }
}

int main(void)
{
    pthread_t threads[THREADS];
    static unsigned char back[ROUNDS * SLOT];
    unsigned sum = 0, turns = 20000, words = sizeof back / 4;

    start_driver();
    CHECK(cuCtxGetCurrent(&context));
    device = allocate(ROUNDS * SLOT);
    CHECK(cuMemHostAlloc((void **)&memory, SLOTS * SLOT, 0));
    memset(memory, 0, SLOTS * SLOT);
    CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&freer, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&launches, CU_STREAM_NON_BLOCKING));
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr number = allocate(sizeof(int)), to = allocate(sizeof back);
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = launches};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 8 == 0)
            CHECK(cuLaunchKernelEx(&config, busy, (void *[]){&turns, &number}, NULL));
        int slot = take(), len = round % 3 ? 8 : SLOT;
        for (int i = 0; i < len; i++)
            memory[slot * SLOT + i] = (round * 7 + i * round) >> 2;
        queue[round].slot = slot;
        queue[round].round = round;
        head = round + 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(find_kernel(load_module("memory"), "take"), words / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&to, &device, &words}, NULL));
    CHECK(cuMemcpyDtoH(back, to, sizeof back));
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < 8; j++)
            sum = sum * 31 + back[i * SLOT + j];
    for (int i = 0; i < ROUNDS; i += 3)
        for (int j = 0; j < SLOT; j++)
            sum = sum * 31 + back[i * SLOT + j];
    printf("%u\n", sum);
    return 0;
}
