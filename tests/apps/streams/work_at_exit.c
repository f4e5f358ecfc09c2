// Ends without waiting for its last work: graphs that copy to the host ("graph"), or a launch that faults ("fault")
#include "check.h"
#include <unistd.h>

enum { SIZE = 1 << 22, LAUNCHES = 40 };

static char host[SIZE];

static void copy_by_graphs(CUcontext context, CUdeviceptr memory)
{
    CUDA_MEMCPY3D copy = {0};
    CUgraphExec instance;
    CUgraphNode node;
    CUstream stream;
    CUgraph graph;

    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = memory;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    copy.WidthInBytes = SIZE;
    copy.Height = copy.Depth = 1;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cuGraphLaunch(instance, stream));
}

static void fault(CUdeviceptr memory)
{
    CUdeviceptr nowhere = 0x1234567000;
    void *arguments[] = {&memory, &memory, &nowhere, &(unsigned){64}};

    launch(find_kernel(load_module("vector_add"), "vector_add"), 1, 64, arguments);
}

int main(int count, char **arguments)
{
    char some[64];
    CUcontext context = start_driver();
    CUdeviceptr memory = allocate(SIZE);

    REQUIRE(count == 2);
    CHECK(cuMemsetD8(memory, 3, SIZE));
    CHECK(cuMemcpyDtoH(some, memory, sizeof some));
    if (strcmp(arguments[1], "graph") == 0)
        copy_by_graphs(context, memory);
    else
        fault(memory);
    _exit(0);
}
