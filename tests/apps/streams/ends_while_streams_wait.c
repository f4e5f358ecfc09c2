// Ends while a stream waits for a value that nobody writes ("value"), or a kernel for a word ("kernel"); what another stream brought is known
#include "check.h"
#include <unistd.h>

enum { N = 64 };

int main(int count, char **arguments)
{
    CUstream waiting, working;
    CUdeviceptr flag, values;
    int back[N], n = N;

    REQUIRE(count == 2);
    start_driver();
    CUmodule module = load_module("faults");
    CUfunction spin = find_kernel(module, "wait_for_host"), add_two = find_kernel(module, "add_two");
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
    flag = allocate(8), values = allocate(sizeof back);
    CHECK(cuMemsetD32(flag, 0, 2));
    CHECK(cuMemsetD32(values, 1, N));
    CHECK(cuCtxSynchronize());
    if (strcmp(arguments[1], "value") == 0) {
        CHECK(cuStreamWaitValue32(waiting, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    } else {
        CUdeviceptr out = flag + 4;
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, waiting, (void *[]){&flag, &out}, NULL));
    }
    CHECK(cuLaunchKernel(add_two, 1, 1, 1, N, 1, 1, 0, working, (void *[]){&values, &n}, NULL));
    CHECK(cuMemcpyDtoHAsync(back, values, sizeof back, working));
    CHECK(cuStreamSynchronize(working));
    printf("%d\n", back[N - 1]);
    fflush(stdout);
    _exit(0);
}
