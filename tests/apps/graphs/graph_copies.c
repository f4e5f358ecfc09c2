// A graph that copies addresses from the host, and one that is captured doing so
#include "check.h"

enum { N = 64 };

struct span {
    CUdeviceptr first, last;
};

int main(void)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = sizeof(struct span), .Height = 1, .Depth = 1};
    int numbers[N], count = 1, i;
    CUcontext context = start_driver();
    CUmodule module = load_module("addresses");
    CUfunction sums = find_kernel(module, "sum_spans");
    CUdeviceptr first = allocate(sizeof numbers), list = allocate(sizeof(struct span)), out = allocate(sizeof(long long));
    struct span all = {first, first + sizeof numbers}, half = {first, first + sizeof numbers / 2}, back, *pinned;
    CUDA_KERNEL_NODE_PARAMS node = {.func = sums, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                    .blockDimY = 1, .blockDimZ = 1,
                                    .kernelParams = (void *[]){&list, &count, &out}};
    long long sum;
    CUgraph graph;
    CUgraphExec instance;
    CUgraphNode nodes[2];
    CUstream stream;

    for (i = 0; i < N; i++)
        numbers[i] = 1;
    CHECK(cuMemcpyHtoD(first, numbers, sizeof numbers));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuGraphCreate(&graph, 0));
    copy.srcHost = &all;
    copy.dstDevice = list;
    CHECK(cuGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &copy, context));
    CHECK(cuGraphAddKernelNode(&nodes[1], graph, nodes, 1, &node));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    for (i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(instance, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
        REQUIRE(sum == (i ? N / 2 : N));
        copy.srcHost = &half;
        CHECK(cuGraphExecMemcpyNodeSetParams(instance, nodes[0], &copy, context));
    }
    CHECK(cuMemcpyDtoH(&back, list, sizeof back));
    REQUIRE(back.last == half.last);
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(graph));

    CHECK(cuMemAllocHost((void **)&pinned, sizeof *pinned));
    *pinned = all;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemcpyHtoDAsync(list, pinned, sizeof *pinned, stream));
    CHECK(cuLaunchKernel(sums, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&list, &count, &out}, NULL));
    CHECK(cuMemcpyDtoHAsync(&back, list, sizeof back, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    for (i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(instance, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
        REQUIRE(sum == N && back.last == all.last);
    }
    printf("%lld\n", sum);
    return 0;
}
