// What is copied back is what was copied in; what the kernel computes, nobody looks at
#include "check.h"

enum { N = 1000 };

int main(void)
{
    float numbers[N] = {0};
    unsigned n = N;

    start_driver();
    CUfunction add = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(sizeof numbers), b = allocate(sizeof numbers), sum = allocate(sizeof numbers);
    CUdeviceptr echo = allocate(sizeof numbers);
    void *arguments[] = {&a, &b, &sum, &n};

    CHECK(cuMemsetD8(a, 0, sizeof numbers));
    CHECK(cuMemsetD8(b, 0, sizeof numbers));
    CHECK(cuMemcpyHtoD(echo, numbers, sizeof numbers));
    launch(add, 4, 256, arguments);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(numbers, echo, sizeof numbers));
    return 0;
}
