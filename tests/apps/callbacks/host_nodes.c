// Host nodes put into graphs, asked about and changed in every form that the driver has
#include "check.h"
#include <unistd.h>

static int runs;

static void CUDA_CB count(void *place)
{
    *(int *)place = ++runs;
}

static void CUDA_CB count_twice(void *place)
{
    runs++;
    count(place);
}

// Whether the driver's picture of the graph has the two among its numbers. How it draws them is the driver's business; it has to be
// the same for a program that is recorded.
static void shown(CUgraph graph, CUhostFn function, void *data)
{
    static char drawn[1 << 16];
    char path[] = "graph-XXXXXX", number[32];
    int file = mkstemp(path);

    REQUIRE(file >= 0);
    CHECK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS));
    ssize_t length = read(file, drawn, sizeof drawn - 1);
    REQUIRE(length > 0 && !close(file) && !unlink(path));
    drawn[length] = 0;
    snprintf(number, sizeof number, "%p", (void *)function);
    printf("function %sshown, ", strstr(drawn, number) ? "" : "not ");
    snprintf(number, sizeof number, "%p", data);
    printf("data %sshown\n", strstr(drawn, number) ? "" : "not ");
}

int main(void)
{
    int *counted, result = 0;
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode host, second, copy;
    CUcontext context = start_driver();

    CHECK(cuMemAllocHost((void **)&counted, 2 * sizeof(int)));
    memset(counted, 0, 2 * sizeof(int));
    memory = allocate(2 * sizeof(int));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = count, .userData = counted}};
    CUgraphNodeParams next = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = count, .userData = counted + 1}};
    CUgraphEdgeData edge = {0};
    CUDA_MEMCPY3D take = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = counted, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = memory, .WidthInBytes = 2 * sizeof(int), .Height = 1, .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddNode_v2(&host, graph, NULL, NULL, 0, &params));
    REQUIRE(params.host.fn == count && params.host.userData == counted);
    CHECK(cuGraphAddNode_v2(&second, graph, &host, &edge, 1, &next));
    CHECK(cuGraphAddMemcpyNode(&copy, graph, &second, 1, &take, context));
    CUDA_HOST_NODE_PARAMS asked;
    CHECK(cuGraphHostNodeGetParams(second, &asked));
    REQUIRE(asked.fn == count && asked.userData == counted + 1);
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    shown(graph, count, counted);
    shown(graph, count, counted + 1);
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&result, memory + sizeof(int), sizeof result));
    REQUIRE(result == 2);

    next.host.fn = count_twice;
    CHECK(cuGraphExecNodeSetParams(exec, second, &next));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&result, memory + sizeof(int), sizeof result));
    REQUIRE(result == 5);

    // Made by a capture, copied, and made again from what is asked
    CUstream stream;
    CUgraph captured, copied;
    size_t one = 1;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchHostFunc(stream, count_twice, counted));
    CHECK(cuStreamEndCapture(stream, &captured));
    CHECK(cuGraphClone(&copied, captured));
    CHECK(cuGraphGetNodes(copied, &host, &one));
    CHECK(cuGraphHostNodeGetParams(host, &asked));
    REQUIRE(asked.fn == count_twice && asked.userData == counted);
    CHECK(cuGraphAddHostNode(&second, copied, &host, 1, &asked));
    CHECK(cuGraphHostNodeGetParams(second, &asked));
    REQUIRE(asked.fn == count_twice && asked.userData == counted);
    shown(copied, count_twice, counted);
    CHECK(cuGraphInstantiate(&exec, copied, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    REQUIRE(*counted == 9);
    printf("%d\n", result);
    return 0;
}
