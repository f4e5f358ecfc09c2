// What the driver knows of memory that a graph allocates, from the capture on
// cc graph_memory.c -lcuda
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

static void ask(const char *when, CUdeviceptr memory)
{
    unsigned type = 99, managed = 99;
    CUpointer_attribute what[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *at[2] = {&type, &managed};
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult asked = cuPointerGetAttributes(2, what, at, memory), range = cuMemGetAddressRange(&start, &bytes, memory);
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long long from, to;

    printf("%-28s %#14llx attributes %d: type %u, range %d: %zu bytes, in ", when, (unsigned long long)memory, asked, type, range, bytes);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx", &from, &to) == 2 && from <= memory && memory < to)
            printf("%.*s", (int)strcspn(line, "\n"), line);
    fclose(maps);
    printf("\n");
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUdeviceptr memory, kept;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    int keeps;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&kept, 4096));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (keeps = 0; keeps < 2; keeps++) {
        printf("captured, %s\n", keeps ? "not freed in the graph" : "freed in the graph");
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuMemAllocAsync(&memory, 4096, stream));
        ask("allocated in the capture", memory);
        CHECK(cuMemsetD8Async(memory, 1, 4096, stream));
        CHECK(cuMemcpyAsync(kept, memory, 4096, stream));
        if (!keeps)
            CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
        ask("captured", memory);
        CHECK(cuGraphInstantiate(&exec, graph, 0));
        ask("instantiated", memory);
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        ask("launched", memory);
        if (keeps) {
            CHECK(cuMemFreeAsync(memory, stream));
            CHECK(cuStreamSynchronize(stream));
            ask("freed", memory);
        }
        CHECK(cuGraphExecDestroy(exec));
        CHECK(cuGraphDestroy(graph));
        ask("graph destroyed", memory);
    }
    printf("by a node\n");
    memset(&parameters, 0, sizeof parameters);
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    parameters.bytesize = 4096;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
    ask("added", parameters.dptr);
    CHECK(cuGraphAddMemFreeNode(&node, graph, &node, 1, parameters.dptr));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    ask("launched", parameters.dptr);
    return 0;
}
