// A graph node that copies to ordinary memory, refused at first: its context is gone. So much memory that it is given back to the
// system when nobody needs it
#include "check.h"

enum { N = 1 << 20, BYTES = N * sizeof(int) };

int main(void)
{
    int *numbers = malloc(BYTES), *brought = malloc(BYTES), n = N, i;
    CUcontext context, gone;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = brought,
        .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;

    start_driver();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuCtxCreate(&gone, NULL, 0, 0));
    CHECK(cuCtxDestroy(gone));
    CHECK(cuCtxSetCurrent(context));
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUdeviceptr memory = allocate(BYTES);

    for (i = 0; i < N; i++)
        numbers[i] = i + 1;
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuGraphCreate(&graph, 0));
    copy.srcDevice = memory;
    REQUIRE(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, gone));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    n = 64;
    CHECK(cuLaunchKernel(twice, 1, 1, 1, n, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(brought[63] == 128 && brought[N - 1] == N);
    // Of so much that a graph brings the recorder tells nothing; of a copy it does.
    CHECK(cuMemcpyDtoH(numbers, memory, BYTES));
    REQUIRE(!memcmp(numbers, brought, BYTES));
    printf("%d\n", brought[63]);
    return 0;
}
