// Memory that is not just allocated: registered, of a pool that is the device's, mapped. Built a second time for per-thread streams.
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 4096, PAGE = 2 << 20 };

static unsigned char seen[BYTES];

static void see(const char *what, CUdeviceptr at)
{
    CHECK(cuMemcpyDtoH(seen, at, BYTES));
    printf("%s %02x %02x\n", what, seen[0], seen[BYTES - 1]);
}

static void registered(void)
{
    void *host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr device;

    REQUIRE(host != MAP_FAILED);
    CHECK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&device, host, 0));
    CHECK(cuMemHostUnregister(host));
}

static void pooled(CUdevice d)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d}};
    CUmemAccessDesc access = {.location = props.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool pool, now, before;
    CUdeviceptr one, two;
    CUstream stream;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuDeviceGetMemPool(&before, d));
    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemPoolSetAccess(pool, &access, 1));
    CHECK(cuDeviceSetMemPool(d, pool));
    CHECK(cuDeviceGetMemPool(&now, d));
    REQUIRE(now == pool);
    CHECK(cuMemAllocAsync(&one, BYTES, stream));
    CHECK(cuMemAllocFromPoolAsync(&two, BYTES, pool, stream));
    CHECK(cuMemsetD8Async(one, 3, BYTES, stream));
    CHECK(cuMemcpyDtoDAsync(two, one, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    see("pooled", two);
    CHECK(cuMemFreeAsync(one, stream));
    CHECK(cuMemFreeAsync(two, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuDeviceSetMemPool(d, before));
    CHECK(cuMemPoolDestroy(pool));
    CHECK(cuStreamDestroy(stream));
}

static void mapped(CUdevice d)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;

    CHECK(cuMemAddressReserve(&range, PAGE, 0, 0, 0));
    CHECK(cuMemCreate(&handle, PAGE, &prop, 0));
    CHECK(cuMemMap(range, PAGE, 0, handle, 0));
    CHECK(cuMemSetAccess(range, PAGE, &access, 1));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemsetD8(range, 4, BYTES));
    see("mapped", range);
    CHECK(cuMemUnmap(range, PAGE));
    CHECK(cuMemAddressFree(range, PAGE));
}

int main(void)
{
    CUdevice d;

    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    registered();
    pooled(d);
    mapped(d);
    return 0;
}
