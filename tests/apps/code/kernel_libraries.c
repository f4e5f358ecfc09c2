// Kernels of libraries and of module files, launched in every way there is: as kernels, as their functions, as functions of the
// library's module; and a library whose handle may come again
#include "check.h"

enum { N = 32 };

static CUdeviceptr memory;
static int n = N;

static void run(CUfunction function)
{
    launch(function, 1, N, (void *[]){&memory, &n});
}

// What cuModuleLoad and cuLibraryLoadFromFile are given
static const char *path_of(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%s.ptx", getenv("KERNELS"), name);
    return path;
}

int main(void)
{
    char *text = read_kernels("faults");
    int numbers[N], i;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUmodule module;

    start_driver();
    memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers));

    for (i = 0; i < 2; i++) {
        CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        CHECK(cuLibraryGetKernel(&kernel, library, i ? "add_two" : "twice"));
        run((CUfunction)kernel);
        CHECK(cuKernelGetFunction(&function, kernel));
        run(function);
        CHECK(cuLibraryUnload(library));
    }
    memset(text, 'x', strlen(text));

    CHECK(cuLibraryLoadFromFile(&library, path_of("faults"), NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetModule(&module, library));
    run(find_kernel(module, "add_two"));
    CHECK(cuModuleLoad(&module, path_of("faults")));
    run(find_kernel(module, "twice"));
    CHECK(cuModuleUnload(module));
    CHECK(cuLibraryUnload(library));

    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[N - 1]);
    REQUIRE(numbers[N - 1] == ((N - 1) * 4 + 6) * 2);
    return 0;
}
