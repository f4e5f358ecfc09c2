// Where the driver says that the parameters of an image's kernels lie: one line a kernel, as the example `parameters` of the
// crate `trace` prints them from the image. Without a file: the device's compute capability, 90 for 9.0.
#include "../../apps/check.h"

struct named {
    const char *name;
    CUfunction function;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

// The file, ended with a zero, which a text needs
static void *content(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
    long size;

    if (!file) {
        perror(path);
        exit(98);
    }
    REQUIRE(!fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET));
    bytes = calloc(1, size + 1);
    REQUIRE(bytes && fread(bytes, 1, size, file) == (size_t)size);
    fclose(file);
    return bytes;
}

int main(int count, char **arguments)
{
    CUmodule module;
    CUfunction *functions;
    struct named *all;
    unsigned kernels, i;
    int major, minor;

    start_driver();
    if (count < 2) {
        CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
        CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
        printf("%d\n", major * 10 + minor);
        return 0;
    }
    CHECK(cuModuleLoadData(&module, content(arguments[1])));
    CHECK(cuModuleGetFunctionCount(&kernels, module));
    functions = calloc(kernels, sizeof *functions);
    all = calloc(kernels, sizeof *all);
    CHECK(cuModuleEnumerateFunctions(functions, kernels, module));
    for (i = 0; i < kernels; i++) {
        all[i].function = functions[i];
        CHECK(cuFuncGetName(&all[i].name, functions[i]));
    }
    qsort(all, kernels, sizeof *all, by_name);
    for (i = 0; i < kernels; i++) {
        size_t offset, size, n;
        CUresult result;

        printf("%s", all[i].name);
        for (n = 0; !(result = cuFuncGetParamInfo(all[i].function, n, &offset, &size)); n++)
            printf(" %zu+%zu", offset, size);
        EXPECT(CUDA_ERROR_INVALID_VALUE, result);
        printf("\n");
    }
    return 0;
}
