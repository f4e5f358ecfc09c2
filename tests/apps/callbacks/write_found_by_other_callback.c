// What the CPU writes where a copy has landed may be found when a callback of another stream ends, which was handed over before the copy: it is not the
// callback's, which in a replay runs before the copy lands. Needs a driver that runs callbacks side by side
#include "check.h"
#include <unistd.h>

enum { WORDS = 4096, BYTES = WORDS * 4 };

static volatile int told, go;

static void CUDA_CB tell(void *unused) { (void)unused; told = 1; }

static void CUDA_CB wait_for_go(void *unused)
{
    (void)unused;
    while (!go)
        usleep(100);
}

int main(void)
{
    unsigned rounds = 8000000, many = 40000000, few = 1, *pinned, results[WORDS];
    CUdeviceptr data, back, place, second;
    CUstream stream, beside, third;
    CUgraphExec instance;
    CUgraphNode node;
    CUgraph graph;

    start_driver();
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 0, BYTES);
    data = allocate(BYTES), back = allocate(BYTES), place = allocate(64), second = allocate(64);
    CUDA_KERNEL_NODE_PARAMS launch = {.func = busy, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                                      .blockDimZ = 1, .kernelParams = (void *[]){&many, &second}};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &launch));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    CHECK(cuMemsetD32(data, 5, WORDS));
    // From now on it is followed what the CPU writes there.
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&few, &pinned}, NULL));
    CHECK(cuCtxSynchronize());

    CHECK(cuLaunchHostFunc(beside, wait_for_go, NULL));
    CHECK(cuGraphLaunch(instance, third));
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &place}, NULL));
    CHECK(cuMemcpyDtoHAsync(pinned, data, BYTES, stream));
    CHECK(cuLaunchHostFunc(stream, tell, NULL));
    while (!told)
        ;
    usleep(20000);
    REQUIRE(pinned[WORDS - 1] == 5);
    for (int word = 0; word < WORDS; word++)
        pinned[word] = word * 7 + 100;
    go = 1;
    usleep(50000);
    CHECK(cuMemcpyHtoDAsync(back, pinned, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(results, back, BYTES));
    printf("%u %u\n", results[0], results[WORDS - 1]);
    CHECK(cuCtxSynchronize());
    return 0;
}
