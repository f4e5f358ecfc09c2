// Launches, lives on for a while, and is killed
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
    usleep(1500000);
    raise(SIGKILL);
    return 1;
}
