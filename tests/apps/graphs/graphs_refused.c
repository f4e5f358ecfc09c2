// An executable graph that cannot become like another one, and a graph that cannot be instantiated: the driver says why
#include "check.h"

#undef cuGraphInstantiate
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);

int main(void)
{
    CUgraph one, two;
    CUgraphExec exec, other;
    CUgraphNode node, wrong;
    CUgraphExecUpdateResultInfo info;
    char said[256];

    start_driver();
    CHECK(cuGraphCreate(&one, 0));
    CHECK(cuGraphAddEmptyNode(&node, one, NULL, 0));
    CHECK(cuGraphInstantiate_v2(&exec, one, &wrong, said, sizeof said));
    CHECK(cuGraphClone(&two, one));
    CHECK(cuGraphAddEmptyNode(&node, two, NULL, 0));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, two, &info));
    REQUIRE(info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate_v2(&other, NULL, &wrong, said, sizeof said));
    return 0;
}
