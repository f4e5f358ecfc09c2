// Functions of the device by pointer: read from a variable, or told by a kernel in memory of the host's, and given back as an argument and in
// memory. They are elsewhere in every process
#include "check.h"

enum { N = 64 };

struct step {
    CUdeviceptr operation;
    unsigned with;
};

int main(int argc, char **argv)
{
    int told = argc > 1 && !strcmp(argv[1], "told");
    CUmodule module;
    CUfunction tell, apply, apply_all;
    CUdeviceptr variable, *operations, values, steps;
    unsigned found[N], with = 5;
    int count = 3;

    start_driver();
    module = load_module("functions");
    tell = find_kernel(module, "tell");
    apply = find_kernel(module, "apply");
    apply_all = find_kernel(module, "apply_all");
    CHECK(cuMemHostAlloc((void **)&operations, 3 * sizeof *operations, 0));
    if (told) {
        launch(tell, 1, 1, (void *[]){&operations});
        CHECK(cuCtxSynchronize());
    } else {
        CHECK(cuModuleGetGlobal(&variable, NULL, module, "operations"));
        CHECK(cuMemcpyDtoHAsync(operations, variable, 3 * sizeof *operations, NULL));
        CHECK(cuStreamSynchronize(NULL));
    }
    values = allocate(N * sizeof(unsigned));
    CHECK(cuMemsetD32(values, 3, N));
    for (int i = 0; i < 3; i++)
        launch(apply, 1, N, (void *[]){&operations[i], &values, &with});
    struct step back[] = {{operations[2], 7}, {operations[0], 1}, {operations[1], 9}};
    steps = allocate(sizeof back);
    CHECK(cuMemcpyHtoD(steps, back, sizeof back));
    launch(apply_all, 1, N, (void *[]){&steps, &count, &values});
    CHECK(cuMemcpyDtoH(found, values, sizeof found));
    printf("%u\n", found[0]);
    CHECK(cuMemcpyDtoH(back, steps, sizeof back));
    REQUIRE(back[1].operation == operations[0]);
    return 0;
}
