// A context that ends by being detached from, and work in the one below it
#include "check.h"

enum { N = 64 };

int main(void)
{
    CUcontext first, second;
    CUdeviceptr memory;
    CUfunction kernel;
    int numbers[N] = {0}, n = N, i;

    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&first, NULL, 0, 0));
    CHECK(cuCtxCreate(&second, NULL, 0, 0));
    CHECK(cuCtxDetach(second));
    kernel = find_kernel(load_module("faults"), "add_two");
    memory = allocate(sizeof numbers);
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers));
    for (i = 0; i < 3; i++) {
        launch(kernel, 1, N, (void *[]){&memory, &n});
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[N - 1]);
    CHECK(cuCtxDestroy(first));
    return numbers[N - 1] != 2 * 3;
}
