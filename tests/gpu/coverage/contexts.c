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

static void events(CUcontext c)
{
    CUevent event;

    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TELL(cuCtxRecordEvent(c, event));
    TELL(cuCtxWaitEvent(c, event));
    TELL(cuEventSynchronize(event));
    TELL(cuEventDestroy(event));
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
