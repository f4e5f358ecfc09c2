// Memory of the parent that its child uses in a graph, in rows, by a fill and on two streams, and opens once more when it has
// closed it: between two uses the parent writes part of it
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, TURNS = 4, MINE = 200 };

static void pass(int file, const void *bytes, size_t size) { REQUIRE(write(file, bytes, size) == (ssize_t)size); }
static void take(int file, void *bytes, size_t size) { REQUIRE(read(file, bytes, size) == (ssize_t)size); }

static CUgraphExec graph_of(CUstream stream, CUfunction twice, CUdeviceptr memory, CUdeviceptr own)
{
    int n = MINE;
    CUgraph graph;
    CUgraphExec made;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(twice, 2, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuMemcpyDtoDAsync(own, memory, N * sizeof(int), stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&made, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return made;
}

// The first MINE numbers are the child's: it doubles them each time, but fills the first two. The others are the parent's
static int child(int in, int out)
{
    CUipcMemHandle handle;
    CUdeviceptr memory, own;
    CUstream stream, other;
    CUgraphExec graph;
    int numbers[N], rows[4][5], turn, i;

    take(in, &handle, sizeof handle);
    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    own = allocate(sizeof numbers);
    graph = graph_of(stream, twice, memory, own);
    for (turn = 0; turn < TURNS; turn++) {
        take(in, &i, sizeof i);
        if (turn == TURNS - 1) {
            CHECK(cuIpcCloseMemHandle(memory));
            CHECK(cuGraphExecDestroy(graph));
            CHECK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
            graph = graph_of(stream, twice, memory, own);
        }
        CHECK(cuMemsetD32Async(memory, turn, 2, other));
        CHECK(cuStreamSynchronize(other));
        CHECK(cuGraphLaunch(graph, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(numbers, own, sizeof numbers));
        REQUIRE(numbers[0] == 2 * turn && numbers[1] == 2 * turn);
        for (i = 2; i < N; i++)
            REQUIRE(numbers[i] == (i < MINE ? i << (turn + 1) : i + turn));
        CHECK(cuMemcpy2DAsync(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                               .srcDevice = memory + MINE * sizeof(int),
                                               .srcPitch = 40,
                                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                                               .dstHost = rows,
                                               .dstPitch = sizeof rows[0],
                                               .WidthInBytes = sizeof rows[0],
                                               .Height = 4},
                              stream));
        CHECK(cuStreamSynchronize(stream));
        for (i = 0; i < 20; i++)
            REQUIRE(rows[i / 5][i % 5] == MINE + i / 5 * 10 + i % 5 + turn);
        pass(out, &turn, sizeof turn);
    }
    CHECK(cuIpcCloseMemHandle(memory));
    return numbers[N - 1] % 100;
}

int main(void)
{
    int there[2], back[2], numbers[N], turn, i, status;
    CUipcMemHandle handle;

    REQUIRE(!pipe(there) && !pipe(back));
    pid_t process = fork();
    if (!process)
        return child(there[0], back[1]);
    start_driver();
    CUdeviceptr memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers));
    CHECK(cuIpcGetMemHandle(&handle, memory));
    pass(there[1], &handle, sizeof handle);
    for (turn = 0; turn < TURNS; turn++) {
        for (i = MINE; i < N; i++)
            numbers[i] = i + turn;
        CHECK(cuMemcpyHtoD(memory + MINE * sizeof(int), numbers + MINE, (N - MINE) * sizeof(int)));
        CHECK(cuCtxSynchronize());
        pass(there[1], &turn, sizeof turn);
        take(back[0], &i, sizeof i);
    }
    REQUIRE(waitpid(process, &status, 0) == process && WIFEXITED(status));
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d %d %d\n", numbers[0], numbers[MINE - 1], WEXITSTATUS(status));
    CHECK(cuMemFree(memory));
    return 0;
}
