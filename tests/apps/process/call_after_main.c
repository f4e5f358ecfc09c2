// Calls the driver from atexit and from a destructor, after main has returned
#include "check.h"

static void at_exit(void)
{
    int count;

    printf("atexit %d\n", (int)cuDeviceGetCount(&count));
}

__attribute__((destructor)) static void last(void)
{
    int version;

    printf("destructor %d\n", (int)cuDriverGetVersion(&version));
}

int main(void)
{
    atexit(at_exit);
    CHECK(cuInit(0));
    return 0;
}
