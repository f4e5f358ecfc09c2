// A kernel prints more than the limit leaves room for: the oldest lines are lost, and the limit is fixed then
#include "check.h"

enum { LINES = 3000, SIZE = 32768 };

int main(void)
{
    int value = 5;
    size_t size, after;

    start_driver();
    CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, SIZE));
    CHECK(cuCtxGetLimit(&size, CU_LIMIT_PRINTF_FIFO_SIZE));
    REQUIRE(size >= SIZE);
    CUfunction speak = find_kernel(load_module("printing"), "speak");
    CUdeviceptr memory = allocate(LINES * sizeof(int));

    launch(speak, LINES, 1, (void *[]){&memory, &value});
    CHECK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20));
    CHECK(cuCtxGetLimit(&after, CU_LIMIT_PRINTF_FIFO_SIZE));
    REQUIRE(after == size);
    CHECK(cuMemFree(memory));
    return 0;
}
