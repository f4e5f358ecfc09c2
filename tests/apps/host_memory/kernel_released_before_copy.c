// Kernels spin on pinned memory that the CPU writes; then a copy waits for the kernel (0), so many launches that the driver has no room (1),
// a synchronisation where the memory is shared with other processes, so that Linux does not tell who wrote (2), a module that is unloaded (3)
#include "check.h"
#include <sys/mman.h>

enum { MANY = 3000 };

int main(int argc, char **argv)
{
    int way = argc > 1 ? atoi(argv[1]) : 0;
    unsigned *flag, result[2] = {0, 0}, seven = 7;
    CUmodule module;
    CUstream stream = NULL;

    start_driver();
    module = load_module("faults");
    CUfunction wait = find_kernel(module, "wait_for_host");
    CUfunction twice = find_kernel(module, "twice");
    int n = 1;
    CUmodule other_module = load_module("vector_add");
    if (way == 2) {
        flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(flag != MAP_FAILED);
        CHECK(cuMemHostRegister(flag, 4096, 0));
    } else {
        CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, 0));
    }
    *flag = 0;
    CUdeviceptr out = allocate(4), other = allocate(4);
    CHECK(cuMemsetD32(other, 0, 1));
    CHECK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag, &out}, NULL));
    *(volatile unsigned *)flag = 41;
    if (way == 0)
        CHECK(cuMemcpyHtoD(other, &seven, 4)); // behind the kernel, on the legacy stream
    for (int i = 0; way == 1 && i < MANY; i++)
        CHECK(cuLaunchKernel(twice, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&other, &n}, NULL));
    if (way == 3)
        CHECK(cuModuleUnload(other_module));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(&result[0], out, 4));
    CHECK(cuMemcpyDtoH(&result[1], other, 4));
    printf("%u %u\n", result[0], result[1]);
    REQUIRE(result[0] == 42);
    return 0;
}
