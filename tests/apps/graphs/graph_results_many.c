// A graph that copies twelve megabytes to ordinary memory, in pieces of one, and is launched twice
#include "check.h"

enum { PIECES = 12, PIECE = 1 << 20 };

int main(void)
{
    char *results = malloc(PIECES * PIECE);
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUcontext context = start_driver();
    CUdeviceptr memory = allocate(PIECES * PIECE);
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .WidthInBytes = PIECE, .Height = 1, .Depth = 1};

    CHECK(cuGraphCreate(&graph, 0));
    for (size_t at = 0; at < PIECES * PIECE; at += PIECE) {
        copy.srcDevice = memory + at;
        copy.dstHost = results + at;
        CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    }
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (char round = 1; round <= 2; round++) {
        CHECK(cuMemsetD8(memory, round, PIECES * PIECE));
        CHECK(cuGraphLaunch(exec, NULL));
        CHECK(cuCtxSynchronize());
        REQUIRE(results[0] == round && results[PIECES * PIECE - 1] == round);
    }
    return 0;
}
