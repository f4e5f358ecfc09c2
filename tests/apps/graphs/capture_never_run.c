// A capture that never runs, with a memset of an address where nothing is: XLA has cuDNN make such graphs to look at them
#include "check.h"

int main(void)
{
    unsigned char bytes[64];
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphNode nodes[4];
    CUgraphNodeType type;
    CUstream stream;
    size_t count = 4;

    start_driver();
    memory = allocate(sizeof bytes);
    CHECK(cuMemsetD8(memory, 7, sizeof bytes));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD8Async(0xe12a0, 0, 512, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    CHECK(cuGraphNodeGetType(nodes[0], &type));
    printf("%zu nodes, the first of type %d\n", count, type);
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
    REQUIRE(bytes[63] == 7);
    return 0;
}
