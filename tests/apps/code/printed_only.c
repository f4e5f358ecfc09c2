// What kernels print is all that a program takes from the device
#include "check.h"

int main(void)
{
    int value = 4711, again = 4712;

    start_driver();
    CUfunction speak = find_kernel(load_module("printing"), "speak");
    CUdeviceptr memory = allocate(2 * sizeof(int));

    printf("first\n");
    launch(speak, 2, 1, (void *[]){&memory, &value});
    CHECK(cuCtxSynchronize());
    launch(speak, 1, 1, (void *[]){&memory, &again});
    CHECK(cuCtxSynchronize());
    printf("last\n");
    return 0;
}
