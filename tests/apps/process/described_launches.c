// Launches of one kernel whose description names 0, 1 and 2 attributes, all three twice; then 27 and 28
#include "check.h"

int main(void)
{
    start_driver();
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(4), b = allocate(4), c = allocate(4);
    unsigned n = 1, back;
    void *arguments[] = {&a, &b, &c, &n};
    CUstream stream;

    CHECK(cuMemsetD32(a, 5, 1));
    CHECK(cuMemsetD32(b, 7, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUlaunchAttribute attributes[] = {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY}, {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
    attributes[1].value.cooperative = 1;
    for (int i = 0; i < 6; i++) {
        CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, attributes, i % 3};
        CHECK(cuLaunchKernelEx(&config, function, arguments, NULL));
    }
    CUlaunchAttribute many[28];
    for (int i = 0; i < 28; i++)
        many[i] = attributes[0];
    for (int i = 27; i <= 28; i++) {
        CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, many, i};
        CHECK(cuLaunchKernelEx(&config, function, arguments, NULL));
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&back, c, 4));
    printf("%#x\n", back);
    return 0;
}
