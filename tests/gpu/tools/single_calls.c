// What one kind of call costs, nanoseconds each, when nothing came before it: the least of five rounds, and where the kernel of
// the machine had to help (page faults). A recorder that has much to write works on it for a while: in one process, what comes
// first counts against what follows.
#define _GNU_SOURCE
#include "check.h"
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 5 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "current";
    int round, i, calls = strcmp(kind, "launch") ? 50000 : 10000;
    double least = 1e18, begun, taken;
    long before;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    CUfunction function;
    unsigned nothing = 0;
    void *arguments[] = {&memory, &memory, &memory, &nothing};

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    function = find_kernel(load_module("vector_add"), "vector_add");
    memory = allocate(4096);
    before = faults();
    for (round = 0; round < ROUNDS; round++) {
        begun = now();
        if (!strcmp(kind, "current"))
            for (i = 0; i < calls; i++)
                cuCtxGetCurrent(&context);
        else if (!strcmp(kind, "query"))
            for (i = 0; i < calls; i++)
                cuStreamQuery(stream);
        else if (!strcmp(kind, "event"))
            for (i = 0; i < calls; i++)
                cuEventRecord(event, stream);
        else
            for (i = 0; i < calls; i++)
                cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
        taken = (now() - begun) / calls;
        least = taken < least ? taken : least;
        CHECK(cuCtxSynchronize());
    }
    printf("%.1f ns, %ld page faults\n", least, faults() - before);
    return 0;
}
