// Its destructor calls the driver, after those of the program and of libraries that were preloaded
#include "check.h"

CUcontext begin(void)
{
    return start_driver();
}

__attribute__((destructor)) static void end(void)
{
    CUcontext current;
    int i, count;

    // By then the driver may have ended.
    cuDeviceGetCount(&count);
    for (i = 0; i < 50000; i++)
        cuCtxGetCurrent(&current);
}
