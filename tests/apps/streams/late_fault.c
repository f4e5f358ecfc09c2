// Ten rounds of a launch and a copy; the launch after them faults, and the program hears of it when it waits
#include "check.h"

enum { N = 1000, ROUNDS = 10 };

int main(void)
{
    float numbers[N];
    unsigned n;

    start_driver();
    CUfunction add = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(sizeof numbers), b = allocate(sizeof numbers), sum = allocate(sizeof numbers);
    CUdeviceptr nowhere = 0x1234567000;
    void *arguments[] = {&a, &b, &sum, &n}, *wrong[] = {&a, &b, &nowhere, &n};

    CHECK(cuMemsetD8(b, 0, sizeof numbers));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            numbers[i] = round;
        CHECK(cuMemcpyHtoD(a, numbers, sizeof numbers));
        n = N - round; // tells the rounds apart in the trace
        launch(add, 4, 256, arguments);
        CHECK(cuCtxSynchronize());
        CHECK(cuMemcpyDtoH(numbers, sum, sizeof numbers));
    }
    launch(add, 4, 256, wrong);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyDtoH(numbers, sum, sizeof numbers));
    return 0;
}
