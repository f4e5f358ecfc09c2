// Devices and the driver: questions in their old and their new form
#include "tell.h"
#include <cudaProfiler.h>

enum { SOME = 2 };

static void asked(CUdevice d)
{
    CUatomicOperation operations[SOME] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
    unsigned capabilities[SOME] = {0}, small;
    CUuuid old, new;
    char bus[32];
    CUdevice same;
    size_t width;
    int number;

    TELL(cuDeviceGetUuid(&old, d));
    TELL(cuDeviceGetUuid_v2(&new, d));
    TELL(cuDeviceTotalMem(&small, d));
    TELL(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, d));
    TELL(cuDeviceGetExecAffinitySupport(&number, CU_EXEC_AFFINITY_TYPE_SM_COUNT, d));
    TELL(cuDeviceGetHostAtomicCapabilities(capabilities, operations, SOME, d));
    TELL(cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, d, d));
    TELL(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, SOME, d, d));
    TELL(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    TELL(cuDeviceGetPCIBusId(bus, sizeof bus, d));
    TELL(cuDeviceGetByPCIBusId(&same, bus));
    REQUIRE(same == d && !memcmp(&old, &new, sizeof old) == !memcmp(&new, &old, sizeof old));
}

static void named(void)
{
    CUdriverProcAddressQueryResult found;
    const char *text;
    void *address;

    TELL(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    printf("%s\n", text);
    TELL(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
    TELL(cuGetProcAddress("cuMemAlloc", &address, 12000, 0));
    TELL(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, &found));
    TELL(cuProfilerStart());
    TELL(cuProfilerStop());
}

int main(void)
{
    CUdevice d;

    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    asked(d);
    named();
    fill_and_see(1);
    return 0;
}
