// What a process may import of its own: physical allocations and pools by descriptor, pointers of pools, IPC handles
// cc exported_in_process.c -lcuda
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemPoolProps pooled = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                             .location = properties.location};
    CUmemGenericAllocationHandle made, imported, again, retained;
    CUdevice device;
    CUcontext context;
    CUdeviceptr range, memory, other = 0;
    CUmemoryPool pool, second;
    CUmemPoolPtrExportData data;
    CUmemFabricHandle fabric;
    CUipcMemHandle ipc;
    int first = -1, next = -1, copied, word = 0;
    size_t granule;
    CUresult result;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&made, granule, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&first, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemExportToShareableHandle(&next, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    printf("exported twice: descriptors %s\n", first == next ? "alike" : "differ");
    copied = fcntl(first, F_DUPFD, 100);
    result = cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    printf("imported: %d, the handle %s\n", result, imported == made ? "is that of the maker" : "is another");
    result = cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)copied, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    printf("imported by a copy of the descriptor: %d, the handle %s\n", result, again == imported ? "is that of the first import" : again == made ? "is that of the maker" : "is another");
    printf("closed: %d %d %d\n", close(first), close(next), close(copied));
    CHECK(cuMemAddressReserve(&range, 2 * granule, 0, 0, 0));
    CHECK(cuMemMap(range, granule, 0, made, 0));
    CHECK(cuMemMap(range + granule, granule, 0, imported, 0));
    CHECK(cuMemSetAccess(range, 2 * granule, &access, 1));
    CHECK(cuMemsetD32(range, 77, 100));
    CHECK(cuMemcpyDtoH(&word, range + granule, 4));
    printf("what was written through one mapping, read through the other: %d\n", word);
    CHECK(cuMemRetainAllocationHandle(&retained, (void *)(range + granule)));
    printf("retained by the second mapping: the handle %s\n", retained == imported ? "of the import" : retained == made ? "of the maker" : "is another");
    printf("released: %d", cuMemRelease(retained));
    printf(" %d", cuMemRelease(imported));
    printf(" %d", cuMemRelease(again));
    printf(" %d\n", cuMemRelease(made));
    CHECK(cuMemUnmap(range, 2 * granule));
    printf("released once more: %d\n", cuMemRelease(made));
    CHECK(cuMemAddressFree(range, 2 * granule));
    CHECK(cuMemCreate(&made, granule, &properties, 0));
    printf("as a fabric handle: %d\n", cuMemExportToShareableHandle(&fabric, made, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    CHECK(cuMemRelease(made));

    CHECK(cuMemPoolCreate(&pool, &pooled));
    CHECK(cuMemAllocFromPoolAsync(&memory, 4096, pool, 0));
    CHECK(cuStreamSynchronize(0));
    CHECK(cuMemPoolExportToShareableHandle(&first, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result = cuMemPoolImportFromShareableHandle(&second, (void *)(uintptr_t)first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    printf("pool imported: %d, the handle %s\n", result, result ? "-" : second == pool ? "is that of the maker" : "is another");
    CHECK(cuMemPoolExportPointer(&data, memory));
    if (!result) {
        result = cuMemPoolImportPointer(&other, second, &data);
        printf("pointer imported: %d, the address %s\n", result, result ? "-" : other == memory ? "is the same" : "is another");
    }
    printf("an allocation's IPC handle: %d", cuMemAlloc(&memory, 4096) || cuIpcGetMemHandle(&ipc, memory));
    printf(", opened: %d\n", cuIpcOpenMemHandle(&other, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return 0;
}
