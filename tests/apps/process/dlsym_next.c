// Stands in front of cuDeviceGetCount and finds the driver's own behind it
#include "check.h"
#include <dlfcn.h>

CUresult cuDeviceGetCount(int *count)
{
    CUresult (*next)(int *) = dlsym(RTLD_NEXT, "cuDeviceGetCount");
    CUresult result;

    REQUIRE(next && next != cuDeviceGetCount);
    result = next(count);
    *count += 100;
    return result;
}

int main(void)
{
    int count = -1;

    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    printf("%d\n", count);
    return 0;
}
