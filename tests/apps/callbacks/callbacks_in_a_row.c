// Two callbacks in a row change what the graph has copied to the host for the first: what the second finds is no result of
// the device. Meanwhile the graph is updated to run another callback there: so many microseconds after a launch
#include "check.h"
#include <unistd.h>

enum { WORDS = 16384, LAUNCHES = 18 };

static unsigned *memory;

static void CUDA_CB add(void *by)
{
    for (unsigned i = 0; i < WORDS; i++)
        memory[i] += *(unsigned *)by * i;
}

static void CUDA_CB turn(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS / 2; i++) {
        unsigned other = memory[WORDS - 1 - i];
        memory[WORDS - 1 - i] = memory[i];
        memory[i] = other;
    }
}

static CUDA_MEMCPY3D copy(CUmemorytype from, CUmemorytype to, CUdeviceptr device)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = from, .dstMemoryType = to, .srcHost = memory, .dstHost = memory};
    copy.srcDevice = copy.dstDevice = device;
    copy.WidthInBytes = WORDS * 4;
    copy.Height = copy.Depth = 1;
    return copy;
}

int main(int count, char **arguments)
{
    CUgraphNode in, kernel, out, first, second;
    CUgraphExecUpdateResultInfo updated;
    unsigned words = WORDS, by = 3;
    CUgraphExec executable;
    CUcontext context;
    CUstream stream;
    CUgraph graph;

    start_driver();
    CHECK(cuCtxGetCurrent(&context));
    CUdeviceptr device = allocate(WORDS * 4);
    CHECK(cuMemAllocHost((void **)&memory, WORDS * 4));
    for (int i = 0; i < WORDS; i++)
        memory[i] = i * i;
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuGraphCreate(&graph, 0));
    CUDA_MEMCPY3D there = copy(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, device);
    CUDA_MEMCPY3D back = copy(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, device);
    CHECK(cuGraphAddMemcpyNode(&in, graph, NULL, 0, &there, context));
    CUDA_KERNEL_NODE_PARAMS launch = {.func = find_kernel(load_module("faults"), "twice"), .gridDimX = WORDS / 128,
        .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1,
        .kernelParams = (void *[]){&device, &words}};
    CHECK(cuGraphAddKernelNode(&kernel, graph, &in, 1, &launch));
    CHECK(cuGraphAddMemcpyNode(&out, graph, &kernel, 1, &back, context));
    CHECK(cuGraphAddHostNode(&first, graph, &out, 1, &(CUDA_HOST_NODE_PARAMS){add, &by}));
    CHECK(cuGraphAddHostNode(&second, graph, &first, 1, &(CUDA_HOST_NODE_PARAMS){turn, NULL}));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < LAUNCHES; i++) {
        if (i == LAUNCHES / 2) {
            usleep(count > 1 ? atoi(arguments[1]) : 0);
            CHECK(cuGraphHostNodeSetParams(second, &(CUDA_HOST_NODE_PARAMS){turn, &by}));
            CHECK(cuGraphExecUpdate(executable, graph, &updated));
        }
        CHECK(cuGraphLaunch(executable, stream));
        if (i % 2)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
    printf("%u %u\n", memory[5], memory[77]);
    return 0;
}
