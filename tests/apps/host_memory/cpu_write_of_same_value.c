// Managed memory, more pinned memory than is looked at, and pinned memory in a graph that another thread made, which the CPU sets to what it was
// before each launch that changes it
#include "check.h"
#include <pthread.h>

enum { WORDS = 1 << 19, TURNS = 3 };

static CUcontext context;
static CUstream stream;
static CUfunction pass;
static CUgraphExec executable;
static CUdeviceptr to;
static unsigned back[WORDS], *shared, few = 1024;

static void *launch_graph(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    for (int turn = 0; turn < TURNS; turn++) {
        for (unsigned i = 0; i < few; i++)
            shared[i] = 7;
        // Before it on the same stream what cannot have changed that memory
        CHECK(cuLaunchKernel(pass, few / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &few}, NULL));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuMemcpyDtoDAsync(to, (CUdeviceptr)shared, few * 4, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(back, to, few * 4));
        printf("%u ", back[few - 1]);
    }
    return NULL;
}

int main(void)
{
    unsigned words = WORDS, *memory[2];
    pthread_t thread;
    CUgraph graph;

    start_driver();
    pass = find_kernel(load_module("memory"), "pass");
    to = allocate(sizeof back);
    CHECK(cuMemAllocManaged((CUdeviceptr *)&memory[0], sizeof back, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemHostAlloc((void **)&memory[1], sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int kind = 0; kind < 2; kind++)
        for (int turn = 0; turn < TURNS; turn++) {
            for (int i = 0; i < WORDS; i++)
                memory[kind][i] = 7;
            CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&memory[kind], &words}, NULL));
            CHECK(cuMemcpyDtoD(to, (CUdeviceptr)memory[kind], sizeof back));
            CHECK(cuMemcpyDtoH(back, to, sizeof back));
            printf("%u ", back[WORDS - 1]);
        }

    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&shared, few * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchKernel(pass, few / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&shared, &few}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    pthread_create(&thread, NULL, launch_graph, NULL);
    pthread_join(thread, NULL);
    puts("");
    return 0;
}
