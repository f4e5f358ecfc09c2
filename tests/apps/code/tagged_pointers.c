// A kernel follows addresses of the module's variable that share their words with tags: above them, or below
#include "check.h"

static const char *CODE =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 8 .u64 cells[4];\n"
    ".visible .entry follow(.param .u64 words, .param .u64 out) {\n"
    " .reg .u64 %rd<8>;\n"
    " ld.param.u64 %rd1, [words]; ld.param.u64 %rd2, [out];\n"
    " ld.global.u64 %rd3, [%rd1]; and.b64 %rd3, %rd3, 0xffffffffffff; ld.global.u64 %rd4, [%rd3];\n"
    " ld.global.u64 %rd5, [%rd1+8]; shr.u64 %rd5, %rd5, 16; ld.global.u64 %rd6, [%rd5];\n"
    " add.u64 %rd7, %rd4, %rd6; st.global.u64 [%rd2], %rd7; ret; }\n";

int main(void)
{
    CUmodule module;
    CUdeviceptr cells, words, out;
    unsigned long long values[4] = {3, 5, 7, 11}, tagged[2], sum;

    start_driver();
    CHECK(cuModuleLoadData(&module, CODE));
    CUfunction follow = find_kernel(module, "follow");
    CHECK(cuModuleGetGlobal(&cells, NULL, module, "cells"));
    CHECK(cuMemcpyHtoD(cells, values, sizeof values));
    words = allocate(sizeof tagged), out = allocate(sizeof sum);
    tagged[0] = (cells + 8) | 0x5aull << 56;
    tagged[1] = (cells + 24) << 16 | 0x1234;
    CHECK(cuMemcpyHtoD(words, tagged, sizeof tagged));
    launch(follow, 1, 1, (void *[]){&words, &out});
    CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
    printf("%llu\n", sum);
    REQUIRE(sum == 16);
    return 0;
}
