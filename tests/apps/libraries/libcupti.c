// A libcupti beside the driver, as NVIDIA has it; the simulated driver's own does the work. It asks the driver something, too, and
// takes $CUPTI_SLOW microseconds for that
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *driver(const char *name)
{
    const char *path = getenv("CUTRACE_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "libcupti: the driver has no %s\n", name);
        abort();
    }
    return found;
}

static void ask(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*version)(int *) = (CUresult (*)(int *))dlsym(library, "cuDriverGetVersion");
    int told;
    if (!version || version(&told))
        abort();
    if (getenv("CUPTI_SLOW"))
        usleep(atoi(getenv("CUPTI_SLOW")));
}

typedef uint32_t (*Function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define FORWARD(name, asks)                                                                                            \
    uint32_t name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)                                                  \
    {                                                                                                                  \
        static Function real;                                                                                          \
        if (asks)                                                                                                      \
            ask();                                                                                                     \
        if (!real)                                                                                                     \
            real = (Function)driver(#name);                                                                            \
        return real(a, b, c, d);                                                                                       \
    }

FORWARD(cuptiGetVersion, 1)
FORWARD(cuptiGetTimestamp, 0)
FORWARD(cuptiGetResultString, 0)
FORWARD(cuptiSubscribe, 0)
FORWARD(cuptiUnsubscribe, 0)
FORWARD(cuptiEnableCallback, 0)
FORWARD(cuptiGetCallbackName, 0)
FORWARD(cuptiActivityRegisterCallbacks, 0)
FORWARD(cuptiActivityEnable, 1)
FORWARD(cuptiActivityDisable, 0)
FORWARD(cuptiActivityEnableDriverApi, 0)
FORWARD(cuptiActivityPushExternalCorrelationId, 0)
FORWARD(cuptiActivityPopExternalCorrelationId, 0)
FORWARD(cuptiActivityFlushAll, 1)
FORWARD(cuptiActivityGetNextRecord, 0)
FORWARD(cuptiActivityGetNumDroppedRecords, 0)
