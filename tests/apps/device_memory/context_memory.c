// Contexts that end with more than half of the device's memory, none of it freed
#include "check.h"

int main(void)
{
    size_t total;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    unsigned char bytes[64];
    int i;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceTotalMem(&total, device));
    for (i = 0; i < 3; i++) {
        CHECK(cuCtxCreate(&context, NULL, 0, device));
        CHECK(cuMemAlloc(&memory, total / 2 + ((size_t)(i + 1) << 20)));
        CHECK(cuMemsetD8(memory, i + 1, sizeof bytes));
        CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
        REQUIRE(bytes[63] == i + 1);
        CHECK(cuCtxDestroy(context));
    }
    for (i = 0; i < 2; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuMemAlloc(&memory, total / 2 + ((size_t)(i + 1) << 20)));
        CHECK(cuMemsetD8(memory, i + 9, sizeof bytes));
        CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
        REQUIRE(bytes[63] == i + 9);
        CHECK(cuCtxSetCurrent(NULL));
        CHECK(cuDevicePrimaryCtxRelease(device));
    }
    return 0;
}
