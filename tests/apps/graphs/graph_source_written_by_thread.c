// Another thread writes what a graph's node will copy while the node is made; it is done before the graph is launched
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { SIZE = 1 << 20, TIMES = 40 };

static _Alignas(64) char source[SIZE];
static atomic_int stop;

static void *stir(void *unused)
{
    (void)unused;
    for (char value = 1; !stop; value++)
        for (int i = 0; i < SIZE; i += 512)
            ((volatile char *)source)[i] = value;
    return NULL;
}

int main(void)
{
    static char bytes[SIZE];
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable = NULL;
    pthread_t thread;

    start_driver();
    CUdeviceptr to = allocate(SIZE);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_create(&thread, NULL, stir, NULL);
    for (int i = 0; i < TIMES; i++) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuMemcpyHtoDAsync(to, source, SIZE, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
        if (i == TIMES - 1)
            CHECK(cuGraphInstantiate(&executable, graph, 0));
        CHECK(cuGraphDestroy(graph));
    }
    stop = 1;
    pthread_join(thread, NULL);
    memset(source, 7, SIZE);
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(bytes, to, SIZE));
    printf("%d %d\n", bytes[0], bytes[SIZE - 1]);
    REQUIRE(bytes[0] == 7 && bytes[SIZE / 2] == 7);
    return 0;
}
