// Two threads use parts of one piece of pinned memory: one has kernels work in its part and waits for each, the other first writes its own, which a
// kernel takes over, and then has graphs work there
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WORDS = 1 << 18, PART = 1 << 10, ROUNDS = 60 };

static unsigned *memory;
static CUcontext context;
static CUfunction pass, take;
static atomic_int done;

static void *work(void *unused)
{
    unsigned words = PART;
    CUstream stream;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!done) {
        CHECK(cuLaunchKernel(pass, words / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

int main(void)
{
    unsigned words = PART, sum = 0, *own, taken[PART];
    CUgraphExec executable;
    pthread_t thread;
    CUstream stream;
    CUgraph graph;

    context = start_driver();
    CUmodule module = load_module("memory");
    pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUdeviceptr to = allocate(sizeof taken);
    CHECK(cuMemHostAlloc((void **)&memory, WORDS * sizeof *memory, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, 0, WORDS * sizeof *memory);
    own = memory + WORDS - PART;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(pass, words / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&own, &words}, NULL));
    CHECK(cuLaunchKernel(take, words / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &own, &words}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        if (round > ROUNDS / 2) {
            CHECK(cuGraphLaunch(executable, stream));
        } else {
            for (int i = 0; i < PART; i++)
                own[i] = round * i;
            CHECK(cuLaunchKernel(take, words / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &own, &words}, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(taken, to, sizeof taken));
        for (int i = 0; i < PART; i++)
            sum = sum * 31 + taken[i];
    }
    done = 1;
    pthread_join(thread, NULL);
    printf("%u\n", sum);
    return 0;
}
