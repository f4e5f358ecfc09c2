// Copies of more than 64 MiB of host memory: without a graph, and by graphs between whose launches the CPU changes it
#include "check.h"
#include <sys/mman.h>

enum { HALF = 33 << 20, BYTES = 2 * HALF, STEP = 1 << 20, GAP = 4096, TAIL = 4 << 20 };

static CUstream stream;
static CUdeviceptr device;

// Zeros, which take no time
static char *map(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(memory != MAP_FAILED);
    return memory;
}

// Not in the gaps
static void change(char *memory, char number)
{
    for (size_t at = 0; at < BYTES; at += STEP)
        memory[at] = number + at / STEP;
}

static void expect(const char *memory)
{
    char first[GAP], *last = malloc(TAIL);

    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(first, device, GAP));
    CHECK(cuMemcpyDtoH(last, device + BYTES - TAIL, TAIL));
    REQUIRE(!memcmp(first, memory, GAP) && !memcmp(last, memory + BYTES - TAIL, TAIL));
    free(last);
}

static void copy(char *memory)
{
    change(memory, 1);
    CHECK(cuMemcpyHtoDAsync(device, memory, BYTES, stream));
    expect(memory);
}

static void launch_twice(CUgraph graph, char *memory)
{
    CUgraphExec exec;

    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (char round = 2; round <= 3; round++) {
        change(memory, round);
        CHECK(cuGraphLaunch(exec, stream));
        expect(memory);
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static CUgraph captured(char *memory)
{
    CUgraph graph;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyHtoDAsync(device, memory, BYTES, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    return graph;
}

// It copies two rows with this many bytes between them
static CUgraph node_of(char *memory, size_t gap)
{
    CUDA_MEMCPY3D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = memory, .srcPitch = HALF,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = device, .dstPitch = HALF,
                          .WidthInBytes = HALF - gap, .Height = 2, .Depth = 1};
    CUcontext context;
    CUgraphNode node;
    CUgraph graph;

    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &rows, context));
    return graph;
}

// Nobody launches it
static void add_unmapped(void)
{
    char *memory = map();

    REQUIRE(!munmap(memory + HALF, HALF));
    CHECK(cuGraphDestroy(node_of(memory, 0)));
}

int main(int count, char **arguments)
{
    char *pageable, *pinned;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    device = allocate(BYTES);
    if (count > 1 && !strcmp(arguments[1], "unmapped")) {
        add_unmapped();
        return 0;
    }
    pageable = map();
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    copy(pinned);
    launch_twice(captured(pageable), pageable);
    launch_twice(node_of(pageable, GAP), pageable);
    puts("as expected");
    return 0;
}
