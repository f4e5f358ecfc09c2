// A thread without a current context gives a stream work, waits for it, and frees memory: the driver finds the context by these
#include "check.h"
#include <pthread.h>

enum { N = 64, ROUNDS = 3 };

static CUdeviceptr memory, freed, ordered, of_another;
static int *pinned, *given_up;
static CUstream stream;
static CUevent event;
static CUfunction twice;

static void *work(void *unused)
{
    CUcontext context;
    int n = N;

    CHECK(cuCtxGetCurrent(&context));
    REQUIRE(!context);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            pinned[i] = i + round;
        CHECK(cuMemcpyHtoDAsync(memory, pinned, N * sizeof(int), stream));
        CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
        CHECK(cuMemcpyDtoHAsync(pinned, memory, N * sizeof(int), stream));
        CHECK(cuEventRecord(event, stream));
        if (round % 2)
            CHECK(cuEventSynchronize(event));
        else
            CHECK(cuStreamSynchronize(stream));
        printf("%d\n", pinned[N - 1]);
        REQUIRE(pinned[N - 1] == 2 * (N - 1 + round));
    }
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    CHECK(cuMemsetD32Async(freed, 1, N, stream));
    CHECK(cuMemFree(freed));
    CHECK(cuMemFreeAsync(ordered, stream));
    CHECK(cuMemFree(of_another));
    CHECK(cuMemFreeHost(given_up));
    return unused;
}

int main(void)
{
    pthread_t thread;
    CUcontext other, popped;

    start_driver();
    twice = find_kernel(load_module("faults"), "twice");
    memory = allocate(N * sizeof(int));
    freed = allocate(1 << 20);
    CHECK(cuMemAllocHost((void **)&pinned, N * sizeof(int)));
    CHECK(cuMemAllocHost((void **)&given_up, 1 << 16));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocAsync(&ordered, 4096, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
    of_another = allocate(1 << 20);
    CHECK(cuMemsetD32Async(of_another, 2, N, NULL));
    CHECK(cuCtxPopCurrent(&popped));
    REQUIRE(!pthread_create(&thread, NULL, work, NULL));
    REQUIRE(!pthread_join(thread, NULL));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxDestroy(other));
    return 0;
}
