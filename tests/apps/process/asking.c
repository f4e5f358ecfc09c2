// Asks over and over which context is current, and what a device can do; with the answer changing, and two things in turn
#include "check.h"

static CUcontext context, found;
static unsigned long currents, attributes, devices;

static void ask_alike(CUcontext wanted, int times)
{
    for (int i = 0; i < times; i++) {
        CHECK(cuCtxGetCurrent(&found));
        REQUIRE(found == wanted);
    }
    currents += times;
}

static void ask_attribute(CUdevice_attribute which, int times)
{
    int value;

    for (int i = 0; i < times; i++)
        CHECK(cuDeviceGetAttribute(&value, which, 0));
    attributes += times;
}

// Frameworks do so before each launch, from places with stacks of other depths.
static void ask_in_turn(int depth)
{
    volatile char frame[512];
    CUcontext own = NULL;
    CUdevice device = -1;

    frame[0] = (char)depth;
    (void)frame;
    if (depth > 0) {
        ask_in_turn(depth - 1);
        return;
    }
    CHECK(cuCtxGetDevice(&device));
    REQUIRE(device == 0);
    CHECK(cuCtxGetCurrent(&own));
    REQUIRE(own == context);
    currents++, devices++;
}

int main(void)
{
    CUcontext other;
    int unlike[2], back = 0;

    context = start_driver();
    ask_alike(context, 1000);
    // Another thing is asked, and the same with its answer elsewhere.
    ask_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000);
    ask_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1000);
    for (int i = 0; i < 2; i++)
        CHECK(cuDeviceGetAttribute(&unlike[i], CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    attributes += 2;
    // The answer changes between one and the next.
    CHECK(cuCtxPopCurrent(&other));
    ask_alike(NULL, 10);
    CHECK(cuCtxPushCurrent(context));
    ask_alike(context, 10);
    // One that fails each time.
    for (int i = 0; i < 3; i++)
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL));
    currents += 3;
    for (int i = 0; i < 500; i++)
        ask_in_turn(i % 7);
    // What was asked in turn before is likely to be again.
    for (int i = 0; i < 12; i++) {
        if (i % 4 == 0)
            CHECK(cuCtxSetCurrent(context));
        ask_in_turn(i);
    }
    // A poll stands for itself where a question comes before it, and has no others beside it.
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamQuery(stream));
    ask_alike(context, 1);
    for (int i = 0; i < 100; i++)
        CHECK(cuStreamQuery(stream));
    CUdeviceptr memory = allocate(4);
    CHECK(cuMemsetD32(memory, 5, 1));
    CHECK(cuMemcpyDtoH(&back, memory, 4));
    REQUIRE(back == 5);
    printf("%lu %lu %lu\n", currents, attributes, devices);
    return 0;
}
