// A kernel that prints
#include "check.h"

int main(void)
{
    int said[2], value = 5;

    start_driver();
    CUfunction speak = find_kernel(load_module("printing"), "speak");
    CUdeviceptr memory = allocate(sizeof said);

    launch(speak, 2, 1, (void *[]){&memory, &value});
    CHECK(cuMemcpyDtoH(said, memory, sizeof said));
    printf("%d %d\n", said[0], said[1]);
    return 0;
}
