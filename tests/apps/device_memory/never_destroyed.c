// Events, streams, modules of one image, graphs, pools, textures, reserved addresses and contexts that are never destroyed; all memory
// is freed, and one of each was destroyed
#include "check.h"

enum { EVENTS = 30, STREAMS = 7, MODULES = 5, GRAPHS = 4, EXECS = 3, POOLS = 2, TEXTURES = 6, RESERVED = 9, CONTEXTS = 2, RETAINED = 3 };
enum { STEP = 2 << 20 };

int main(void)
{
    CUdevice device;
    CUcontext context, own;
    CUdeviceptr reserved;
    CUmodule module;
    CUstream stream;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUmemoryPool pool;
    CUtexObject texture;
    CUdeviceptr memory;

    start_driver();
    CHECK(cuDeviceGet(&device, 0));
    memory = allocate(4096);
    char *text = read_kernels("vector_add");
    for (int i = 0; i <= MODULES; i++)
        CHECK(cuModuleLoadData(&module, text));
    CHECK(cuModuleUnload(module));
    free(text);
    for (int i = 0; i <= STREAMS; i++)
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i <= EVENTS; i++) {
        CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventRecord(event, stream));
    }
    CHECK(cuEventDestroy(event));
    CHECK(cuStreamDestroy(stream));
    for (int i = 0; i <= GRAPHS; i++) {
        CUgraphNode node;

        CHECK(cuGraphCreate(&graph, 0));
        // It goes with its graph.
        CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    }
    for (int i = 0; i <= EXECS; i++)
        CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    for (int i = 0; i <= POOLS; i++)
        CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemPoolDestroy(pool));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
                                   .res.linear = {.devPtr = memory, .format = CU_AD_FORMAT_FLOAT, .numChannels = 1, .sizeInBytes = 4096}};
    CUDA_TEXTURE_DESC how = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}};
    for (int i = 0; i <= TEXTURES; i++)
        CHECK(cuTexObjectCreate(&texture, &resource, &how, NULL));
    CHECK(cuTexObjectDestroy(texture));
    for (int i = 0; i <= RESERVED; i++)
        CHECK(cuMemAddressReserve(&reserved, STEP, 0, 0, 0));
    CHECK(cuMemAddressFree(reserved, STEP));
    CHECK(cuMemFree(memory));
    // start_driver retained it once.
    for (int i = 0; i < RETAINED; i++)
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuDevicePrimaryCtxRelease(device));
    for (int i = 0; i <= CONTEXTS; i++) {
        CHECK(cuCtxCreate(&own, NULL, 0, device));
        // These go with it.
        CHECK(cuEventCreate(&event, 0));
    }
    CHECK(cuCtxDestroy(own));
    return 0;
}
