// A copy to the host waits for the kernels before it on the default stream; the one behind it finds the device idle
#include "check.h"

int main(void)
{
    int values[64], n = 64, rounds = 3000000;
    CUdeviceptr data, word;

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction busy = find_kernel(module, "busy"), add_two = find_kernel(module, "add_two");
    data = allocate(sizeof values), word = allocate(64);
    CHECK(cuMemsetD32(data, 5, n));
    CHECK(cuMemsetD32(word, 0, 16));
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&rounds, &word}, NULL));
    CHECK(cuLaunchKernel(add_two, 1, 1, 1, n, 1, 1, 0, NULL, (void *[]){&data, &n}, NULL));
    CHECK(cuMemcpyDtoH(values, data, sizeof values));
    CHECK(cuMemcpyDtoH(values, data, sizeof values));
    printf("%d\n", values[63]);
    return 0;
}
