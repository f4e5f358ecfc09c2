// Memory asked to be compressible, and attributes and ranges of memory asked about
// nvcc: DRIVER
#include "sample.h"
#include <cuda.h>

__global__ void saxpy(float4 *x, float4 *y, int n, float a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = make_float4(a * x[i].x + y[i].x, a * x[i].y + y[i].y, a * x[i].z + y[i].z, a * x[i].w + y[i].w);
}

static CUdeviceptr make(size_t &bytes, bool compressible)
{
    CUmemAllocationProp properties = {}, got = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.allocFlags.compressionType = compressible ? CU_MEM_ALLOCATION_COMP_GENERIC : CU_MEM_ALLOCATION_COMP_NONE;
    size_t granule;
    ZERO(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    bytes = (bytes + granule - 1) / granule * granule;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    ZERO(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    ZERO(cuMemCreate(&handle, bytes, &properties, 0));
    ZERO(cuMemGetAllocationPropertiesFromHandle(&got, handle));
    ZERO(cuMemMap(address, bytes, 0, handle, 0));
    ZERO(cuMemRelease(handle));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ZERO(cuMemSetAccess(address, bytes, &access, 1));
    return address;
}

int main()
{
    CHECK(cudaFree(nullptr));
    int supported;
    ZERO(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0));
    const int n = 1 << 16;
    size_t bytes = n * sizeof(float4);
    CUdeviceptr x = make(bytes, supported), y = make(bytes, false);
    std::vector<float> values = numbers(4 * n, 3);
    ZERO(cuMemcpyHtoD(x, values.data(), values.size() * sizeof(float)));
    ZERO(cuMemsetD32(y, 0x3f800000, 4 * n));
    saxpy<<<n / 256, 256>>>(reinterpret_cast<float4 *>(x), reinterpret_cast<float4 *>(y), n, 2);
    std::vector<float> results = download(reinterpret_cast<float *>(y), 4 * n);
    for (int i = 0; i < 4 * n; i++)
        REQUIRE(results[i] == 2 * values[i] + 1);
    print("results", results);
    CUdeviceptr base;
    size_t size;
    float *plain = allocate<float>(1000);
    ZERO(cuMemGetAddressRange(&base, &size, CUdeviceptr(plain + 10)));
    REQUIRE(base == CUdeviceptr(plain) && size == 4000);
    unsigned type;
    CUcontext context;
    unsigned long long id;
    ZERO(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(plain)));
    ZERO(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, CUdeviceptr(plain)));
    ZERO(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, CUdeviceptr(plain)));
    REQUIRE(type == CU_MEMORYTYPE_DEVICE && context);
    ZERO(cuMemUnmap(x, bytes));
    ZERO(cuMemAddressFree(x, bytes));
    return 0;
}
