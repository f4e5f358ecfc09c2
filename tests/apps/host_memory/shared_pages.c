// Memory that the device reads and the CPU writes by stores, where two pieces lie in one page and only one of them comes or goes
#include "check.h"
#include <sys/mman.h>

enum { N = 256, BYTES = N * sizeof(int) };

static CUDA_MEMCPY3D from(void *source, CUdeviceptr to)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = source, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    return copy;
}

int main(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *first = (int *)page, *second = (int *)(page + 2048), results[N], n = N, i;
    CUcontext context = start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr one = allocate(BYTES), two = allocate(BYTES), mapped;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;

    // The second node's source comes into view after the CPU has changed the first one's
    memset(page, 1, 4096);
    CUDA_MEMCPY3D copies[] = {from(first, one), from(second, two)};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copies[0], context));
    first[7] = 1007;
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copies[1], context));
    second[9] = 2009;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(results, one, BYTES));
    REQUIRE(results[7] == 1007);
    CHECK(cuMemcpyDtoH(results, two, BYTES));
    REQUIRE(results[9] == 2009);

    // Something ends that has nothing to do with it
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuDevicePrimaryCtxRelease(0));
    first[8] = 1008;
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(results, one, BYTES));
    REQUIRE(results[8] == 1008);

    // One of two registered pieces is given back after the CPU has changed the other
    first = (int *)other;
    second = (int *)(other + 2048);
    CHECK(cuMemHostRegister(first, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostRegister(second, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&mapped, first, 0));
    launch(take, 2, N / 2, (void *[]){&one, &mapped, &n});
    CHECK(cuMemHostGetDevicePointer(&mapped, second, 0));
    launch(take, 2, N / 2, (void *[]){&two, &mapped, &n});
    CHECK(cuCtxSynchronize());
    for (i = 0; i < N; i++)
        second[i] = 3000 + i;
    CHECK(cuMemHostUnregister(first));
    launch(take, 2, N / 2, (void *[]){&two, &mapped, &n});
    CHECK(cuMemcpyDtoH(results, two, BYTES));
    REQUIRE(results[0] == 3000 && results[N - 1] == 3000 + N - 1);
    printf("%d\n", results[1]);
    return 0;
}
