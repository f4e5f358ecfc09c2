// A range of NVTX ("step") that needs nothing from before: a kernel adds one to a number that it finds by an address in memory, and
// all of that is allocated and filled in the range ("own"), or filled again behind a wait ("kept"). Others need something: the
// number was written before ("number"), what the kernel writes was never filled ("unfilled"), nobody waited for what was under way
// before ("unwaited"), the kernel counts in a variable of its module ("variable"), or between two ranges the number changes ("twice")
#include "check.h"
#include <nvtx3/nvToolsExt.h>

#define KERNEL(name, before, more)                                                                                     \
    ".version 7.8\n.target sm_75\n.address_size 64\n" before ".visible .entry " name                                   \
    "(.param .u64 table, .param .u64 out)\n{\n.reg .b32 %r<3>; .reg .b64 %d<5>;\n"                                     \
    "ld.param.u64 %d1, [table]; ld.param.u64 %d2, [out]; cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"  \
    "ld.global.u64 %d3, [%d1]; cvta.to.global.u64 %d3, %d3; ld.global.u32 %r1, [%d3]; add.u32 %r1, %r1, 1;\n" more     \
    "st.global.u32 [%d2], %r1; ret;\n}\n"

static const char plain[] = KERNEL("next", "", "");
static const char counting[] = KERNEL("next", ".global .u32 times;\n",
    "mov.u64 %d4, times; ld.global.u32 %r2, [%d4]; add.u32 %r2, %r2, 1; st.global.u32 [%d4], %r2; add.u32 %r1, %r1, %r2;\n");

static CUdeviceptr table, number, out;

static void make(void)
{
    table = allocate(sizeof table);
    number = allocate(4);
    out = allocate(8);
}

static void fill(int value, int with_out)
{
    CHECK(cuMemcpyHtoD(table, &number, sizeof number));
    if (value)
        CHECK(cuMemcpyHtoD(number, &value, sizeof value));
    if (with_out)
        CHECK(cuMemsetD8(out, 0, 8));
}

static int step(CUfunction next)
{
    void *arguments[] = {&table, &out};
    int found[2];

    CHECK(cuLaunchKernel(next, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH(found, out, sizeof found));
    return found[0];
}

int main(int count, char **options)
{
    REQUIRE(count == 2);
    int is_own = strcmp(options[1], "own") == 0, is_twice = strcmp(options[1], "twice") == 0;
    int is_number = strcmp(options[1], "number") == 0, is_unfilled = strcmp(options[1], "unfilled") == 0;
    int is_variable = strcmp(options[1], "variable") == 0;
    CUmodule module;
    CUfunction next;

    start_driver();
    CHECK(cuModuleLoadData(&module, is_variable ? counting : plain));
    CHECK(cuModuleGetFunction(&next, module, "next"));
    make();
    fill(40, 1);
    REQUIRE(step(next) >= 41);

    nvtxRangePushA("step");
    if (strcmp(options[1], "kept") == 0)
        CHECK(cuCtxSynchronize());
    if (is_own || is_twice || is_unfilled || is_variable)
        make();
    fill(is_number ? 0 : 1, !is_unfilled);
    printf("%d\n", step(next));
    nvtxRangePop();

    if (is_twice) {
        int value = 9;

        CHECK(cuMemcpyHtoD(number, &value, sizeof value));
        nvtxRangePushA("step");
        printf("%d\n", step(next));
        nvtxRangePop();
    }
    return 0;
}
