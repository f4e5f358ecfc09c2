// Pinned memory that one thread's kernel finds in a list, and that another thread's callback writes for its graph
#include "check.h"
#include <pthread.h>

enum { WORDS = 1024 };

static CUcontext context;
static unsigned *shared, words = WORDS;

static void *take_list(void *unused)
{
    unsigned **list;
    CUfunction take;
    CUdeviceptr to;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    take = find_kernel(load_module("memory"), "take");
    to = allocate(WORDS * 4);
    CHECK(cuMemHostAlloc((void **)&list, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(list, 0, WORDS * 4);
    list[0] = shared;
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&to, &list, &words}, NULL));
    CHECK(cuStreamSynchronize(NULL));
    return NULL;
}

static void change(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS; i++)
        shared[i] = shared[i] * 5 + i;
}

int main(void)
{
    static unsigned back[WORDS];
    pthread_t thread;
    CUgraphExec executable;
    CUdeviceptr to;
    CUstream stream;
    CUgraph graph;

    context = start_driver();
    to = allocate(sizeof back);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&shared, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(shared, 1, sizeof back);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchHostFunc(stream, change, NULL));
    CHECK(cuMemcpyHtoDAsync(to + 40, shared + 10, sizeof back - 80, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    pthread_create(&thread, NULL, take_list, NULL);
    pthread_join(thread, NULL);
    for (int turn = 0; turn < 3; turn++) {
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(back, to, sizeof back));
        printf("%u ", back[WORDS / 2]);
    }
    puts("");
    return 0;
}
