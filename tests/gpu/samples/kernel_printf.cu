// printf in kernels
#include "sample.h"

__global__ void speak(const char *, int value, double real)
{
    if (threadIdx.x == 0)
        printf("block %d: value %d, %5.2f, %s\n", blockIdx.x, value, real, "a string of the kernel's");
}

int main()
{
    size_t size;
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    for (int i = 0; i < 3; i++) {
        speak<<<1, 32>>>(nullptr, i, i / 4.0);
        CHECK(cudaDeviceSynchronize());
    }
    int *memory = allocate<int>(4);
    CHECK(cudaMemset(memory, 7, 16));
    speak<<<1, 1>>>("", 99, -1);
    print("memory", download(memory, 4));
    return 0;
}
