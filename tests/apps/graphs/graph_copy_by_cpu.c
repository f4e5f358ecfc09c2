// A graph copies within pinned memory, which the driver may have the CPU do, before its callback or behind it; its kernel and the callback
// change the same page: in each launch to the same
#include "check.h"

enum { WORDS = 1024 };

static unsigned *memory;

static void CUDA_CB change(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS; i++)
        memory[i] = memory[i] * 5 + i;
}

int main(void)
{
    unsigned words = WORDS, back[WORDS], *from;
    CUgraphExec executable;
    CUstream stream;
    CUgraph graph;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr to = allocate(sizeof back), values = allocate(sizeof back);
    CHECK(cuMemsetD32(values, 3, WORDS));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&from, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(from, 1, sizeof back);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int behind = 0; behind < 2; behind++) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &values, &words}, NULL));
        if (!behind)
            CHECK(cuMemcpyAsync((CUdeviceptr)(memory + 100), (CUdeviceptr)from, 400, stream));
        CHECK(cuLaunchHostFunc(stream, change, NULL));
        if (behind)
            CHECK(cuMemcpyAsync((CUdeviceptr)(memory + 100), (CUdeviceptr)from, 400, stream));
        CHECK(cuMemcpyHtoDAsync(to, memory, sizeof back, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&executable, graph, 0));
        for (int turn = 0; turn < 3; turn++) {
            for (int launch = 0; launch <= behind; launch++)
                CHECK(cuGraphLaunch(executable, stream));
            CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&values, &to, &words}, NULL));
            CHECK(cuMemsetD32Async(values, 3, WORDS, stream));
            CHECK(cuStreamSynchronize(stream));
            CHECK(cuMemcpyDtoH(back, to, sizeof back));
            printf("%u %u ", back[99], back[100]);
        }
        CHECK(cuGraphExecDestroy(executable));
        CHECK(cuGraphDestroy(graph));
    }
    puts("");
    return 0;
}
