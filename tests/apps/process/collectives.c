// One rank: reductions of all ranks on one communicator, every fourth turn on a second one, a number sent on
// Arguments: the file that the ranks share, rank, ranks, turns, and who does not come to which turn
// With GRAPH in the environment a reduction is captured after them, and its graph launched that often, with one on the second
// communicator behind each
// What is done is counted in the page behind the two that the communicators take, if there is one
#include "check.h"
#include <stdint.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNTS = 2 * 16384 };

typedef struct ring ring;
ring *ring_open(const char *path, int region, uint64_t id, const char *name, int rank, int ranks);
void ring_all_reduce(ring *, CUdeviceptr data, unsigned count, CUstream);
void ring_send(ring *, CUdeviceptr data, unsigned count, int to, CUstream);
void ring_receive(ring *, CUdeviceptr data, unsigned count, int from, CUstream);
void ring_close(ring *);

static volatile unsigned *counts(const char *path)
{
    int file = open(path, O_RDWR);
    struct stat found;
    void *page;

    REQUIRE(file >= 0 && !fstat(file, &found));
    if (found.st_size < COUNTS + 4096)
        return calloc(64, sizeof(unsigned));
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, COUNTS);
    REQUIRE(page != MAP_FAILED);
    close(file);
    return page;
}

int main(int argc, char **argv)
{
    int rank = atoi(argv[2]), ranks = atoi(argv[3]), turns = atoi(argv[4]);
    int late = argc > 5 ? atoi(argv[5]) : -1, late_at = argc > 6 ? atoi(argv[6]) : -1;
    unsigned values[4], sum = 0;
    volatile unsigned *done = counts(argv[1]) + rank;
    const char *name = getenv("RING_NAME") ? getenv("RING_NAME") : "world";
    CUdeviceptr data;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = allocate(sizeof values);
    ring *world = ring_open(argv[1], 0, 0x1234567890abcdefull, name, rank, ranks);
    ring *second = ring_open(argv[1], 1, 0xfeedull, NULL, rank, ranks);
    for (int turn = 1; turn <= turns; turn++) {
        for (int i = 0; i < 4; i++)
            values[i] = rank + i + turn;
        CHECK(cuMemcpyHtoD(data, values, sizeof values));
        if (rank == late && turn == late_at) {
            puts("late");
            fflush(stdout);
            pause();
        }
        ring_all_reduce(world, data, 4, stream);
        *done = turn;
        if (turn % 4 == 0)
            ring_all_reduce(second, data, 2, stream);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(values, data, sizeof values));
        sum += values[0] + values[3];
    }
    if (getenv("GRAPH")) {
        CUgraph graph;
        CUgraphExec executable;

        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        ring_all_reduce(world, data, 4, stream);
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (int run = 0; run < atoi(getenv("GRAPH")); run++) {
            CHECK(cuGraphLaunch(executable, stream));
            ring_all_reduce(second, data, 2, stream);
            CHECK(cuStreamSynchronize(stream));
        }
        CHECK(cuGraphExecDestroy(executable));
        CHECK(cuGraphDestroy(graph));
    }
    if (ranks > 1 && rank < 2) {
        if (rank == 0)
            ring_send(world, data, 3, 1, stream);
        else
            ring_receive(world, data, 3, 0, stream);
        CHECK(cuStreamSynchronize(stream));
    }
    ring_close(second);
    ring_close(world);
    printf("%u\n", sum);
    return 0;
}
