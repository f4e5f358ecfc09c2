// What the compiler and the linker say, in buffers that nobody prints: PTX that does not compile, links that lack a function or have a
// broken part, the same failure twice in one buffer, and a link that succeeds and says how
#include "check.h"

enum { LOG = 4096 };

static char info[LOG], errors[LOG];
static char *main_text, *part_text, *broken;

// Both logs are retained by the linker; their sizes stand in the array of values until it ends.
static CUresult join(const char *second)
{
    CUjit_option names[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void *values[] = {info, (void *)LOG, errors, (void *)LOG, (void *)1}, *image;
    CUlinkState state;
    CUresult result;
    size_t size;

    CHECK(cuLinkCreate(sizeof names / sizeof *names, names, values, &state));
    result = cuLinkAddData(state, CU_JIT_INPUT_PTX, main_text, strlen(main_text) + 1, "main", 0, NULL, NULL);
    if (!result && second)
        result = cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)second, strlen(second) + 1, "second", 0, NULL, NULL);
    if (!result)
        result = cuLinkComplete(state, &image, &size);
    CHECK(cuLinkDestroy(state));
    return result;
}

int main(void)
{
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {errors, (void *)LOG};
    CUmodule module;

    main_text = read_kernels("link_main");
    part_text = read_kernels("link_part");
    broken = read_kernels("broken");
    start_driver();
    memset(errors, 'x', 100);
    printf("%d\n", cuModuleLoadDataEx(&module, broken, 2, names, values));
    printf("%d\n", join(NULL));
    printf("%d\n", join(NULL));
    printf("%d\n", join(broken));
    printf("%d\n", join(part_text));
    return 0;
}
