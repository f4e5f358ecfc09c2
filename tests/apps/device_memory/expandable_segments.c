// Segments that grow and shrink, as an allocator of a framework makes them: a large range, pieces mapped one behind the
// other, unmapped in the middle, mapped again in another order, one of them in two ranges; plain memory beside them
#include "check.h"

enum { PIECES = 4, N = 128 };

static size_t granule;
static CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void map(CUdeviceptr at, CUmemGenericAllocationHandle piece)
{
    CHECK(cuMemMap(at, granule, 0, piece, 0));
    CHECK(cuMemSetAccess(at, granule, &access, 1));
}

static int last(CUdeviceptr at)
{
    int numbers[N];

    CHECK(cuMemcpyDtoH(numbers, at, sizeof numbers));
    return numbers[N - 1];
}

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle pieces[PIECES];
    CUdeviceptr range, second, at;
    int n = N, i;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t whole = 512 << 20;
    CHECK(cuMemAddressReserve(&range, whole, 0, 0, 0));
    CHECK(cuMemAddressReserve(&second, 2 * granule, 0, 0, 0));
    for (i = 0; i < PIECES; i++) {
        CHECK(cuMemCreate(&pieces[i], granule, &properties, 0));
        map(range + i * granule, pieces[i]);
        CHECK(cuMemsetD32(range + i * granule, i + 1, N));
    }
    CUdeviceptr plain = allocate(sizeof(int) * N);
    // The two in the middle change places, once they are filled: unmapping waits for nothing.
    CHECK(cuCtxSynchronize());
    CHECK(cuMemUnmap(range + granule, 2 * granule));
    map(range + granule, pieces[2]);
    map(range + 2 * granule, pieces[1]);
    REQUIRE(last(range + granule) == 3 && last(range + 2 * granule) == 2);
    // The last one moves far up, and is seen from the other range as well.
    CHECK(cuMemUnmap(range + 3 * granule, granule));
    at = range + whole - granule;
    map(at, pieces[3]);
    map(second + granule, pieces[3]);
    launch(twice, 1, N, (void *[]){&at, &n});
    REQUIRE(last(second + granule) == 8);
    // Its place is taken by fresh memory, whose handle is given up at once.
    CUmemGenericAllocationHandle fresh;
    CHECK(cuMemCreate(&fresh, granule, &properties, 0));
    map(range + 3 * granule, fresh);
    CHECK(cuMemRelease(fresh));
    at = range + 3 * granule;
    CHECK(cuMemsetD32(at, 50, N));
    launch(twice, 1, N, (void *[]){&at, &n});
    CHECK(cuMemcpyDtoD(plain, at, sizeof(int) * N));
    REQUIRE(last(plain) == 100);
    // Across a seam.
    at = range + granule - N / 2 * sizeof(int);
    CHECK(cuMemsetD32(at, 7, N));
    launch(twice, 1, N, (void *[]){&at, &n});
    REQUIRE(last(at) == 14);
    // Refused: there is something already.
    REQUIRE(cuMemMap(range, granule, 0, pieces[2], 0) != CUDA_SUCCESS);
    CHECK(cuMemUnmap(range, 4 * granule));
    CHECK(cuMemUnmap(range + whole - granule, granule));
    CHECK(cuMemUnmap(second + granule, granule));
    for (i = 0; i < PIECES; i++)
        CHECK(cuMemRelease(pieces[i]));
    CHECK(cuMemAddressFree(second, 2 * granule));
    CHECK(cuMemAddressFree(range, whole));
    // Refused: there is nothing any more.
    REQUIRE(cuMemUnmap(range, granule) != CUDA_SUCCESS);
    // What lay in the range before was something else.
    CUdeviceptr again = allocate(8 << 20);
    CHECK(cuMemsetD32(again, 3, N));
    launch(twice, 1, N, (void *[]){&again, &n});
    printf("%d\n", last(again));
    REQUIRE(last(again) == 6);
    return 0;
}
