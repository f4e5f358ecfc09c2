// Variables of a module: __device__, __constant__, and one that holds a pointer
#include "check.h"

enum { N = 8 };

int main(void)
{
    float out[N], factor[2] = {3, 0.25f};
    int target[N], table[4], n = N, i;
    unsigned launches;
    CUdeviceptr at;
    size_t size;

    start_driver();
    CUmodule module = load_module("globals");
    CUfunction function = find_kernel(module, "use_globals");
    CUdeviceptr dout = allocate(sizeof out), dtarget = allocate(sizeof target);

    CHECK(cuModuleGetGlobal(&at, &size, module, "factor"));
    REQUIRE(size == sizeof factor);
    CHECK(cuMemcpyHtoD(at, factor, sizeof factor));
    CHECK(cuModuleGetGlobal(&at, &size, module, "target"));
    CHECK(cuMemcpyHtoD(at, &dtarget, sizeof dtarget));
    CHECK(cuModuleGetGlobal(&at, NULL, module, "table"));
    CHECK(cuMemcpyDtoH(table, at, sizeof table));
    launch(function, 1, 32, (void *[]){&dout, &n});
    launch(function, 1, 32, (void *[]){&dout, &n});
    CHECK(cuModuleGetGlobal(&at, &size, module, "launches"));
    CHECK(cuMemcpyDtoH(&launches, at, sizeof launches));
    CHECK(cuMemcpyDtoH(out, dout, sizeof out));
    CHECK(cuMemcpyDtoH(target, dtarget, sizeof target));
    for (i = 0; i < N; i++)
        REQUIRE(out[i] == i * factor[i % 2] + table[i % 4] && target[i] == i);
    printf("%u launches, %g\n", launches, out[N - 1]);
    return 0;
}
