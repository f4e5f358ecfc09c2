// Physical memory exported as a file descriptor and imported again by the same process: one piece under two handles, at two addresses
#include "check.h"
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

enum { N = 100, TURNS = 3 };

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle made, imported;
    int numbers[N], n = N, i, turn, descriptor = -1, sum = 0, null = open("/dev/null", O_RDONLY);
    CUdeviceptr range, second;
    size_t granule;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&range, 2 * granule, 0, 0, 0));
    second = range + granule;
    REQUIRE(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)null, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    // The same number of a descriptor for other memory, each time.
    for (turn = 0; turn < TURNS; turn++) {
        CHECK(cuMemCreate(&made, granule, &properties, 0));
        CHECK(cuMemExportToShareableHandle(&descriptor, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        CHECK(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        REQUIRE(imported != made && !close(descriptor));
        CHECK(cuMemMap(range, granule, 0, made, 0));
        CHECK(cuMemMap(second, granule, 0, imported, 0));
        CHECK(cuMemSetAccess(range, 2 * granule, &access, 1));
        CHECK(cuMemRelease(made));
        for (i = 0; i < N; i++)
            numbers[i] = i + turn;
        CHECK(cuMemcpyHtoD(range, numbers, sizeof numbers));
        launch(twice, 1, 128, (void *[]){&second, &n});
        CHECK(cuMemcpyDtoH(numbers, range, sizeof numbers));
        for (i = 0; i < N; i++)
            REQUIRE(numbers[i] == 2 * (i + turn));
        CHECK(cuMemUnmap(range, 2 * granule));
        CHECK(cuMemRelease(imported));
        sum += numbers[N - 1];
    }
    CHECK(cuMemAddressFree(range, 2 * granule));
    printf("%d\n", sum);
    return 0;
}
