// Device memory that a library has of a hidden table, so that no call tells of it: filled, copied to and given to kernels. Only the
// simulated driver has this table.
#include "check.h"

enum { N = 64, BYTES = N * sizeof(int) };

struct table {
    size_t bytes;
    void *load, *function;
    CUresult (*allocate)(CUdeviceptr *, size_t);
};

int main(void)
{
    const struct table *table;
    CUuuid id;
    CUdeviceptr filled, copied, own;
    int numbers[N], n = N, i;

    memcpy(&id, "simulated, ours.", 16);
    start_driver();
    if (cuGetExportTable((const void **)&table, &id)) {
        puts("this driver has no such table");
        return 0;
    }
    CUfunction take = find_kernel(load_module("memory"), "take");
    own = allocate(BYTES);
    CHECK(table->allocate(&filled, BYTES));
    CHECK(table->allocate(&copied, 3 << 20));
    CHECK(cuMemsetD32(filled, 5, N));
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(copied, numbers, BYTES));
    launch(take, 1, N, (void *[]){&own, &filled, &n});
    CHECK(cuMemcpyDtoH(numbers, own, BYTES));
    REQUIRE(numbers[N - 1] == 5);
    launch(take, 1, N, (void *[]){&own, &copied, &n});
    CHECK(cuMemcpyDtoH(numbers, own, BYTES));
    REQUIRE(numbers[N - 1] == N - 1);
    printf("%d\n", numbers[N - 1]);
    return 0;
}
