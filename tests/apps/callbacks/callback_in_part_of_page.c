// A kernel works in one part of pinned memory while a callback, on the same stream ("1") or on another ("2"), writes the next part; or
// graphs do both ("graphs")
#include "check.h"

enum { WORDS = 1024 };

static unsigned *memory;

static void CUDA_CB write_part(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS; i++)
        memory[i] = i * 3;
}

static void launch_graphs(CUstream *streams, CUfunction pass)
{
    unsigned *part = memory + WORDS, words = WORDS;
    CUgraphExec executables[2];
    CUgraph graph;
    CUevent event;

    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[0], (void *[]){&part, &words}, NULL));
    CHECK(cuLaunchHostFunc(streams[0], write_part, NULL));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[0], (void *[]){&memory, &words}, NULL));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    for (int i = 0; i < 2; i++) {
        CHECK(cuGraphInstantiate(&executables[i], graph, 0));
        CHECK(cuGraphLaunch(executables[i], streams[i]));
        CHECK(cuEventRecord(event, streams[i]));
        CHECK(cuStreamWaitEvent(streams[1 - i], event, 0));
    }
}

int main(int argc, char **argv)
{
    unsigned words = WORDS;
    CUstream streams[2];

    char how = argc > 1 ? argv[1][0] : '1';

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take"), pass = find_kernel(load_module("memory"), "pass");
    CHECK(cuMemHostAlloc((void **)&memory, 2 * WORDS * sizeof *memory, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < 2 * WORDS; i++)
        memory[i] = i;
    CHECK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    unsigned *part = memory + WORDS;
    CUdeviceptr data = allocate(WORDS * sizeof *memory);
    if (how == 'g')
        launch_graphs(streams, pass);
    int other = how == '2';
    // The callback must run while something is given the memory: what nobody has use for is told before the next call.
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[0], (void *[]){&part, &words}, NULL));
    CHECK(cuLaunchHostFunc(streams[other], write_part, NULL));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, streams[other], (void *[]){&data, &memory, &words}, NULL));
    CHECK(cuCtxSynchronize());
    printf("%u %u\n", memory[5], memory[WORDS + 5]);
    return 0;
}
