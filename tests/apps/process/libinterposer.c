// Another preloaded library in front of the driver: counts cuDeviceGetCount and passes it on
#include "check.h"
#include <dlfcn.h>

static int calls;

CUresult cuDeviceGetCount(int *count)
{
    CUresult (*next)(int *) = dlsym(RTLD_NEXT, "cuDeviceGetCount");

    REQUIRE(next && next != cuDeviceGetCount);
    calls++;
    return next(count);
}

__attribute__((destructor)) static void report(void)
{
    printf("interposed %d\n", calls);
}
