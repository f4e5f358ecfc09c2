// Callbacks that prepare what later copies read, take away what earlier ones brought, and count the runs of a graph
#include "check.h"
#include <pthread.h>

enum { N = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int *staging, taken[N], done, runs;

static void CUDA_CB prepare(void *value)
{
    int i;

    for (i = 0; i < N; i++)
        staging[i] = (int)(size_t)value + i;
}

static void CUDA_CB take_away(void *unused)
{
    (void)unused;
    memcpy(taken, staging, sizeof taken);
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void CUDA_CB with_status(CUstream stream, CUresult status, void *unused)
{
    (void)stream;
    REQUIRE(status == CUDA_SUCCESS);
    take_away(unused);
}

static void CUDA_CB count(void *place)
{
    *(int *)place = ++runs;
}

static void wait_until(int wanted)
{
    pthread_mutex_lock(&lock);
    while (done < wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    int results[N], *counted, i, round;
    CUdeviceptr memory, other;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode host, copy;
    CUstream stream;
    CUcontext context = start_driver();

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&staging, sizeof results));
    CHECK(cuMemAllocHost((void **)&counted, sizeof(int)));
    memory = allocate(sizeof results);
    other = allocate(sizeof results);
    memset(staging, 0, sizeof results);

    // The copy is enqueued before its source is written
    CHECK(cuLaunchHostFunc(stream, prepare, (void *)100));
    CHECK(cuMemcpyHtoDAsync(memory, staging, sizeof results, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(results, memory, sizeof results));
    REQUIRE(results[7] == 107);

    // The buffer is used again as soon as the callback has told, without any call
    for (round = 0; round < 4; round++) {
        CHECK(cuMemsetD32Async(memory, 1000 + round, N, stream));
        CHECK(cuMemcpyDtoHAsync(staging, memory, sizeof results, stream));
        if (round % 2)
            CHECK(cuLaunchHostFunc(stream, take_away, NULL));
        else
            CHECK(cuStreamAddCallback(stream, with_status, NULL, 0));
        wait_until(round + 1);
        REQUIRE(taken[N - 1] == 1000 + round);
        for (i = 0; i < N; i++)
            staging[i] = round;
        CHECK(cuMemcpyHtoDAsync(other, staging, sizeof results, stream));
        CHECK(cuStreamSynchronize(stream));
    }

    // Through pinned memory and back, with nobody waiting in between
    memset(staging, 0, sizeof results);
    CHECK(cuMemsetD32Async(memory, 77, N, stream));
    CHECK(cuMemcpyDtoHAsync(staging, memory, sizeof results, stream));
    CHECK(cuMemcpyHtoDAsync(other, staging, sizeof results, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(results, other, sizeof results));
    REQUIRE(results[0] == 77 && results[N - 1] == 77);

    // A node of a graph
    CUDA_HOST_NODE_PARAMS node = {count, counted}, asked;
    CUDA_MEMCPY3D params = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = counted, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = memory, .WidthInBytes = sizeof(int), .Height = 1, .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddHostNode(&host, graph, NULL, 0, &node));
    CHECK(cuGraphHostNodeGetParams(host, &asked));
    REQUIRE(asked.fn == count && asked.userData == counted);
    CHECK(cuGraphAddMemcpyNode(&copy, graph, &host, 1, &params, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (round = 1; round <= 3; round++) {
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(results, memory, sizeof(int)));
        REQUIRE(results[0] == round);
    }
    printf("%d %d %d\n", taken[0], results[0], runs);
    return 0;
}
