// An address range, two pieces of memory mapped into it, one of them replaced
#include "check.h"

enum { N = 100 };

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle pieces[3];
    int numbers[N], n = N, i;
    CUdeviceptr range, middle;
    size_t granule;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");

    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&range, 4 * granule, 0, 0, 0));
    for (i = 0; i < 3; i++)
        CHECK(cuMemCreate(&pieces[i], granule, &properties, 0));
    CHECK(cuMemMap(range, granule, 0, pieces[0], 0));
    CHECK(cuMemMap(range + granule, granule, 0, pieces[1], 0));
    CHECK(cuMemSetAccess(range, 2 * granule, &access, 1));
    for (i = 0; i < N; i++)
        numbers[i] = i;
    // Across the seam of the two pieces.
    middle = range + granule - 40 * sizeof *numbers;
    CHECK(cuMemcpyHtoD(middle, numbers, sizeof numbers));
    launch(twice, 1, 128, (void *[]){&middle, &n});
    CHECK(cuMemcpyDtoH(numbers, middle, sizeof numbers));
    for (i = 0; i < N; i++)
        REQUIRE(numbers[i] == 2 * i);
    CHECK(cuMemUnmap(range + granule, granule));
    CHECK(cuMemMap(range + granule, granule, 0, pieces[2], 0));
    CHECK(cuMemSetAccess(range + granule, granule, &access, 1));
    CHECK(cuMemsetD32(range + granule, 9, 60));
    CHECK(cuMemcpyDtoH(numbers, middle, sizeof numbers));
    printf("%d %d\n", numbers[39], numbers[40]);
    REQUIRE(numbers[39] == 78 && numbers[40] == 9);

    // Held once more by its address, and once less: it is released as often as it is held
    CUmemGenericAllocationHandle held;
    CUdeviceptr allocated = allocate(4096);
    CHECK(cuMemRetainAllocationHandle(&held, (void *)(range + 100)));
    REQUIRE(held == pieces[0]);
    CHECK(cuMemRelease(pieces[0]));
    CHECK(cuMemMap(range + 2 * granule, granule, 0, held, 0));
    CHECK(cuMemSetAccess(range + 2 * granule, granule, &access, 1));
    CHECK(cuMemcpyDtoH(numbers, range + 3 * granule - 160, 160));
    REQUIRE(numbers[39] == 78);
    CHECK(cuMemUnmap(range + 2 * granule, granule));
    // Not every driver says what other memory is made of
    if (!cuMemRetainAllocationHandle(&held, (void *)allocated))
        CHECK(cuMemRelease(held));

    CHECK(cuMemUnmap(range, 2 * granule));
    for (i = 0; i < 3; i++)
        CHECK(cuMemRelease(pieces[i]));
    CHECK(cuMemAddressFree(range, 4 * granule));
    return 0;
}
