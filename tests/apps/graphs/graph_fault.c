// A graph whose second kernel writes far out of bounds: captured ("captured"), with a host function in it ("host"), or built by
// hand and changed after it was instantiated ("changed"); the program dies of it
#include "check.h"

enum { N = 128 };

static void nothing(void *unused)
{
    (void)unused;
}

int main(int count, char **options)
{
    CUDA_KERNEL_NODE_PARAMS node = {0};
    CUgraphNode nodes[2];
    CUgraphExec instance;
    CUstream stream;
    CUgraph graph;
    int n = N;

    REQUIRE(count == 2);
    start_driver();
    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");
    CUdeviceptr memory = allocate(N * sizeof(int)), beyond = memory + (1ull << 40);
    void *right[] = {&memory, &n}, *wrong[] = {&beyond, &n};

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(options[1], "changed") != 0) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuMemsetD32Async(memory, 1, N, stream));
        CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, right, NULL));
        if (strcmp(options[1], "host") == 0)
            CHECK(cuLaunchHostFunc(stream, nothing, NULL));
        CHECK(cuLaunchKernel(twice, 2, 1, 1, 64, 1, 1, 0, stream, wrong, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&instance, graph, 0));
        CHECK(cuGraphDestroy(graph));
    } else {
        CHECK(cuGraphCreate(&graph, 0));
        node.func = add;
        node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
        node.blockDimX = N;
        node.kernelParams = right;
        CHECK(cuGraphAddKernelNode(&nodes[0], graph, NULL, 0, &node));
        CHECK(cuGraphAddKernelNode(&nodes[1], graph, nodes, 1, &node));
        CHECK(cuGraphInstantiate(&instance, graph, 0));
        node.func = twice;
        node.gridDimX = 2;
        node.blockDimX = 64;
        node.kernelParams = wrong;
        CHECK(cuGraphExecKernelNodeSetParams(instance, nodes[1], &node));
    }
    CHECK(cuGraphLaunch(instance, stream));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    abort();
}
