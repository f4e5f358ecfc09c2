// printf in kernels
#include "sample.h"

__global__ void speak(const char *, int value, double real, int *said)
{
    if (threadIdx.x == 0)
        said[value % 4] = printf("block %d: value %d, %5.2f, %s\n", blockIdx.x, value, real, "a string of the kernel's");
}

int main()
{
    size_t size;
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    int *said = allocate<int>(4);
    CHECK(cudaMemset(said, 0, 4 * sizeof(int)));
    for (int i = 0; i < 3; i++) {
        speak<<<1, 32>>>(nullptr, i, i / 4.0, said);
        CHECK(cudaDeviceSynchronize());
    }
    speak<<<1, 1>>>("", 99, -1, said);
    std::vector<int> values = download(said, 4);
    for (int value : values)
        REQUIRE(value > 0);
    print("values printed", values);
    return 0;
}
