// Contexts: their old forms, what they tell of themselves, events of a whole context, the end of the primary one
#include "tell.h"

static void settings(CUcontext c)
{
    CUexecAffinityParam affinity;
    CUsharedconfig banks;
    CUdevice d;

    TELL(cuCtxGetDevice_v2(&d, c));
    TELL(cuCtxGetDevice_v2(&d, NULL));
    TELL(cuCtxSynchronize_v2(c));
    TELL(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    if (TELL(cuCtxGetSharedMemConfig(&banks)) == CUDA_SUCCESS)
        printf("banks %d\n", banks);
    TELL(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
}

static void old_forms(CUcontext primary, CUdevice d)
{
    CUcontext made, top;

    if (TELL(cuCtxCreate(&made, 0, d)) != CUDA_SUCCESS)
        return;
    TELL(cuCtxPopCurrent(&top));
    REQUIRE(top == made);
    TELL(cuCtxPushCurrent(made));
    TELL(cuCtxEnablePeerAccess(primary, 0));
    TELL(cuCtxDisablePeerAccess(primary));
    TELL(cuCtxPopCurrent(NULL));
    TELL(cuCtxDestroy(made));
}

// The event covers a copy on a stream of the context: once it has happened, the buffer may be used for something else.
static void events(CUcontext c)
{
    CUdeviceptr memory = allocate(64);
    unsigned *pinned;
    CUstream stream;
    CUevent event;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost_v2((void **)&pinned, 64));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemsetD32Async(memory, 21, 16, stream));
    CHECK(cuMemcpyDtoHAsync_v2(pinned, memory, 64, stream));
    TELL(cuCtxRecordEvent(c, event));
    TELL(cuEventSynchronize(event));
    printf("%u\n", pinned[15]);
    memset(pinned, 255, 64);
    TELL(cuCtxWaitEvent(c, event));
    CHECK(cuStreamSynchronize(stream));
    TELL(cuEventDestroy(event));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuStreamDestroy_v2(stream));
}

int main(void)
{
    CUcontext c = start_driver(), again;
    CUdevice d;

    CHECK(cuDeviceGet(&d, 0));
    settings(c);
    old_forms(c, d);
    CHECK(cuCtxSetCurrent(c));
    events(c);
    fill_and_see(2);
    TELL(cuDevicePrimaryCtxReset(d));
    CHECK(cuDevicePrimaryCtxRetain(&again, d));
    CHECK(cuCtxSetCurrent(again));
    fill_and_see(3);
    TELL(cuDevicePrimaryCtxReset_v2(d));
    CHECK(cuDevicePrimaryCtxRetain(&again, d));
    CHECK(cuCtxSetCurrent(again));
    fill_and_see(4);
    return 0;
}
