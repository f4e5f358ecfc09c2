// Host memory that kernels read and write without copies: mapped, portable, write-combined, registered
#include "sample.h"

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

int main()
{
    const int n = 20000;
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost | cudaDeviceScheduleBlockingSync));
    float *a, *b, *sum, *device_a, *device_b, *device_sum;
    CHECK(cudaHostAlloc(&a, n * sizeof(float), cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostAlloc(&b, n * sizeof(float), cudaHostAllocMapped | cudaHostAllocWriteCombined));
    sum = static_cast<float *>(aligned_alloc(4096, 81920));
    CHECK(cudaHostRegister(sum, 81920, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device_a, a, 0));
    CHECK(cudaHostGetDevicePointer(&device_b, b, 0));
    CHECK(cudaHostGetDevicePointer(&device_sum, sum, 0));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < n; i++) {
            a[i] = i + turn;
            b[i] = number(i) % 1000;
        }
        add<<<(n + 255) / 256, 256>>>(device_a, device_b, device_sum, n);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++)
            REQUIRE(sum[i] == i + turn + number(i) % 1000);
        print("sum", std::vector<float>(sum, sum + n));
        // What the kernel wrote is what the next one reads
        add<<<(n + 255) / 256, 256>>>(device_sum, device_sum, device_sum, n);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(sum[7] == 2 * (7 + turn + number(7) % 1000));
    }
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, sum + 10));
    REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == device_sum + 10);
    unsigned flags;
    CHECK(cudaHostGetFlags(&flags, a));
    REQUIRE(flags & cudaHostAllocMapped);
    CHECK(cudaHostUnregister(sum));
    free(sum);
    CHECK(cudaFreeHost(a));
    CHECK(cudaFreeHost(b));
    return 0;
}
