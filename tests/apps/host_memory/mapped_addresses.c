// Addresses in host memory that kernels read, and that they write: pinned, and managed
#include "check.h"

enum { N = 64 };

struct span {
    CUdeviceptr first, last;
};

int main(void)
{
    int numbers[N], one = 1, sixteen = 16, five = 5, i, round;
    struct span *lists[2];
    CUdeviceptr managed, basin;
    long long sum;
    size_t size;

    start_driver();
    CUmodule module = load_module("addresses");
    CUfunction sums = find_kernel(module, "sum_spans"), name = find_kernel(module, "name_basin");
    CUdeviceptr first = allocate(sizeof numbers), out = allocate(sizeof sum);
    for (i = 0; i < N; i++)
        numbers[i] = 1;
    CHECK(cuMemcpyHtoD(first, numbers, sizeof numbers));
    CHECK(cuModuleGetGlobal(&basin, &size, module, "basin"));
    CHECK(cuMemAllocHost((void **)&lists[0], 4096));
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    lists[1] = (struct span *)managed;
    for (i = 0; i < 2; i++)
        for (round = 1; round < 3; round++) {
            CUdeviceptr at = (CUdeviceptr)(lists[i] + round);

            lists[i][round] = (struct span){first, first + sizeof numbers / round};
            launch(sums, 1, 1, (void *[]){&at, &one, &out});
            CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
            REQUIRE(sum == N / round);
            launch(name, 1, 1, (void *[]){&at});
            CHECK(cuCtxSynchronize());
            struct span made = lists[i][round];
            REQUIRE(made.first == basin && made.last == basin + size);
            launch(find_kernel(module, "add_to"), 1, 1, (void *[]){&made.first, &sixteen, &five});
            launch(sums, 1, 1, (void *[]){&at, &one, &out});
            CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
            REQUIRE(sum == 16 * 5 * (2 * i + round));
        }
    printf("%lld\n", sum);
    return 0;
}
