// Variables in managed memory, found in a library as the runtime of CUDA 13 does, without asking for their length, or in a module: the CPU
// sets them between launches, and one leads to memory that no launch is given
#include "check.h"

enum { N = 256, ROUNDS = 8 };

struct variables {
    unsigned *factor, **current, *rounds;
};

static struct variables of_library(CUlibrary library)
{
    CUdeviceptr factor, current, rounds;
    size_t bytes;

    CHECK(cuLibraryGetManaged(&factor, NULL, library, "factor"));
    CHECK(cuLibraryGetManaged(&current, NULL, library, "current"));
    CHECK(cuLibraryGetManaged(&rounds, &bytes, library, "rounds"));
    REQUIRE(bytes == 16);
    return (struct variables){(unsigned *)factor, (unsigned **)current, (unsigned *)rounds};
}

static struct variables of_module(CUmodule module)
{
    CUdeviceptr factor, current, rounds;

    CHECK(cuModuleGetGlobal(&factor, NULL, module, "factor"));
    CHECK(cuModuleGetGlobal(&current, NULL, module, "current"));
    CHECK(cuModuleGetGlobal(&rounds, NULL, module, "rounds"));
    return (struct variables){(unsigned *)factor, (unsigned **)current, (unsigned *)rounds};
}

static void use(struct variables variables, CUfunction follow)
{
    unsigned *out, *memory[2], sum = 0;
    int n = N;

    CUdeviceptr data = allocate(N * sizeof *out);
    CHECK(cuMemHostAlloc((void **)&out, N * sizeof *out, 0));
    for (int i = 0; i < 2; i++) {
        CUdeviceptr managed;
        CHECK(cuMemAllocManaged(&managed, N * sizeof *out, CU_MEM_ATTACH_GLOBAL));
        memory[i] = (unsigned *)managed;
        for (int j = 0; j < N; j++)
            memory[i][j] = i + j;
    }
    for (int round = 0; round < ROUNDS; round++) {
        *variables.current = memory[round % 2];
        *variables.factor += round;
        memory[round % 2][round] = 1000 + round;
        launch(follow, N / 64, 64, (void *[]){&data, &n});
        CHECK(cuMemcpyDtoH(out, data, N * sizeof *out));
        for (int j = 0; j < N; j++) {
            REQUIRE(out[j] == memory[round % 2][j] * *variables.factor);
            sum = sum * 31 + out[j];
        }
    }
    printf("%u %u\n", sum, variables.rounds[0] + variables.rounds[1] + variables.rounds[2] + variables.rounds[3]);
    for (int i = 0; i < 2; i++)
        CHECK(cuMemFree((CUdeviceptr)memory[i]));
    CHECK(cuMemFreeHost(out));
    CHECK(cuMemFree(data));
}

int main(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;
    char path[1024];

    start_driver();
    snprintf(path, sizeof path, "%s/managed.ptx", getenv("KERNELS"));
    CHECK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    struct variables variables = of_library(library);
    CHECK(cuLibraryGetKernel(&kernel, library, "follow"));
    use(variables, (CUfunction)kernel);
    CHECK(cuLibraryUnload(library));

    module = load_module("managed");
    use(of_module(module), find_kernel(module, "follow"));
    CHECK(cuModuleUnload(module));
    return 0;
}
