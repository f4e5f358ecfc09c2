// A kernel without parameters, launched without an array of arguments: it counts in a variable of its module. With "fails" another
// one fails
#include "check.h"

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .global .align 4 .u32 times;\n"
                           ".visible .entry count_up()\n{\n"
                           "    .reg .b32 %r<3>;\n"
                           "    ld.global.u32 %r1, [times];\n"
                           "    add.u32 %r2, %r1, 1;\n"
                           "    st.global.u32 [times], %r2;\n"
                           "    ret;\n}\n"
                           ".visible .entry fail()\n{\n    trap;\n    ret;\n}\n";

int main(int count, char **options)
{
    CUmodule module;
    CUdeviceptr variable;
    size_t size;
    unsigned times = 0;

    start_driver();
    CHECK(cuModuleLoadData(&module, text));
    CUfunction function = find_kernel(module, "count_up");
    CHECK(cuModuleGetGlobal(&variable, &size, module, "times"));
    CHECK(cuMemcpyHtoD(variable, &times, sizeof times));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuMemcpyDtoH(&times, variable, sizeof times));
    REQUIRE(times == 2);
    printf("%u\n", times);
    if (count == 2 && !strcmp(options[1], "fails")) {
        CHECK(cuLaunchKernel(find_kernel(module, "fail"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        REQUIRE(cuCtxSynchronize() != CUDA_SUCCESS);
    }
    return 0;
}
