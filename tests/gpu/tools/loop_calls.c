// The same calls again and again from a C loop, timed: to be compared with replay --loop of its trace (compare_loop.py).
// Prints a line for each kind of calls: name, calls, and the median of nanoseconds until the last call had returned.
#include "check.h"
#include <nvtx3/nvToolsExt.h>
#include <time.h>

enum { ROUNDS = 60, CALLS = 500, N = 32 };

static CUfunction function;
static CUstream stream;
static CUevent event;
static void **arguments, **own[CALLS];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void queries(void)
{
    for (int call = 0; call < CALLS; call++) {
        CUcontext current;
        CHECK(cuCtxGetCurrent(&current));
    }
}

static void launches(void)
{
    for (int call = 0; call < CALLS; call++)
        CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
}

// As a program's are: every launch with arguments of its own, somewhere in memory.
static void scattered(void)
{
    for (int call = 0; call < CALLS; call++)
        CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, own[call], NULL));
}

static void mixed(void)
{
    for (int call = 0; call < CALLS; call += 5) {
        CUcontext current;
        int device;
        CHECK(cuCtxGetCurrent(&current));
        CHECK(cuCtxGetDevice(&device));
        CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuEventRecord(event, stream));
        CHECK(cuStreamWaitEvent(stream, event, 0));
    }
}

static int by_value(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static void timed(const char *name, void (*calls)(void))
{
    double times[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuCtxSynchronize());
        nvtxRangePushA(name);
        double begin = now();
        calls();
        times[round] = now() - begin;
        nvtxRangePop();
    }
    CHECK(cuCtxSynchronize());
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("%s %d %.0f\n", name, CALLS, times[ROUNDS / 2]);
}

int main(void)
{
    unsigned n = N;

    start_driver();
    function = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(4 * N), b = allocate(4 * N), c = allocate(4 * N);
    void *values[] = {&a, &b, &c, &n};
    arguments = values;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    timed("queries", queries);
    for (int call = 0; call < CALLS; call++) {
        own[call] = malloc(4 * sizeof *own[call]);
        for (int at = 0; at < 4; at++) {
            own[call][at] = malloc(64);
            memcpy(own[call][at], values[at], at == 3 ? sizeof n : sizeof a);
        }
    }
    timed("launches", launches);
    timed("scattered", scattered);
    timed("mixed", mixed);
    return 0;
}
