// A graph fills memory that nothing else has named, and its callback writes there; the program knows by a flag that it has, and gives the
// memory to a kernel
#include "check.h"
#include <stdatomic.h>

enum { WORDS = 4096 };

static atomic_int done;
static unsigned *memory;

static void CUDA_CB write_nines(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS / 4; i++)
        memory[i] = 9;
    done = 1;
}

int main(void)
{
    unsigned words = WORDS, rounds = 200000, back[WORDS];
    CUgraphExec executable;
    CUstream stream;
    CUgraph graph;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(sizeof back), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async((CUdeviceptr)memory, 5, WORDS, stream));
    CHECK(cuLaunchHostFunc(stream, write_nines, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));

    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuGraphLaunch(executable, stream));
    while (!done)
        ;
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%u %u\n", back[0], back[WORDS / 2]);
    return 0;
}
