// One thread puts a callback on its stream that writes pinned memory; another one's kernel, copy or graph, behind it by an event, reads that
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { WORDS = 1024, ROUNDS = 6 };

static unsigned *memory, round_now;
static CUcontext context;
static CUstream stream;
static CUevent written;

static void CUDA_CB write_all(void *unused)
{
    (void)unused;
    // Until the other's work has been put.
    usleep(3000);
    for (unsigned i = 0; i < WORDS; i++)
        memory[i] = i * round_now;
}

static void *call_back(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLaunchHostFunc(stream, write_all, NULL));
    CHECK(cuEventRecord(written, stream));
    return NULL;
}

int main(void)
{
    unsigned words = WORDS, sum = 0, taken[WORDS];
    CUgraphExec executable;
    pthread_t thread;
    CUgraph graph;
    CUstream own;

    context = start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr to = allocate(sizeof taken);
    CHECK(cuMemHostAlloc((void **)&memory, sizeof taken, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, 0, sizeof taken);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    CHECK(cuLaunchKernel(take, words / 128, 1, 1, 128, 1, 1, 0, own, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuStreamSynchronize(own));
    CHECK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(take, words / 128, 1, 1, 128, 1, 1, 0, own, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuStreamEndCapture(own, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (round_now = 1; round_now <= ROUNDS; round_now++) {
        REQUIRE(pthread_create(&thread, NULL, call_back, NULL) == 0);
        pthread_join(thread, NULL);
        CHECK(cuStreamWaitEvent(own, written, 0));
        if (round_now % 3 == 0)
            CHECK(cuGraphLaunch(executable, own));
        else if (round_now % 3 == 1)
            CHECK(cuMemcpyHtoDAsync(to, memory, sizeof taken, own));
        else
            CHECK(cuLaunchKernel(take, words / 128, 1, 1, 128, 1, 1, 0, own, (void *[]){&to, &memory, &words}, NULL));
        CHECK(cuStreamSynchronize(own));
        CHECK(cuMemcpyDtoH(taken, to, sizeof taken));
        for (int i = 0; i < WORDS; i++)
            sum = sum * 31 + taken[i];
    }
    printf("%u\n", sum);
    return 0;
}
