// A program that asks to be profiled in part, and asks about the device
#include "sample.h"
#include <cuda_profiler_api.h>

__global__ void add(float *values, int n, float what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += what;
}

int main()
{
    int devices, driver, runtime, value, device;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    REQUIRE(devices > 0 && driver > 0 && runtime > 0);
    CHECK(cudaSetDevice(devices - 1));
    CHECK(cudaGetDevice(&device));
    cudaDeviceProp properties, wanted = {};
    CHECK(cudaGetDeviceProperties(&properties, device));
    wanted.major = 7;
    CHECK(cudaChooseDevice(&device, &wanted));
    CHECK(cudaSetDevice(device));
    for (int i = 1; i < 100; i++)
        cudaDeviceGetAttribute(&value, cudaDeviceAttr(i), device);
    char bus[32];
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
    CHECK(cudaDeviceGetByPCIBusId(&device, bus));
    for (int other = 0; other < devices; other++)
        CHECK(cudaDeviceCanAccessPeer(&value, device, other));
    cudaGetLastError();
    const int n = 3000;
    std::vector<float> values = numbers(n);
    float *memory = upload(values);
    CHECK(cudaProfilerStart());
    add<<<(n + 255) / 256, 256>>>(memory, n, 2);
    CHECK(cudaProfilerStop());
    add<<<(n + 255) / 256, 256>>>(memory, n, 3);
    std::vector<float> results = download(memory, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[i] + 5);
    print("results", results);
    return 0;
}
