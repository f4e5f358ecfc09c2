// What a thread may do that has no current context: which calls find the context by what they are given
#include "tell.h"
#include <pthread.h>

static CUdeviceptr memory[4], ordered;
static void *pinned[2], *registered;
static CUstream stream;
static CUevent event;
static CUfunction twice;
static CUmodule module;

static void *work(void *unused)
{
    CUcontext context;
    int n = 4, host[4] = {1, 2, 3, 4};

    CHECK(cuCtxGetCurrent(&context));
    printf("current context: %s\n", context ? "some" : "none");
    TELL(cuMemcpyHtoD(memory[3], host, sizeof host));
    TELL(cuMemcpyHtoDAsync(memory[3], host, sizeof host, stream));
    TELL(cuMemsetD32Async(memory[3], 1, 4, stream));
    TELL(cuLaunchKernel(twice, 1, 1, 1, 4, 1, 1, 0, stream, (void *[]){&memory[3], &n}, NULL));
    TELL(cuMemcpyDtoHAsync(pinned[1], memory[3], sizeof host, stream));
    TELL(cuEventRecord(event, stream));
    TELL(cuEventQuery(event));
    TELL(cuEventSynchronize(event));
    TELL(cuStreamSynchronize(stream));
    TELL(cuMemcpyDtoH(host, memory[3], sizeof host));
    TELL(cuMemFreeAsync(ordered, stream));
    TELL(cuMemFree(memory[0]));
    TELL(cuMemFreeHost(pinned[0]));
    TELL(cuMemHostUnregister(registered));
    TELL(cuMemHostRegister(registered, 4096, 0));
    TELL(cuModuleUnload(module));
    TELL(cuEventDestroy(event));
    TELL(cuStreamDestroy(stream));
    TELL(cuCtxSynchronize());
    return unused;
}

int main(void)
{
    pthread_t thread;

    start_driver();
    module = load_module("faults");
    twice = find_kernel(module, "twice");
    for (int i = 0; i < 4; i++)
        memory[i] = allocate(1 << 20);
    CHECK(cuMemAllocHost(&pinned[0], 4096));
    CHECK(cuMemAllocHost(&pinned[1], 4096));
    registered = aligned_alloc(4096, 4096);
    CHECK(cuMemHostRegister(registered, 4096, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocAsync(&ordered, 4096, stream));
    CHECK(cuStreamSynchronize(stream));
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return 0;
}
