// Host nodes put into graphs, asked about and changed in every form that the driver has
#include "check.h"

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
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&result, memory + sizeof(int), sizeof result));
    REQUIRE(result == 2);

    next.host.fn = count_twice;
    CHECK(cuGraphExecNodeSetParams(exec, second, &next));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&result, memory + sizeof(int), sizeof result));
    REQUIRE(result == 5);
    printf("%d\n", result);
    return 0;
}
