// Linked with a driver that may not be there
#include "check.h"

int main(void)
{
    int count = -1;
    CUresult init = cuInit(0), get = cuDeviceGetCount(&count);

    printf("%d %d %d\n", (int)init, (int)get, count);
    return 0;
}
