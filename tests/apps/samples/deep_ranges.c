// Ranges of NVTX that are pushed and never popped: argv[1] of them round a launch
#include "check.h"
#include <nvtx3/nvToolsExt.h>

enum { N = 1000 };

int main(int argc, char **argv)
{
    float result[N];
    unsigned n = N;

    REQUIRE(argc == 2);
    start_driver();
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(N * sizeof(float)), b = allocate(N * sizeof(float)), c = allocate(N * sizeof(float));
    void *arguments[] = {&a, &b, &c, &n};

    for (int left = atoi(argv[1]); left > 0; left--)
        nvtxRangePushA("step");
    launch(function, (N + 255) / 256, 256, arguments);
    CHECK(cuMemcpyDtoH(result, c, sizeof result));
    printf("done\n");
    return 0;
}
