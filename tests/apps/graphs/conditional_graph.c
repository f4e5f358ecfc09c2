// A graph with a conditional node, whose body is filled after the node was made
#include "check.h"

int main(void)
{
    CUcontext context = start_driver();
    CUdeviceptr memory = allocate(256);
    unsigned char bytes[256];
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node, inner;
    CUgraphConditionalHandle handle;
    CUgraphNodeParams params = {0};
    CUDA_MEMSET_NODE_PARAMS set = {0};

    CHECK(cuMemsetD8(memory, 1, sizeof bytes));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context;
    CHECK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    set.dst = memory;
    set.elementSize = 1;
    set.width = 100;
    set.height = 1;
    set.value = 42;
    CHECK(cuGraphAddMemsetNode(&inner, params.conditional.phGraph_out[0], NULL, 0, &set, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, 0));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
    printf("%d %d\n", bytes[0], bytes[200]);
    return 0;
}
