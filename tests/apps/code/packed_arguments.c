// Kernel arguments packed in a buffer: a char, then a float4 sixteen bytes in
#include "check.h"

enum { N = 20 };

int main(void)
{
    struct {
        char times;
        float by[4] __attribute__((aligned(16)));
        CUdeviceptr quads;
        int n;
    } packed;
    float quads[N][4];
    // Up to the last argument: padding behind it would be too much, and the launch be refused with error 701.
    size_t size = (char *)(&packed.n + 1) - (char *)&packed;
    int i, k;

    start_driver();
    CUfunction function = find_kernel(load_module("structs"), "scale_quads");
    CUdeviceptr memory = allocate(sizeof quads);
    void *extra[] = {
        CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_END,
    };

    memset(&packed, 0, sizeof packed);
    packed.times = 3;
    packed.quads = memory;
    packed.n = N;
    for (k = 0; k < 4; k++)
        packed.by[k] = k + 1;
    for (i = 0; i < N; i++)
        for (k = 0; k < 4; k++)
            quads[i][k] = i;
    CHECK(cuMemcpyHtoD(memory, quads, sizeof quads));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    CHECK(cuMemcpyDtoH(quads, memory, sizeof quads));
    for (i = 0; i < N; i++)
        for (k = 0; k < 4; k++)
            REQUIRE(quads[i][k] == i * (k + 1) * (k + 1) * (k + 1));
    printf("%g\n", quads[N - 1][3]);
    return 0;
}
