// A callback of one thread's graph writes pinned memory on a page where another thread's launch, which waits, has other memory; meanwhile that
// thread makes a call
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORDS = 64 };

static CUcontext context;
static CUfunction pass;
static CUdeviceptr flag, scratch;
static CUstream streams[2];
static unsigned *mine, *theirs, turn;
static atomic_int written, looked;

static void CUDA_CB write_mine(void *unused)
{
    (void)unused;
    usleep(50000); // whoever launched it waits by now
    for (int i = 0; i < WORDS; i++)
        mine[i] = i * 5 + turn;
    written = 1;
    while (!looked)
        usleep(100);
}

static void *other(void *unused)
{
    unsigned words = WORDS;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamWaitValue32(streams[1], flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuLaunchKernel(pass, 1, 1, 1, WORDS, 1, 1, 0, streams[1], (void *[]){&theirs, &words}, NULL));
    while (!written)
        usleep(100);
    CHECK(cuMemcpyHtoD(scratch, &words, sizeof words));
    looked = 1;
    return NULL;
}

int main(void)
{
    unsigned seen[WORDS];
    CUdeviceptr data = (context = start_driver(), allocate(sizeof seen));
    CUgraphExec executable;
    CUgraph graph;
    pthread_t thread;

    pass = find_kernel(load_module("memory"), "pass");
    flag = allocate(4), scratch = allocate(4);
    CHECK(cuMemsetD8(flag, 0, 4));
    CHECK(cuMemHostAlloc((void **)&mine, sizeof seen, 0));
    CHECK(cuMemHostAlloc((void **)&theirs, sizeof seen, 0));
    REQUIRE(((size_t)mine ^ (size_t)theirs) < 4096);
    memset(mine, 0, sizeof seen), memset(theirs, 0, sizeof seen);
    CHECK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchHostFunc(streams[0], write_mine, NULL));
    CHECK(cuMemcpyHtoDAsync(data, mine, sizeof seen, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (turn = 1; turn < 3; turn++) {
        written = looked = 0;
        CHECK(cuMemsetD8(flag, 0, 4));
        CHECK(cuCtxSynchronize());
        REQUIRE(!pthread_create(&thread, NULL, other, NULL));
        CHECK(cuGraphLaunch(executable, streams[0]));
        CHECK(cuStreamSynchronize(streams[0]));
        pthread_join(thread, NULL);
        CHECK(cuMemcpyDtoH(seen, data, sizeof seen));
        REQUIRE(seen[7] == 35 + turn);
        CHECK(cuStreamWriteValue32(streams[0], flag, 1, 0));
        CHECK(cuCtxSynchronize());
    }
    printf("%u %u\n", seen[7], theirs[7]);
    return 0;
}
