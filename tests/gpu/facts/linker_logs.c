// When the linker writes to the logs that it was given, and to their sizes: behind each call what stands in both buffers, which are full
// of x before, and in the array of values
#include "tell.h"

enum { LOG = 2000 };

#define HEAD ".version 7.0\n.target sm_52\n.address_size 64\n"

static const char caller[] = HEAD ".extern .func (.param .b32 r) weight(.param .b32 x);\n"
    ".visible .entry run(.param .u64 p) { .reg .b32 %r<3>; .reg .b64 %d<2>; ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x;\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), weight, (a); ld.param.b32 %r2, [b]; }\n"
    "st.global.u32 [%d1], %r2; ret; }\n";
static const char broken[] = HEAD ".visible .entry run(.param .u64 p) { .reg .b32 %r<3>; add.s32 %r1, %r2, %r9; ret; }\n";
static char info[LOG], errors[LOG];

static void show(void *const *values)
{
    printf("    info %u: \"%.60s\"\n    error %u: \"%.60s\"\n", (unsigned)(size_t)values[1], info, (unsigned)(size_t)values[3], errors);
}

static void join(const char *first, unsigned verbose)
{
    CUjit_option names[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void *values[] = {info, (void *)LOG, errors, (void *)LOG, (void *)(size_t)verbose}, *image;
    CUlinkState state;
    size_t size;

    memset(info, 'x', LOG - 1);
    memset(errors, 'x', LOG - 1);
    TELL(cuLinkCreate(5, names, values, &state));
    show(values);
    TELL(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)first, strlen(first) + 1, "first", 0, NULL, NULL));
    show(values);
    TELL(cuLinkComplete(state, &image, &size));
    show(values);
    TELL(cuLinkDestroy(state));
    show(values);
}

int main(void)
{
    CUjit_option names[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {info, (void *)LOG, errors, (void *)LOG};
    CUmodule module;

    start_driver();
    join(caller, 0);
    join(broken, 0);
    join(HEAD ".visible .entry fine() { ret; }\n", 1);
    memset(info, 'x', LOG - 1);
    memset(errors, 'x', LOG - 1);
    TELL(cuModuleLoadDataEx(&module, broken, 4, names, values));
    show(values);
    values[1] = values[3] = (void *)LOG;
    TELL(cuModuleLoadDataEx(&module, HEAD ".visible .entry fine() { ret; }\n", 4, names, values));
    show(values);
    return 0;
}
