// Memory: old forms, questions about it, advice and moves, pools by location, a handle found again by its address
#include "tell.h"
#include <sys/mman.h>

enum { BYTES = 4096, PAGE = 2 << 20 };

static void host(void)
{
    void *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned flags;

    REQUIRE(own != MAP_FAILED);
    if (TELL(cuMemHostRegister(own, BYTES, 0)) == CUDA_SUCCESS) {
        TELL(cuMemHostGetFlags(&flags, own));
        printf("%u\n", flags);
        CHECK(cuMemHostUnregister(own));
    }
}

static void questions(CUdeviceptr memory)
{
    CUpointer_attribute which[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    CUmemorytype type = 0;
    CUdeviceptr base;
    unsigned managed = 0;
    size_t size;
    int on = 1;
    void *data[2] = {&type, &managed};

    TELL(cuMemGetAddressRange_v2(&base, &size, memory + 16));
    printf("%d %zu\n", base == memory, size);
    TELL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    TELL(cuPointerGetAttributes(2, which, data, memory));
    printf("%d %u\n", type, managed);
    TELL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
}

static void managed(CUdevice d)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d};
    CUmem_range_attribute which[2] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    CUdeviceptr memory;
    CUstream stream;
    int mostly = 0, preferred = 0;
    void *data[2] = {&mostly, &preferred};
    size_t sizes[2] = {4, 4}, size = BYTES, first = 0;
    unsigned char seen[BYTES];

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemsetD8_v2(memory, 9, BYTES));
    CHECK(cuCtxSynchronize());
    TELL(cuMemAdvise(memory, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, d));
    TELL(cuMemAdvise_v2(memory, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    TELL(cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, BYTES));
    TELL(cuMemRangeGetAttributes(data, sizes, which, 2, memory, BYTES));
    printf("%d %d\n", mostly, preferred);
    TELL(cuMemPrefetchAsync(memory, BYTES, d, stream));
    TELL(cuMemPrefetchAsync_ptsz(memory, BYTES, d, stream));
    TELL(cuMemPrefetchAsync_v2(memory, BYTES, here, 0, stream));
    TELL(cuMemPrefetchAsync_v2_ptsz(memory, BYTES, here, 0, stream));
    TELL(cuMemPrefetchBatchAsync(&memory, &size, 1, &here, &first, 1, 0, stream));
    TELL(cuMemPrefetchBatchAsync_ptsz(&memory, &size, 1, &here, &first, 1, 0, stream));
    TELL(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    TELL(cuStreamAttachMemAsync_ptsz(stream, memory, 0, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(seen, memory, BYTES));
    printf("managed %u\n", seen[BYTES - 1]);
    // What is discarded holds nothing that could be compared, until it is written again.
    TELL(cuMemDiscardBatchAsync(&memory, &size, 1, 0, stream));
    TELL(cuMemDiscardBatchAsync_ptsz(&memory, &size, 1, 0, stream));
    TELL(cuMemDiscardAndPrefetchBatchAsync(&memory, &size, 1, &here, &first, 1, 0, stream));
    TELL(cuMemDiscardAndPrefetchBatchAsync_ptsz(&memory, &size, 1, &here, &first, 1, 0, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree_v2(memory));
    CHECK(cuStreamDestroy_v2(stream));
}

static void pools(CUdevice d)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemoryPool pool, first, now;
    CUmemAccess_flags flags;
    CUdeviceptr memory;
    cuuint64_t kept = 1 << 20;
    unsigned seen;

    TELL(cuMemGetDefaultMemPool(&first, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(cuMemPoolCreate(&pool, &props));
    TELL(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept));
    kept = 0;
    TELL(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept));
    TELL(cuMemPoolGetAccess(&flags, pool, &here));
    printf("%llu %d\n", (unsigned long long)kept, flags);
    TELL(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    if (TELL(cuMemGetMemPool(&now, &here, CU_MEM_ALLOCATION_TYPE_PINNED)) == CUDA_SUCCESS)
        printf("%d %d\n", now == pool, now == first);
    CHECK(cuMemAllocAsync(&memory, BYTES, NULL));
    CHECK(cuMemsetD32Async(memory, 10, BYTES / 4, NULL));
    CHECK(cuMemcpyDtoH_v2(&seen, memory, 4));
    printf("pooled %u\n", seen);
    CHECK(cuMemFreeAsync(memory, NULL));
    CHECK(cuStreamSynchronize(NULL));
    TELL(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, first));
    CHECK(cuMemPoolDestroy(pool));
}

static void mapped(CUdevice d)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d}}, told;
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    unsigned long long flags;
    CUdeviceptr range;
    size_t step;
    unsigned seen;

    TELL(cuMemGetAllocationGranularity(&step, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CHECK(cuMemAddressReserve(&range, PAGE, 0, 0, 0));
    CHECK(cuMemCreate(&handle, PAGE, &prop, 0));
    CHECK(cuMemMap(range, PAGE, 0, handle, 0));
    CHECK(cuMemSetAccess(range, PAGE, &access, 1));
    TELL(cuMemGetAccess(&flags, &access.location, range));
    TELL(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    printf("%llu %d\n", flags, told.location.id);
    CHECK(cuMemsetD32_v2(range, 11, PAGE / 4));
    TELL(cuMemRetainAllocationHandle(&again, (void *)range));
    TELL(cuMemRelease(again));
    // Unmapping does not wait for what fills it.
    CHECK(cuCtxSynchronize());
    CHECK(cuMemUnmap(range, PAGE));
    // What the allocation holds is still there when it is mapped again.
    CHECK(cuMemMap(range, PAGE, 0, handle, 0));
    CHECK(cuMemSetAccess(range, PAGE, &access, 1));
    CHECK(cuMemcpyDtoH_v2(&seen, range + PAGE - 4, 4));
    printf("mapped %u\n", seen);
    CHECK(cuMemUnmap(range, PAGE));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(range, PAGE));
}

int main(void)
{
    CUmemGenericAllocationHandle none;
    CUdeviceptr memory;
    CUdevice d;

    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    host();
    memory = allocate(BYTES);
    questions(memory);
    // Such memory has no handle; where the replay has it is another matter.
    TELL(cuMemRetainAllocationHandle(&none, (void *)memory));
    managed(d);
    pools(d);
    mapped(d);
    return 0;
}
