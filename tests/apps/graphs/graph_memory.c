// Memory that a graph allocates: used outside the graph, freed in each of the ways there are, allocated again
#include "check.h"

enum { N = 64 };

int main(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = N * sizeof(int)};
    // With a function given, what is said of the kernel and the context may be anything.
    CUDA_KERNEL_NODE_PARAMS node = {.kern = (CUkernel)0x5a5a0, .ctx = (CUcontext)0x5a5b0, .gridDimX = 1, .gridDimY = 1,
                                    .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1};
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 20, .elementSize = 4, .width = N, .height = 1};
    int numbers[N], n = N, round;
    CUgraph graph, freeing;
    CUgraphNode nodes[3], free_node;
    CUgraphExec instance, free_instance;
    CUcontext context = start_driver();
    CUstream stream;

    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&nodes[0], graph, NULL, 0, &memory));
    fill.dst = memory.dptr;
    CHECK(cuGraphAddMemsetNode(&nodes[1], graph, nodes, 1, &fill, context));
    struct {
        CUdeviceptr numbers;
        int n;
    } packed = {memory.dptr, n};
    size_t size = 12;
    node.func = add;
    node.extra = (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                            CU_LAUNCH_PARAM_END};
    CHECK(cuGraphAddKernelNode(&nodes[2], graph, nodes + 1, 1, &node));
    CHECK(cuGraphInstantiate(&instance, graph, 0));

    // The driver leaves what it was given in the fields that it does not use.
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraph alone;
    CUgraphNode same;
    any.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = add, .kern = (CUkernel)&any, .ctx = (CUcontext)&alone, .gridDimX = 1, .gridDimY = 1,
        .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1, .kernelParams = (void *[]){&packed.numbers, &packed.n}};
    CHECK(cuGraphCreate(&alone, 0));
    CHECK(cuGraphAddNode(&same, alone, NULL, NULL, 0, &any));
    REQUIRE(any.kernel.kern == (CUkernel)&any);
    CHECK(cuGraphDestroy(alone));

    // A graph whose only work is to free it.
    CHECK(cuGraphCreate(&freeing, 0));
    CHECK(cuGraphAddMemFreeNode(&free_node, freeing, NULL, 0, memory.dptr));
    CHECK(cuGraphInstantiate(&free_instance, freeing, 0));

    for (round = 0; round < 4; round++) {
        CHECK(cuGraphLaunch(instance, stream));
        CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory.dptr, &n}, NULL));
        CHECK(cuMemcpyDtoHAsync(numbers, memory.dptr, sizeof numbers, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(numbers[N - 1] == (round < 2 ? 44 : 80));
        switch (round) {
        case 0:
            CHECK(cuMemFreeAsync(memory.dptr, stream));
            break;
        case 1:
            CHECK(cuMemFree(memory.dptr));
            node.func = twice;
            CHECK(cuGraphExecKernelNodeSetParams(instance, nodes[2], &node));
            break;
        case 2:
            CHECK(cuGraphLaunch(free_instance, stream));
            break;
        case 3: {
            CUgraph captured;
            CUgraphExec captured_instance;

            CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
            CHECK(cuMemFreeAsync(memory.dptr, stream));
            CHECK(cuStreamEndCapture(stream, &captured));
            CHECK(cuGraphInstantiate(&captured_instance, captured, 0));
            CHECK(cuGraphLaunch(captured_instance, stream));
            CHECK(cuStreamSynchronize(stream));
            CHECK(cuGraphExecDestroy(captured_instance));
            CHECK(cuGraphDestroy(captured));
            CHECK(cuGraphLaunch(instance, stream));
            CHECK(cuMemFreeAsync(memory.dptr, stream));
            break;
        }
        }
        CHECK(cuStreamSynchronize(stream));
    }
    printf("%d\n", numbers[0]);
    CHECK(cuGraphExecDestroy(free_instance));
    CHECK(cuGraphDestroy(freeing));
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(graph));

    // Its addresses are anybody's now.
    CUdeviceptr other = allocate(N * sizeof(int));
    CHECK(cuMemsetD32(other, 4, N));
    launch(twice, 1, N, (void *[]){&other, &n});
    CHECK(cuMemcpyDtoH(numbers, other, sizeof numbers));
    REQUIRE(numbers[N - 1] == 8);
    return 0;
}
