// The sum of two vectors
#include "check.h"

enum { N = 1000 };

int main(void)
{
    float a[N], b[N], c[N];
    unsigned n = N, i;

    start_driver();
    CUmodule module = load_module("vector_add");
    CUfunction function = find_kernel(module, "vector_add");
    CUdeviceptr da = allocate(sizeof a), db = allocate(sizeof b), dc = allocate(sizeof c);
    void *arguments[] = {&da, &db, &dc, &n};

    for (i = 0; i < N; i++) {
        a[i] = i;
        b[i] = 2 * i + 0.5f;
    }
    CHECK(cuMemcpyHtoD(da, a, sizeof a));
    CHECK(cuMemcpyHtoD(db, b, sizeof b));
    launch(function, (N + 255) / 256, 256, arguments);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(c, dc, sizeof c));
    for (i = 0; i < N; i++)
        REQUIRE(c[i] == a[i] + b[i]);
    printf("c[%d] = %g\n", N - 1, c[N - 1]);

    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
