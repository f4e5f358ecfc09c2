// A graph whose kernel writes pinned memory that two threads have used, and whose callback makes of it what the launch before had left there;
// or the same without a graph ("plain"), or in the graph of the other thread ("other")
#include "check.h"
#include <pthread.h>

enum { N = 1024, LAUNCHES = 3 };

static CUcontext context;
static unsigned *memory;
static CUdeviceptr in, out;
static CUfunction take;
static CUstream stream;

static void CUDA_CB change(void *unused)
{
    (void)unused;
    for (int i = 0; i < N; i++)
        memory[i] = memory[i] * 5 + 1;
}

static void put(void)
{
    int n = N;

    CHECK(cuLaunchKernel(take, N / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &in, &n}, NULL));
    CHECK(cuLaunchHostFunc(stream, change, NULL));
    CHECK(cuLaunchKernel(take, N / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out, &memory, &n}, NULL));
}

static CUgraphExec capture(void)
{
    CUgraph graph;
    CUgraphExec executable;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    put();
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    return executable;
}

static void *use(void *executable)
{
    int n = N;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLaunchKernel(take, N / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&in, &memory, &n}, NULL));
    CHECK(cuStreamSynchronize(stream));
    if (executable)
        *(CUgraphExec *)executable = capture();
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned found[N];
    char how = argc > 1 ? argv[1][0] : 'g';
    pthread_t other;
    CUgraphExec executable = NULL;

    context = start_driver();
    take = find_kernel(load_module("memory"), "take");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&memory, N * sizeof *memory, 0));
    in = allocate(N * sizeof *memory);
    out = allocate(N * sizeof *memory);
    for (int i = 0; i < N; i++)
        memory[i] = i * 7;
    if (how == 'g')
        executable = capture();
    pthread_create(&other, NULL, use, how == 'o' ? &executable : NULL);
    pthread_join(other, NULL);
    for (int launch = 0; launch < LAUNCHES; launch++) {
        if (executable)
            CHECK(cuGraphLaunch(executable, stream));
        else
            put();
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(found, out, sizeof found));
        for (int i = 0; i < N; i++)
            REQUIRE(found[i] == i * 35u + 1);
    }
    printf("%u\n", found[N - 1]);
    return 0;
}
