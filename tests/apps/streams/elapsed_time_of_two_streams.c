// The time between events of two streams that know nothing of each other tells that both have happened, and nothing else does
#include "check.h"

enum { N = 64 };

static CUfunction busy, add_two;
static CUdeviceptr values, out;

static void work(CUstream stream)
{
    unsigned rounds = 300000;
    int n = N;

    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &out}, NULL));
    CHECK(cuLaunchKernel(add_two, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&values, &n}, NULL));
}

int main(void)
{
    CUevent first, second, untimed;
    CUstream early, late;
    float milliseconds;
    int back[N], round;

    start_driver();
    CUmodule module = load_module("faults");
    busy = find_kernel(module, "busy"), add_two = find_kernel(module, "add_two");
    values = allocate(sizeof back), out = allocate(4);
    CHECK(cuMemsetD32(values, 1, N));
    CHECK(cuStreamCreate(&early, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&first, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&second, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize());
    for (round = 0; round < 4; round++) {
        work(late);
        CHECK(cuEventRecord(first, round % 2 ? early : late));
        CHECK(cuEventRecord(second, round % 2 ? late : early));
        while (cuEventElapsedTime(&milliseconds, first, second) == CUDA_ERROR_NOT_READY)
            ;
        CHECK(cuMemcpyDtoH(back, values, sizeof back));
        REQUIRE(back[0] == 3 + 2 * round && back[N - 1] == back[0]);
    }
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, first, untimed));
    printf("%d\n", back[0]);
    return 0;
}
