// An executable graph with a child, a memset and kernels: launched as it is, with a node disabled, with another memset, and updated from
// another graph
#include "check.h"

enum { N = 64 };

static CUgraph make(CUcontext context, CUfunction f, CUfunction g, void **arguments, CUdeviceptr memory, unsigned value,
    CUgraphNode *nodes)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    CUDA_MEMSET_NODE_PARAMS set = {0};
    CUgraph graph, child;
    CUgraphNode inner;

    kernel.func = f;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.blockDimX = N;
    kernel.kernelParams = arguments;
    set.dst = memory;
    set.elementSize = 4;
    set.value = value;
    set.width = N;
    set.height = 1;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphCreate(&child, 0));
    // The last one is added first: only the edges tell the order.
    CHECK(cuGraphAddKernelNode(&nodes[2], graph, NULL, 0, &kernel));
    CHECK(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set, context));
    kernel.func = g;
    CHECK(cuGraphAddKernelNode(&inner, child, NULL, 0, &kernel));
    CHECK(cuGraphAddChildGraphNode(&nodes[1], graph, &nodes[0], 1, child));
    CHECK(cuGraphAddDependencies(graph, &nodes[1], &nodes[2], NULL, 1));
    CHECK(cuGraphDestroy(child));
    return graph;
}

static void expect(CUgraphExec instance, CUdeviceptr memory, int wanted)
{
    int numbers[N];

    CHECK(cuGraphLaunch(instance, NULL));
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[7]);
    REQUIRE(numbers[7] == wanted);
}

int main(void)
{
    CUcontext context = start_driver();
    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");
    CUdeviceptr memory = allocate(N * sizeof(int));
    CUDA_MEMSET_NODE_PARAMS set = {0};
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[3], others[3];
    CUgraphExec instance;
    int n = N;
    void *arguments[] = {&memory, &n};

    CUgraph graph = make(context, add, twice, arguments, memory, 5, nodes);
    CUgraph other = make(context, twice, add, arguments, memory, 6, others);
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    expect(instance, memory, 5 * 2 + 2);
    CHECK(cuGraphNodeSetEnabled(instance, nodes[2], 0));
    expect(instance, memory, 5 * 2);
    CHECK(cuGraphNodeSetEnabled(instance, nodes[2], 1));
    set.dst = memory;
    set.elementSize = 4;
    set.value = 9;
    set.width = N;
    set.height = 1;
    CHECK(cuGraphExecMemsetNodeSetParams(instance, nodes[0], &set, context));
    expect(instance, memory, 9 * 2 + 2);
    CHECK(cuGraphExecUpdate(instance, other, &info));
    expect(instance, memory, (6 + 2) * 2);
    return 0;
}
