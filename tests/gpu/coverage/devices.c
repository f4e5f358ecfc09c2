// Devices and what surrounds a process: questions in their old and their new form, notices, core dumps, logs, checkpoints
#include "tell.h"
#include <cudaProfiler.h>
#include <unistd.h>

enum { SOME = 2 };

static void notice(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
    (void)info, (void)data, (void)handle;
}

static void logged(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)data, (void)level, (void)message, (void)length;
}

static void asked(CUdevice d)
{
    CUatomicOperation operations[SOME] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
    unsigned capabilities[SOME] = {0}, mask, small;
    CUuuid old, new;
    char luid[8], bus[32];
    CUdevice same;
    size_t width;
    int number;

    TELL(cuDeviceGetUuid(&old, d));
    TELL(cuDeviceGetUuid_v2(&new, d));
    TELL(cuDeviceGetLuid(luid, &mask, d));
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
    TELL(cuProfilerInitialize("", "", CU_OUT_KEY_VALUE_PAIR));
    TELL(cuProfilerStart());
    TELL(cuProfilerStop());
}

static void surroundings(CUdevice d)
{
    CUasyncCallbackHandle notices;
    CUlogsCallbackHandle logs;
    CUlogIterator at;
    CUprocessState state;
    char text[4096];
    size_t size = sizeof(int);
    int on = 0, thread;

    if (TELL(cuDeviceRegisterAsyncNotification(d, notice, NULL, &notices)) == CUDA_SUCCESS)
        TELL(cuDeviceUnregisterAsyncNotification(d, notices));
    TELL(cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
    TELL(cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
    TELL(cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &size));
    TELL(cuCoredumpSetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &size));
    if (TELL(cuLogsRegisterCallback(logged, NULL, &logs)) == CUDA_SUCCESS) {
        TELL(cuLogsCurrent(&at, 0));
        TELL(cuMemFree_v2(1));
        size = sizeof text;
        TELL(cuLogsDumpToMemory(&at, text, &size, 0));
        TELL(cuLogsDumpToFile(NULL, "/dev/null", 0));
        TELL(cuLogsUnregisterCallback(logs));
    }
    TELL(cuCheckpointProcessGetState(getpid(), &state));
    TELL(cuCheckpointProcessGetRestoreThreadId(getpid(), &thread));
}

int main(void)
{
    CUdevice d;

    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    asked(d);
    named();
    surroundings(d);
    fill_and_see(1);
    return 0;
}
