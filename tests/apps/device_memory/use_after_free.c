// A launch that is given memory which was freed ("small": little of it); the program dies of it
#include "check.h"

enum { N = 64 };

int main(int count, char **unused)
{
    int n = N;

    (void)unused;

    start_driver();
    CUfunction add = find_kernel(load_module("faults"), "add_two");
    CUdeviceptr memory = allocate(N * sizeof(int)), freed = allocate(count == 2 ? 64 : 64 << 20);
    void *right[] = {&memory, &n}, *wrong[] = {&freed, &n};

    CHECK(cuMemsetD32(memory, 0, N));
    CHECK(cuMemFree(freed));
    launch(add, 1, N, right);
    launch(add, 1, N, wrong);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    abort();
}
