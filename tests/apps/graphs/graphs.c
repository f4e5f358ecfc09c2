// A graph by capture, launched twice; one built by hand, whose kernel node is changed
#include "check.h"

enum { N = 128 };

int main(void)
{
    int numbers[N], *host, n = N, i;
    CUDA_KERNEL_NODE_PARAMS node = {0};
    CUgraph captured, built;
    CUgraphExec instance;
    CUgraphNode nodes[2];
    CUstream stream;

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");
    CUdeviceptr memory = allocate(sizeof numbers);
    void *arguments[] = {&memory, &n};

    CHECK(cuMemAllocHost((void **)&host, sizeof numbers));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (i = 0; i < N; i++)
        host[i] = i;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemcpyHtoDAsync(memory, host, sizeof numbers, stream));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuMemcpyDtoHAsync(host, memory, sizeof numbers, stream));
    CHECK(cuStreamEndCapture(stream, &captured));
    CHECK(cuGraphInstantiate(&instance, captured, 0));
    for (i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(instance, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("%d\n", host[10]);
    REQUIRE(host[10] == ((10 + 2) * 2 + 2) * 2);
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(captured));

    CHECK(cuGraphCreate(&built, 0));
    node.func = add;
    node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.blockDimX = N;
    node.kernelParams = arguments;
    CHECK(cuGraphAddKernelNode(&nodes[0], built, NULL, 0, &node));
    CHECK(cuGraphAddKernelNode(&nodes[1], built, nodes, 1, &node));
    CHECK(cuGraphInstantiate(&instance, built, 0));
    CHECK(cuGraphLaunch(instance, stream));
    node.func = twice;
    CHECK(cuGraphExecKernelNodeSetParams(instance, nodes[1], &node));
    CHECK(cuGraphLaunch(instance, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[10]);
    REQUIRE(numbers[10] == (host[10] + 4 + 2) * 2);
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(built));
    return 0;
}
