// Kernels spin on pinned memory while a thread waits for them; another, which makes no call, lets them go, and the flag is taken back behind the wait
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static CUfunction kernel;
static unsigned *flag, result;

static void *let_go(void *unused)
{
    usleep(50000);
    *(volatile unsigned *)flag = 41;
    return unused;
}

// Waits for a kernel, and ends
static void *wait_for_one(void *given)
{
    long way = (long)given;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    pthread_t other;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr out = allocate(4);
    if (way == 2)
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    if (way == 2) {
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, stream));
    }
    REQUIRE(!pthread_create(&other, NULL, let_go, NULL));
    if (way == 0)
        CHECK(cuCtxSynchronize());
    else if (way == 1)
        CHECK(cuMemcpyDtoHAsync(&result, out, 4, stream)); // to pageable memory: it waits
    else
        CHECK(cuStreamSynchronize(stream));
    *flag = 0;
    CHECK(cuMemcpyDtoH(&result, out, 4));
    REQUIRE(!pthread_join(other, NULL));
    return NULL;
}

int main(int argc, char **argv)
{
    long way = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t thread;

    context = start_driver();
    kernel = find_kernel(load_module("faults"), "wait_for_host");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, 0));
    *flag = 0;
    REQUIRE(!pthread_create(&thread, NULL, wait_for_one, (void *)way));
    REQUIRE(!pthread_join(thread, NULL));
    printf("%u\n", result);
    REQUIRE(result == 42);
    return 0;
}
