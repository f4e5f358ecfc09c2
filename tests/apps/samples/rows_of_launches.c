// The same twelve launches, one behind the other, twenty times; then rows that are too short
#include "check.h"

enum { N = 64, ROUNDS = 20, ROW = 12, SHORT = 5 };

int main(void)
{
    float out[N];
    unsigned n = N;

    start_driver();
    CUmodule module = load_module("vector_add");
    CUfunction add = find_kernel(module, "vector_add");
    CUdeviceptr a = allocate(sizeof out), b = allocate(sizeof out), c = allocate(sizeof out);
    void *arguments[] = {&a, &b, &c, &n};

    CHECK(cuMemsetD32(a, 0x3f800000, N));
    CHECK(cuMemsetD32(b, 0x3f800000, N));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROW; i++)
            launch(add, 1, N, arguments);
        CHECK(cuCtxSynchronize());
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SHORT; i++)
            launch(add, 1, N, arguments);
        CHECK(cuMemcpyDtoH(out, c, sizeof out));
    }
    printf("%g\n", out[0]);
    return 0;
}
