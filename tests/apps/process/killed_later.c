// Launches, lives on until there is a file "enough", and is killed
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(void)
{
    CUdeviceptr memory;
    int i;

    start_driver();
    CHECK(cuMemAlloc(&memory, 1000));
    for (i = 0; i < 10; i++)
        CHECK(cuMemsetD8(memory, 1, 1000));
    CHECK(cuCtxSynchronize());
    for (i = 0; access("enough", F_OK) && i < 30000; i++)
        usleep(10000);
    raise(SIGKILL);
    return 1;
}
