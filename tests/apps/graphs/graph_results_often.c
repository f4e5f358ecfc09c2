// A graph copies many megabytes to pinned memory, and its host node looks at them: as often as the first argument says
#include "check.h"

enum { COPIES = 8, LEN = 1 << 20 };

static unsigned sum;

static void CUDA_CB look(void *data)
{
    const unsigned char *results = data;

    for (int copy = 0; copy < COPIES; copy++)
        sum = sum * 31 + results[copy * LEN + copy];
}

int main(int argc, char **argv)
{
    int launches = argc > 1 ? atoi(argv[1]) : 1;
    unsigned char *pinned;
    CUcontext context = start_driver();
    CUdeviceptr memory = allocate(COPIES * LEN);
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode copies[COPIES], node;

    CHECK(cuMemsetD8(memory, 7, COPIES * LEN));
    CHECK(cuMemAllocHost((void **)&pinned, COPIES * LEN));
    memset(pinned, 0, COPIES * LEN);
    CUDA_HOST_NODE_PARAMS host = {.fn = look, .userData = pinned};
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < COPIES; i++) {
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory + i * LEN,
            .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = pinned + i * LEN, .WidthInBytes = LEN, .Height = 1, .Depth = 1};

        CHECK(cuGraphAddMemcpyNode(&copies[i], graph, NULL, 0, &copy, context));
    }
    CHECK(cuGraphAddHostNode(&node, graph, copies, COPIES, &host));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < launches; launch++) {
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("%u\n", sum);
    return 0;
}
