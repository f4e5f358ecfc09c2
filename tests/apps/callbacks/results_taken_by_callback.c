// A graph copies results to host memory, and its host node takes them from there and puts zeros in their place before anybody has waited.
// A copy of the graph runs the same host node
#include "check.h"

enum { N = 64, BYTES = N * sizeof(int), LAUNCHES = 3 };

static int ordinary[N];
static unsigned sum;

struct taken {
    int *from;
    int runs;
};

static void CUDA_CB take_out(void *data)
{
    struct taken *taken = data;
    int i;

    for (i = 0; i < N; i++)
        sum = sum * 31 + taken->from[i];
    memset(taken->from, 0, BYTES);
    taken->runs++;
}

// Changes the numbers, copies them to `to`, and has them taken from there
static CUgraph make(CUcontext context, CUfunction pass, CUdeviceptr memory, struct taken *taken)
{
    int n = N;
    CUgraph graph;
    CUgraphNode nodes[3];
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = pass, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1,
        .blockDimZ = 1, .kernelParams = (void *[]){&memory, &n}};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = taken->from, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = take_out, .userData = taken};

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&nodes[0], graph, NULL, 0, &kernel));
    CHECK(cuGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &copy, context));
    CHECK(cuGraphAddHostNode(&nodes[2], graph, &nodes[1], 1, &host));
    return graph;
}

int main(void)
{
    int *pinned, *numbers = malloc(BYTES), i;
    CUcontext context = start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass");
    CUdeviceptr memory = allocate(BYTES);
    CUstream stream;
    struct taken taken[2] = {{ordinary, 0}, {NULL, 0}};

    for (i = 0; i < N; i++)
        numbers[i] = i + 1;
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    taken[1].from = pinned;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    CHECK(cuCtxSynchronize());
    for (i = 0; i < 2; i++) {
        CUgraph graph = make(context, pass, memory, &taken[i]), clone;
        CUgraphExec first, second;

        CHECK(cuGraphInstantiate(&first, graph, 0));
        CHECK(cuGraphClone(&clone, graph));
        CHECK(cuGraphInstantiate(&second, clone, 0));
        for (int launch = 0; launch < LAUNCHES; launch++)
            CHECK(cuGraphLaunch(first, stream));
        CHECK(cuStreamSynchronize(stream));
        for (int launch = 0; launch < LAUNCHES; launch++)
            CHECK(cuGraphLaunch(second, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(taken[i].runs == 2 * LAUNCHES);
    }
    printf("%u\n", sum);
    return 0;
}
