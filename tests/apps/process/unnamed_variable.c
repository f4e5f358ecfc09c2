// The address of a variable, told by a kernel: the program never asks the driver for it
#include "check.h"

int main(void)
{
    CUdeviceptr pair[2];

    start_driver();
    CUfunction name = find_kernel(load_module("addresses"), "name_basin");
    CUdeviceptr out = allocate(sizeof pair);

    launch(name, 1, 1, (void *[]){&out});
    CHECK(cuMemcpyDtoH(pair, out, sizeof pair));
    REQUIRE(pair[1] == pair[0] + 64);
    return 0;
}
