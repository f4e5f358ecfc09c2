// What it costs to make, map and open memory, for one device and for two
// cc two_device_memory.c -lcuda
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

enum { TURNS = 20 };

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void turn(const char *what, CUdeviceptr range, size_t bytes, int devices, int shared, int order)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access[2] = {0};
    CUmemGenericAllocationHandle made;
    double made_ms = 0, mapped_ms = 0, first_ms = 0, second_ms = 0, filled_ms = 0, unmapped_ms = 0, t;
    CUstream stream;
    int i;

    if (shared)
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for (i = 0; i < 2; i++)
        access[i] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (i = 0; i < TURNS; i++) {
        t = now();
        CHECK(cuMemCreate(&made, bytes, &properties, 0));
        made_ms += now() - t, t = now();
        CHECK(cuMemMap(range, bytes, 0, made, 0));
        mapped_ms += now() - t, t = now();
        CHECK(cuMemRelease(made));
        CHECK(cuMemSetAccess(range, bytes, access, order ? 1 : devices));
        first_ms += now() - t, t = now();
        if (order && devices > 1)
            CHECK(cuMemSetAccess(range, bytes, access + 1, 1));
        second_ms += now() - t, t = now();
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemsetD8Async(range, 0, bytes, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy(stream));
        filled_ms += now() - t, t = now();
        CHECK(cuMemUnmap(range, bytes));
        unmapped_ms += now() - t;
    }
    printf("%-44s %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f\n", what, made_ms / TURNS, mapped_ms / TURNS, first_ms / TURNS, second_ms / TURNS,
           filled_ms / TURNS, unmapped_ms / TURNS);
}

int main(void)
{
    CUcontext contexts[2];
    CUdeviceptr range;
    int i, count, can = 0;

    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    printf("ms a call, mean of %d: create, map, access, access of the second apart, fill, unmap\n", TURNS);
    for (i = 0; i < 2 && i < count; i++)
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    CHECK(cuCtxSetCurrent(contexts[0]));
    CHECK(cuMemAddressReserve(&range, 256 << 20, 0, 0, 0));
    turn("2 MiB, one device", range, 2 << 20, 1, 0, 0);
    turn("64 MiB, one device", range, 64 << 20, 1, 0, 0);
    turn("64 MiB, one device, exportable", range, 64 << 20, 1, 1, 0);
    if (count < 2)
        return 0;
    turn("2 MiB, two devices", range, 2 << 20, 2, 0, 0);
    turn("64 MiB, two devices", range, 64 << 20, 2, 0, 0);
    turn("2 MiB, two devices one after the other", range, 2 << 20, 2, 0, 1);
    CHECK(cuDeviceCanAccessPeer(&can, 0, 1));
    printf("peers: %d\n", can);
    if (can) {
        CHECK(cuCtxEnablePeerAccess(contexts[1], 0));
        CHECK(cuCtxSetCurrent(contexts[1]));
        CHECK(cuCtxEnablePeerAccess(contexts[0], 0));
        CHECK(cuCtxSetCurrent(contexts[0]));
        turn("2 MiB, two devices, peer access enabled", range, 2 << 20, 2, 0, 0);
        turn("2 MiB, one device, peer access enabled", range, 2 << 20, 1, 0, 0);
    }
    return 0;
}
