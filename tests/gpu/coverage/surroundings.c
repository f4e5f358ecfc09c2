// What surrounds a process: notices of memory pressure, core dumps, the driver's log, checkpoints
#include "tell.h"
#include <cudaProfiler.h>
#include <stdbool.h>
#include <unistd.h>

static void notice(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
    (void)info, (void)data, (void)handle;
}

static void logged(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)data, (void)level, (void)message, (void)length;
}

static void surroundings(CUdevice d)
{
    CUasyncCallbackHandle notices;
    CUlogsCallbackHandle logs;
    CUlogIterator at;
    CUprocessState state;
    char text[4096], luid[8];
    bool on = false;
    size_t size = sizeof on;
    int thread;
    unsigned mask;

    TELL(cuDeviceGetLuid(luid, &mask, d));
    TELL(cuProfilerInitialize("", "", CU_OUT_KEY_VALUE_PAIR));
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
    surroundings(d);
    fill_and_see(12);
    return 0;
}
