// Calls of the driver in callbacks, which it refuses there: on a stream, with a status, and in a graph that is launched twice. Others
// that it answers anywhere
#include "check.h"

static CUstream other;
static CUdeviceptr memory;
static int failed[4], versions[4], times;

static void CUDA_CB ask(void *unused)
{
    CUdeviceptr none;

    (void)unused;
    failed[times] = cuStreamQuery(other) == CUDA_ERROR_NOT_PERMITTED;
    failed[times] += cuMemAlloc(&none, 256) == CUDA_ERROR_NOT_PERMITTED;
    CHECK(cuDriverGetVersion(&versions[times]));
    failed[times] += cuMemsetD32(memory, 1, 1) == CUDA_ERROR_NOT_PERMITTED;
    times++;
}

static void CUDA_CB with_status(CUstream stream, CUresult status, void *unused)
{
    (void)stream;
    REQUIRE(status == CUDA_SUCCESS);
    ask(unused);
}

int main(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 9, .elementSize = 4, .width = 1, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = ask};
    CUcontext context = start_driver();
    CUgraphNode node, filled;
    CUgraphExec exec;
    CUgraph graph;
    CUstream stream;
    unsigned found;
    int i;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    fill.dst = memory = allocate(4);
    CHECK(cuLaunchHostFunc(stream, ask, NULL));
    CHECK(cuMemsetD32Async(memory, 7, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamAddCallback(stream, with_status, NULL, 0));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
    CHECK(cuGraphAddMemsetNode(&filled, graph, &node, 1, &fill, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemcpyDtoH(&found, memory, 4));
    for (i = 0; i < times; i++)
        printf("%d refused of 3, version %d\n", failed[i], versions[i]);
    printf("%d times, %u\n", times, found);
    return 0;
}
