// Two devices that may look at each other's memory
#include "tell.h"

enum { BYTES = 64 };

int main(void)
{
    CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD;
    CUcontext first = start_driver(), second;
    unsigned capabilities, seen[BYTES / 4];
    CUdeviceptr here, there;
    int count, can;

    fill_and_see(13);
    CHECK(cuDeviceGetCount(&count));
    if (count < 2)
        return 0;
    CHECK(cuDevicePrimaryCtxRetain(&second, 1));
    TELL(cuDeviceCanAccessPeer(&can, 0, 1));
    TELL(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    TELL(cuDeviceGetP2PAtomicCapabilities(&capabilities, &add, 1, 0, 1));
    if (TELL(cuCtxEnablePeerAccess(second, 0)) != CUDA_SUCCESS)
        return 0;
    here = allocate(BYTES);
    CHECK(cuCtxSetCurrent(second));
    there = allocate(BYTES);
    CHECK(cuMemsetD32_v2(there, 14, BYTES / 4));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(first));
    TELL(cuMemcpyPeer(here, first, there, second, BYTES));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(seen, here, BYTES));
    printf("%u\n", seen[BYTES / 4 - 1]);
    TELL(cuCtxDisablePeerAccess(second));
    return 0;
}
