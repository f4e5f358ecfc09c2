// A graph for kernels to launch: they are given its handle, as an argument and in memory. (No simulated kernel launches it.)
#include "check.h"

int main(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec, back;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH};
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 1, .width = 8, .height = 1, .value = 7};
    long long sum;
    CUcontext context = start_driver();
    CUfunction function = find_kernel(load_module("addresses"), "sum_span");
    CUdeviceptr memory = allocate(64), stored = memory + 32;

    set.dst = memory;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    CHECK(cuGraphInstantiateWithParams(&exec, graph, &params));
    CHECK(cuGraphUpload(exec, NULL));
    CHECK(cuMemcpyHtoD(stored, &exec, sizeof exec));
    launch(function, 1, 1, (void *[]){&exec, &exec, &memory});
    CHECK(cuMemcpyDtoH(&sum, memory, sizeof sum));
    CHECK(cuMemcpyDtoH(&back, stored, sizeof back));
    REQUIRE(sum == 0 && back == exec);
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&sum, memory, sizeof sum));
    printf("%llx\n", sum);
    return 0;
}
