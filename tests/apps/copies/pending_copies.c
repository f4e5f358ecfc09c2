// Copies to pinned memory, each waited for in another way; the last one by nobody
#include "check.h"
#include <pthread.h>

enum { N = 256 };
static CUdeviceptr memory;

static unsigned char *pinned(void)
{
    void *host;

    CHECK(cuMemAllocHost(&host, N));
    memset(host, 0, N);
    return host;
}

static void *on_own_stream(void *context)
{
    unsigned char *host;

    CHECK(cuCtxSetCurrent(context));
    host = pinned();
    CHECK(cuMemcpyDtoHAsync(host, memory, N, CU_STREAM_PER_THREAD));
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    REQUIRE(host[N - 1] == 7);
    return NULL;
}

int main(void)
{
    CUcontext context = start_driver();
    unsigned char *by_stream = pinned(), *by_event = pinned(), *by_chain = pinned(), *by_legacy = pinned(),
                  *by_copy = pinned(), *by_poll = pinned(), *by_context = pinned(), *by_nobody = pinned(), direct[N];
    CUstream blocking, one, other;
    CUevent event;
    pthread_t threads[2];
    int i;

    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    memory = allocate(N);
    CHECK(cuMemsetD8(memory, 7, N));
    CHECK(cuCtxSynchronize());

    CHECK(cuMemcpyDtoHAsync(by_stream, memory, N, one));
    CHECK(cuStreamSynchronize(one));
    CHECK(cuMemcpyDtoHAsync(by_event, memory, N, one));
    CHECK(cuEventRecord(event, one));
    CHECK(cuEventSynchronize(event));
    CHECK(cuMemcpyDtoHAsync(by_chain, memory, N, one));
    CHECK(cuEventRecord(event, one));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuStreamSynchronize(other));
    CHECK(cuMemcpyDtoHAsync(by_legacy, memory, N, blocking));
    CHECK(cuMemsetD8Async(memory, 7, N, CU_STREAM_LEGACY));
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    CHECK(cuMemcpyDtoHAsync(by_copy, memory, N, blocking));
    CHECK(cuMemcpyDtoH(direct, memory, N));
    CHECK(cuMemcpyDtoHAsync(by_poll, memory, N, one));
    while (cuStreamQuery(one) == CUDA_ERROR_NOT_READY)
        ;
    for (i = 0; i < 2; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, on_own_stream, context));
    for (i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(cuMemcpyDtoHAsync(by_context, memory, N, one));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoHAsync(by_nobody, memory, N, one));
    CHECK(cuMemFreeHost(by_nobody));
    printf("%d %d %d %d %d %d %d\n", by_stream[0], by_event[0], by_chain[0], by_legacy[0], by_copy[0], by_poll[0], by_context[0]);
    return 0;
}
