// Memory that graphs allocate, by a capture and by a node, and do not free: by a launch whose memory the next
// frees, by one that is freed behind it, and by one that nobody frees
#include "check.h"

enum { LARGE = 1 << 20, SMALL = 1 << 16 };

static CUgraphExec captured(CUstream stream, size_t bytes, unsigned long long flags, CUdeviceptr *kept)
{
    CUdeviceptr scratch;
    CUgraph graph;
    CUgraphExec made;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(kept, bytes, stream));
    CHECK(cuMemAllocAsync(&scratch, bytes / 2, stream));
    CHECK(cuMemsetD32Async(scratch, 1, 64, stream));
    CHECK(cuMemcpyDtoDAsync(*kept, scratch, 256, stream));
    CHECK(cuMemFreeAsync(scratch, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&made, graph, flags));
    return made;
}

int main(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS about = {0};
    CUdeviceptr kept, freed;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec again, once, added;
    CUstream stream;
    unsigned word;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    again = captured(stream, LARGE, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, &kept);
    for (int launch = 0; launch < 3; launch++)
        CHECK(cuGraphLaunch(again, stream));
    once = captured(stream, SMALL, 0, &freed);
    CHECK(cuGraphLaunch(once, stream));
    CHECK(cuMemFreeAsync(freed, stream));

    about.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    about.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    about.bytesize = 2 * SMALL;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &about));
    CHECK(cuGraphInstantiate(&added, graph, 0));
    CHECK(cuGraphLaunch(added, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&word, kept, sizeof word));
    printf("%u\n", word);
    return 0;
}
