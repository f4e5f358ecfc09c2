// PTX linked from two sources with options and log buffers; and a source that does not compile
#include "check.h"

enum { N = 10, LOG = 4096 };

int main(void)
{
    static char info[LOG], errors[LOG];
    CUjit_option names[] = {
        CU_JIT_WALL_TIME,           CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        CU_JIT_ERROR_LOG_BUFFER,    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        CU_JIT_OPTIMIZATION_LEVEL,  CU_JIT_LOG_VERBOSE,
    };
    void *values[] = {NULL, info, (void *)LOG, errors, (void *)LOG, (void *)3, (void *)1};
    unsigned count = sizeof names / sizeof *names;
    char *main_text = read_kernels("link_main"), *part_text = read_kernels("link_part"), *broken = read_kernels("broken");
    int data[N], n = N, i;
    CUlinkState state;
    CUmodule module;
    size_t size;
    void *image;

    start_driver();
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, broken, count, names, values));
    REQUIRE(strlen(errors) > 0);
    // The driver leaves in the size options how much it wrote.
    values[2] = values[4] = (void *)LOG;
    CHECK(cuLinkCreate(count, names, values, &state));
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, main_text, strlen(main_text) + 1, "main", 0, NULL, NULL));
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, part_text, strlen(part_text) + 1, "part", 0, NULL, NULL));
    CHECK(cuLinkComplete(state, &image, &size));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuLinkDestroy(state));

    CUfunction function = find_kernel(module, "weigh_all");
    CUdeviceptr memory = allocate(sizeof data);

    for (i = 0; i < N; i++)
        data[i] = i;
    CHECK(cuMemcpyHtoD(memory, data, sizeof data));
    launch(function, 1, 32, (void *[]){&memory, &n});
    CHECK(cuMemcpyDtoH(data, memory, sizeof data));
    for (i = 0; i < N; i++)
        REQUIRE(data[i] == 5 * i + 1);
    printf("%d\n", data[N - 1]);
    return 0;
}
