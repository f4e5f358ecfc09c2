// A stream waits for a value in device memory that another one writes behind its launches: until then only the other goes on
#include "check.h"

enum { N = 64, ROUNDS = 2 };

int main(void)
{
    CUstream waiting, working;
    CUdeviceptr flag, values, copied;
    int back[N], n = N, round;

    start_driver();
    CUfunction add_two = find_kernel(load_module("faults"), "add_two");
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
    flag = allocate(4), values = allocate(sizeof back), copied = allocate(sizeof back);
    CHECK(cuMemsetD32(flag, 0, 1));
    CHECK(cuMemsetD32(values, 1, N));
    CHECK(cuCtxSynchronize());
    for (round = 1; round <= ROUNDS; round++) {
        CHECK(cuStreamWaitValue32(waiting, flag, round, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cuMemcpyDtoDAsync(copied, values, sizeof back, waiting));
        CHECK(cuLaunchKernel(add_two, 1, 1, 1, N, 1, 1, 0, working, (void *[]){&values, &n}, NULL));
        CHECK(cuStreamWriteValue32(working, flag, round, 0));
        CHECK(cuStreamSynchronize(waiting));
        CHECK(cuMemcpyDtoH(back, copied, sizeof back));
        REQUIRE(back[0] == 1 + 2 * round && back[N - 1] == back[0]);
    }
    printf("%d\n", back[0]);
    return 0;
}
