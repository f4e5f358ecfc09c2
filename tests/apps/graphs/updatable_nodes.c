// Captured launches whose nodes kernels may change: the handles that the driver gives for that are handed on in memory
#include "check.h"

enum { N = 32, NODES = 3 };

int main(void)
{
    int n = N, seen[N];
    CUdeviceptr data = (start_driver(), allocate(sizeof seen)), handles = allocate(NODES * 8);
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUgraphDeviceNode given[NODES], back[NODES];
    CUgraphExec executable;
    CUgraph graph;
    CUstream stream;

    CHECK(cuMemsetD32(data, 1, N));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < NODES; i++) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};
        CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1,
            .hStream = stream, .attrs = &attribute, .numAttrs = 1};
        attribute.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
        CHECK(cuLaunchKernelEx(&config, twice, (void *[]){&data, &n}, NULL));
        given[i] = attribute.value.deviceUpdatableKernelNode.devNode;
        REQUIRE(given[i] && (!i || given[i] != given[i - 1]));
    }
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    CHECK(cuMemcpyHtoD(handles, given, sizeof given));
    CHECK(cuGraphUpload(executable, stream));
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(seen, data, sizeof seen));
    CHECK(cuMemcpyDtoH(back, handles, sizeof back));
    REQUIRE(!memcmp(given, back, sizeof back));
    printf("%d\n", seen[N - 1]);
    REQUIRE(seen[N - 1] == 8);
    return 0;
}
