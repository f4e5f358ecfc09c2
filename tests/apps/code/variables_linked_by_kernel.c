// A list that a kernel strings through an array of the module's: the host, which has asked for its head alone, walks it and changes its links
#include "check.h"

enum { N = 24 };

struct node {
    CUdeviceptr next;
    unsigned value;
};

int main(void)
{
    struct node here;
    CUdeviceptr head, at, out, rest;
    unsigned sum, expected = 1;
    int count = N, i;

    start_driver();
    CUmodule module = load_module("strung");
    CUfunction string_up = find_kernel(module, "string_up"), sum_up = find_kernel(module, "sum_up");
    CHECK(cuModuleGetGlobal(&head, NULL, module, "head"));
    out = allocate(sizeof sum);
    launch(string_up, 1, 1, (void *[]){&count});
    CHECK(cuMemcpyDtoH(&at, head, sizeof at));
    for (i = 0; i < N; i++, at = here.next) {
        CHECK(cuMemcpyDtoH(&here, at, sizeof here));
        REQUIRE(here.value == (unsigned)(i * i));
        if (i % 4 != 1)
            continue;
        // The next but one is its next from now on.
        CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = here.next, .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = &rest, .WidthInBytes = sizeof rest, .Height = 1};
        CHECK(cuMemcpy2D(&copy));
        CHECK(cuMemcpyHtoD(at, &rest, sizeof rest));
        here.next = rest;
        i++;
    }
    launch(sum_up, 1, 1, (void *[]){&out});
    CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
    for (i = 0; i < N; i++)
        if (i % 4 != 2)
            expected = expected * 31 + i * i;
    printf("%u\n", sum);
    REQUIRE(sum == expected);
    return 0;
}
