// What cuCtxAttach and cuCtxDetach do to a context, and to the thread's stack
#include "tell.h"

static void current(const char *when, CUcontext own, CUcontext below)
{
    CUcontext context = NULL;
    CHECK(cuCtxGetCurrent(&context));
    printf("%-34s current: %s\n", when, !context ? "none" : context == own ? "the context" : context == below ? "the one below" : "another");
}

int main(void)
{
    CUdevice device;
    CUcontext below, context, attached = NULL;
    CUdeviceptr memory;
    unsigned version;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate(&below, NULL, 0, device));
    CHECK(cuCtxCreate(&context, NULL, 0, device));
    TELL(cuCtxAttach(&attached, 0));
    printf("the same handle: %s\n", attached == context ? "yes" : "no");
    CHECK(cuMemAlloc(&memory, 1 << 20));
    TELL(cuCtxDetach(context));
    current("detached once", context, below);
    TELL(cuMemsetD8(memory, 1, 16));
    TELL(cuCtxDetach(context));
    current("detached twice", context, below);
    TELL(cuCtxGetApiVersion(context, &version));
    TELL(cuMemsetD8(memory, 1, 16));
    TELL(cuCtxDetach(context));
    current("detached three times", context, below);

    // Destroyed while attached to
    CHECK(cuCtxSetCurrent(below));
    TELL(cuCtxAttach(&attached, 0));
    TELL(cuCtxDestroy(below));
    current("destroyed though attached to", context, below);
    TELL(cuCtxDetach(below));

    // A primary context
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    TELL(cuCtxAttach(&attached, 0));
    TELL(cuCtxDetach(context));
    TELL(cuCtxDetach(context));
    current("primary, detached once more", context, below);
    TELL(cuMemAlloc(&memory, 16));
    return 0;
}
