// Memory mapped by the driver's functions beside the runtime: reserved, grown, mapped twice, unmapped
// nvcc: DRIVER
#include "sample.h"
#include <cuda.h>

__global__ void fill(int *values, size_t n, int with)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        values[i] = int(i) * with;
}

int main()
{
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t granule;
    ZERO(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr range, second;
    const size_t pieces = 6;
    ZERO(cuMemAddressReserve(&range, pieces * granule, 0, 0, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handles[pieces];
    for (size_t i = 0; i < pieces; i++) {
        ZERO(cuMemCreate(&handles[i], granule, &properties, 0));
        ZERO(cuMemMap(range + i * granule, granule, 0, handles[i], 0));
        ZERO(cuMemSetAccess(range + i * granule, granule, &access, 1));
        // All there is so far
        size_t n = (i + 1) * granule / sizeof(int);
        fill<<<64, 256>>>(reinterpret_cast<int *>(range), n, int(i) + 1);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<int> results = download(reinterpret_cast<int *>(range), pieces * granule / sizeof(int));
    for (size_t i = 0; i < results.size(); i += 1001)
        REQUIRE(results[i] == int(i) * 6);
    print("grown", results);
    // The third piece at another address too
    ZERO(cuMemAddressReserve(&second, granule, 0, 0, 0));
    ZERO(cuMemMap(second, granule, 0, handles[2], 0));
    ZERO(cuMemSetAccess(second, granule, &access, 1));
    CHECK(cudaMemset(reinterpret_cast<void *>(second), 0x33, 64));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(download(reinterpret_cast<int *>(range + 2 * granule), 17)[15] == 0x33333333);
    print("twice", download(reinterpret_cast<int *>(range + 2 * granule), 64));
    // Pieces change places
    ZERO(cuMemUnmap(range, 2 * granule));
    ZERO(cuMemMap(range, granule, 0, handles[1], 0));
    ZERO(cuMemMap(range + granule, granule, 0, handles[0], 0));
    ZERO(cuMemSetAccess(range, 2 * granule, &access, 1));
    print("changed", download(reinterpret_cast<int *>(range), 2 * granule / sizeof(int)));
    ZERO(cuMemUnmap(range, pieces * granule));
    ZERO(cuMemUnmap(second, granule));
    for (auto handle : handles)
        ZERO(cuMemRelease(handle));
    ZERO(cuMemAddressFree(range, pieces * granule));
    ZERO(cuMemAddressFree(second, granule));
    return 0;
}
