// A launch on one stream while another is captured, then one more; with "fault" the first of them writes out of bounds
#include "check.h"

enum { N = 64 };

int main(int count, char **options)
{
    CUstream captured, other;
    CUgraph graph;
    int numbers[N], n = N, is_fault = count == 2 && strcmp(options[1], "fault") == 0;

    start_driver();
    CUfunction add = find_kernel(load_module("faults"), "add_two");
    CUdeviceptr memory = allocate(sizeof numbers), first = is_fault ? memory + (1ull << 40) : memory;
    void *given[] = {&first, &n}, *right[] = {&memory, &n};

    CHECK(cuMemsetD32(memory, 0, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, captured, right, NULL));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, other, given, NULL));
    CHECK(cuStreamEndCapture(captured, &graph));
    if (is_fault) {
        cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, other, right, NULL);
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(other));
        abort();
    }
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, other, right, NULL));
    CHECK(cuStreamSynchronize(other));
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[5]);
    REQUIRE(numbers[5] == 4);
    return 0;
}
