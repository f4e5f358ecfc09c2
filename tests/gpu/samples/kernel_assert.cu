// An assertion that fails in a kernel: the error stays until the device is reset
#include "sample.h"
#undef NDEBUG
#include <cassert>

__global__ void careful(const int *values)
{
    assert(values[threadIdx.x] < 50);
}

int main()
{
    std::vector<int> values(64);
    for (int i = 0; i < 64; i++)
        values[i] = i;
    int *device = upload(values);
    careful<<<1, 50>>>(device);
    CHECK(cudaDeviceSynchronize());
    print("before", download(device, 64));
    careful<<<1, 51>>>(device);
    EXPECT(cudaErrorAssert, cudaDeviceSynchronize());
    EXPECT(cudaErrorAssert, cudaGetLastError());
    void *more;
    EXPECT(cudaErrorAssert, cudaMalloc(&more, 4));
    EXPECT(cudaErrorAssert, cudaMemcpy(values.data(), device, 4, cudaMemcpyDeviceToHost));
    printf("the assertion failed as it should\n");
    return 0;
}
