// Asks over and over which context is current, and what a device can do; with the answer changing, two things in turn, and launches and more in between
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static CUcontext context, found;
static unsigned long currents, attributes, devices;

static void ask_alike(CUcontext wanted, int times)
{
    for (int i = 0; i < times; i++) {
        CHECK(cuCtxGetCurrent(&found));
        REQUIRE(found == wanted);
    }
    currents += times;
}

static void ask_attribute(CUdevice_attribute which, int times)
{
    int value;

    for (int i = 0; i < times; i++)
        CHECK(cuDeviceGetAttribute(&value, which, 0));
    attributes += times;
}

// Frameworks do so before each launch, from places with stacks of other depths.
static void ask_in_turn(int depth)
{
    volatile char frame[512];
    CUcontext own = NULL;
    CUdevice device = -1;

    frame[0] = (char)depth;
    (void)frame;
    if (depth > 0) {
        ask_in_turn(depth - 1);
        return;
    }
    CHECK(cuCtxGetDevice(&device));
    REQUIRE(device == 0);
    CHECK(cuCtxGetCurrent(&own));
    REQUIRE(own == context);
    currents++, devices++;
}

enum { NOBODY, ALLOCATE, FREE, END };
static int turn;

static void give_turn(int to)
{
    __atomic_store_n(&turn, to, __ATOMIC_RELEASE);
    while (to != END && __atomic_load_n(&turn, __ATOMIC_ACQUIRE) != NOBODY)
        sched_yield();
}

static void *allocates(void *unused)
{
    CUdeviceptr memory = 0;
    int now;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) != END) {
        if (now == ALLOCATE)
            memory = allocate(32 << 20);
        else if (now == FREE)
            CHECK(cuMemFree(memory));
        if (now != NOBODY)
            __atomic_store_n(&turn, NOBODY, __ATOMIC_RELEASE);
        else
            sched_yield();
    }
    return NULL;
}

static void interrupts(int signal)
{
    struct timespec time = {0, 300000};

    (void)signal;
    nanosleep(&time, NULL);
}

// How much memory is free: some of the questions take long, and behind a launch there is another answer.
static void ask_behind_launches(CUfunction function, void **arguments)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    pthread_t other;
    size_t free, all;
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_create(&other, NULL, allocates, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    signal(SIGALRM, interrupts);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 600; i++) {
        for (int k = 0; k < 3; k++)
            CHECK(cuMemGetInfo(&free, &all));
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, NULL));
        give_turn(i % 2 ? FREE : ALLOCATE);
        CHECK(cuMemGetInfo(&free, &all));
        CHECK(cuCtxSynchronize());
    }
    setitimer(ITIMER_REAL, &never, NULL);
    give_turn(END);
    pthread_join(other, NULL);
}

int main(void)
{
    CUcontext other;
    int unlike[2], back = 0;

    context = start_driver();
    ask_alike(context, 1000);
    // Another thing is asked, and the same with its answer elsewhere.
    ask_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000);
    ask_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1000);
    for (int i = 0; i < 2; i++)
        CHECK(cuDeviceGetAttribute(&unlike[i], CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    attributes += 2;
    // The answer changes between one and the next.
    CHECK(cuCtxPopCurrent(&other));
    ask_alike(NULL, 10);
    CHECK(cuCtxPushCurrent(context));
    ask_alike(context, 10);
    // One that fails each time.
    for (int i = 0; i < 3; i++)
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL));
    currents += 3;
    for (int i = 0; i < 500; i++)
        ask_in_turn(i % 7);
    // What was asked in turn before is likely to be again.
    for (int i = 0; i < 12; i++) {
        if (i % 4 == 0)
            CHECK(cuCtxSetCurrent(context));
        ask_in_turn(i);
    }
    // A poll stands for itself where a question comes before it, and has no others beside it.
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamQuery(stream));
    ask_alike(context, 1);
    for (int i = 0; i < 100; i++)
        CHECK(cuStreamQuery(stream));
    CUdeviceptr memory = allocate(4);
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    unsigned none = 0;
    int blocks;
    void *arguments[] = {&memory, &memory, &memory, &none};
    for (int i = 0; i < 200; i++) {
        ask_in_turn(i % 7);
        if (i % 4 == 0)
            CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 32, 0, 0));
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    }
    CHECK(cuStreamSynchronize(stream));
    ask_behind_launches(function, arguments);
    CHECK(cuMemsetD32(memory, 5, 1));
    CHECK(cuMemcpyDtoH(&back, memory, 4));
    REQUIRE(back == 5);
    printf("%lu %lu %lu\n", currents, attributes, devices);
    return 0;
}
