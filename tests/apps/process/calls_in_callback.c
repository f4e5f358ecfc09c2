// Calls the driver from within a driver call
#include "unwinding.h"

static int times;

static size_t callback(int threads)
{
    CUcontext context;
    int device;

    (void)threads;
    if (times == 0)
        CHECK(cuCtxGetDevice(&device));
    if (times == 1)
        CHECK(cuCtxGetCurrent(&context));
    times++;
    return 0;
}

int main(void)
{
    unwinding_start();
    CHECK(call_with_callback(callback));
    go_on();
    printf("called back: %d\n", times > 0);
    return 0;
}
