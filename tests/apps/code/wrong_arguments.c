// Arguments that are not as their kernel declares them: packed ones with the padding of a C struct, none, or too few; at last an array of
// pointers that is too short, of a kernel never launched before, by which the program dies inside the launch
#include "check.h"
#include <sys/mman.h>

enum { N = 32, PAGE = 4096 };

static CUresult packed(CUfunction function, void *buffer, size_t size)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    return cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, NULL, extra);
}

int main(void)
{
    struct {
        CUdeviceptr numbers;
        int n;
    } arguments = {.n = N};
    int numbers[N];

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction add = find_kernel(module, "add_two"), twice = find_kernel(module, "twice");

    arguments.numbers = allocate(sizeof numbers);
    CHECK(cuMemsetD32(arguments.numbers, 1, N));
    printf("%d\n", packed(add, &arguments, sizeof arguments));
    printf("%d\n", packed(add, &arguments, 0));
    // The driver takes it; what the kernel finds in the place of n is nowhere said.
    printf("%d\n", packed(add, &arguments, 8));
    CHECK(cuMemsetD32(arguments.numbers, 1, N));
    CHECK(packed(add, &arguments, 12));
    CHECK(cuMemcpyDtoH(numbers, arguments.numbers, sizeof numbers));
    printf("%d\n", numbers[N - 1]);
    fflush(stdout);

    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(pages != MAP_FAILED && !mprotect(pages + PAGE, PAGE, PROT_NONE));
    void **one = (void **)(pages + PAGE) - 1;

    *one = &arguments.numbers;
    launch(twice, 1, N, one);
    return 0;
}
