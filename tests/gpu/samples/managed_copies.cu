// Copies that say of managed memory that it is the host's, and copies that leave it to the driver to find out
#include "sample.h"

__global__ void add_to(int *numbers, int n, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        numbers[i] += by;
}

int main()
{
    // One piece that the driver may stage, and one that it may not
    for (int n : {1000, 1 << 20}) {
        const size_t bytes = n * sizeof(int);
        int *from, *to;
        CHECK(cudaMallocManaged(&from, bytes));
        CHECK(cudaMallocManaged(&to, bytes));
        int *device = sample::allocate<int>(n);
        std::vector<int> host(n);
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

        for (int i = 0; i < n; i++)
            from[i] = i;
        CHECK(cudaMemcpy(device, from, bytes, cudaMemcpyHostToDevice));
        add_to<<<(n + 255) / 256, 256>>>(device, n, 1);
        CHECK(cudaMemcpy(to, device, bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++)
            REQUIRE(to[i] == i + 1);
        to[7] = -7;
        CHECK(cudaMemcpy(host.data(), to, bytes, cudaMemcpyHostToHost));
        REQUIRE(host[6] == 7 && host[7] == -7);
        CHECK(cudaMemcpy(from, to, bytes, cudaMemcpyDefault));

        // What the device has written there last is what the next copy takes
        add_to<<<(n + 255) / 256, 256, 0, stream>>>(from, n, 100);
        CHECK(cudaMemcpyAsync(device, from, bytes, cudaMemcpyHostToDevice, stream));
        add_to<<<(n + 255) / 256, 256, 0, stream>>>(device, n, 1000);
        CHECK(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(host.data(), to, bytes, cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            REQUIRE(to[i] == (i == 7 ? -7 : i + 1) + 1100 && host[i] == to[i]);
        sample::print("taken", host);

        // Rows of it
        const int width = 100, rows = n / width;
        CHECK(cudaMemcpy2D(device, width * 4, from + 3, width * 4, 60 * 4, rows - 1, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy2DAsync(to, width * 4, device, width * 4, 60 * 4, rows - 1, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int row = 0; row < rows - 1; row++)
            REQUIRE(to[row * width] == from[row * width + 3]);
        CHECK(cudaMemcpy(host.data(), to, bytes, cudaMemcpyDeviceToHost));
        sample::print("rows", host);
        CHECK(cudaFree(from));
        CHECK(cudaFree(to));
        CHECK(cudaFree(device));
        CHECK(cudaStreamDestroy(stream));
    }
    return 0;
}
