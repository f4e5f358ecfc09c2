#include "check.h"

int count_devices(void)
{
    int count = -1;

    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    return count;
}
