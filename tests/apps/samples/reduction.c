// A sum by a tree in dynamic shared memory, and one by exchanges within warps
#include "check.h"

enum { N = 4000, THREADS = 128, BLOCKS = (N + THREADS - 1) / THREADS };

int main(void)
{
    float in[N], partial[BLOCKS], sum = 0;
    int numbers[N], total = 0;
    unsigned n = N, i;

    start_driver();
    CUmodule module = load_module("reduction");
    CUfunction tree = find_kernel(module, "tree_sum"), warps = find_kernel(module, "warp_sum");
    CUdeviceptr din = allocate(sizeof in), dpartial = allocate(sizeof partial), dtotal = allocate(sizeof total);
    void *tree_arguments[] = {&din, &dpartial, &n}, *warp_arguments[] = {&din, &dtotal, &n};

    for (i = 0; i < N; i++) {
        in[i] = i % 10;
        numbers[i] = i % 100 - 20;
    }
    CHECK(cuMemcpyHtoD(din, in, sizeof in));
    CHECK(cuLaunchKernel(tree, BLOCKS, 1, 1, THREADS, 1, 1, THREADS * sizeof(float), NULL, tree_arguments, NULL));
    CHECK(cuMemcpyDtoH(partial, dpartial, sizeof partial));
    for (i = 0; i < BLOCKS; i++)
        sum += partial[i];
    CHECK(cuMemcpyHtoD(din, numbers, sizeof numbers));
    CHECK(cuMemsetD32(dtotal, 0, 1));
    launch(warps, BLOCKS, THREADS, warp_arguments);
    CHECK(cuMemcpyDtoH(&total, dtotal, sizeof total));
    printf("%g %d\n", sum, total);
    REQUIRE(sum == 18000 && total == 118000);
    return 0;
}
