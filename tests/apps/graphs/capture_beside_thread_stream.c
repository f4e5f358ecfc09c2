// A thread works on its own default stream while another captures a stream that the legacy stream waits for: nobody touches the legacy one
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "check.h"
#include <pthread.h>

enum { N = 1024 };

static CUcontext context;
static pthread_barrier_t meet;

static void *work(void *unused)
{
    unsigned *out;
    CUdeviceptr memory;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemHostAlloc((void **)&out, N * sizeof *out, 0));
    memory = allocate(N * sizeof *out);
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&meet);
        CHECK(cuMemsetD32Async(memory, 7 + round, N, NULL));
        CHECK(cuMemcpyDtoHAsync(out, memory, N * sizeof *out, NULL));
        pthread_barrier_wait(&meet);
        CHECK(cuStreamSynchronize(NULL));
        REQUIRE(out[N - 1] == 7u + round);
        // The CPU's, for the copy that is put during the next capture.
        out[0] = round;
        pthread_barrier_wait(&meet);
        CHECK(cuMemcpyHtoDAsync(memory, out, sizeof *out, NULL));
        CHECK(cuMemcpyDtoHAsync(out + 1, memory, sizeof *out, NULL));
        pthread_barrier_wait(&meet);
        CHECK(cuStreamSynchronize(NULL));
        printf("%u\n", out[1]);
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    CUstream streams[2] = {NULL, CU_STREAM_PER_THREAD};
    unsigned found;

    context = start_driver();
    CHECK(cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
    CUdeviceptr memory = allocate(N * sizeof found);
    pthread_barrier_init(&meet, NULL, 2);
    REQUIRE(!pthread_create(&other, NULL, work, NULL));
    for (int i = 0; i < 6; i++) {
        CUgraph graph;
        CUgraphExec executable;
        CUstream stream = streams[i % 2];

        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        pthread_barrier_wait(&meet);
        CHECK(cuMemsetD32Async(memory, 100 + i, N, stream));
        pthread_barrier_wait(&meet);
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&executable, graph, 0));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuMemcpyDtoHAsync(&found, memory, sizeof found, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(found == 100u + i);
        CHECK(cuGraphExecDestroy(executable));
        CHECK(cuGraphDestroy(graph));
    }
    pthread_join(other, NULL);
    return 0;
}
