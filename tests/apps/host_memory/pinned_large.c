// A kernel is given more pinned memory than is recorded; it reads little of it
#include "check.h"

enum { N = 64 };

int main(void)
{
    int *pinned, results[N], n = N;
    CUdeviceptr out;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemHostAlloc((void **)&pinned, (1ull << 30) + 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    out = allocate(sizeof results);
    launch(take, 1, N, (void *[]){&out, &pinned, &n});
    launch(take, 1, N, (void *[]){&out, &pinned, &n});
    CHECK(cuMemcpyDtoH(results, out, sizeof results));
    printf("%d\n", results[0]);
    return 0;
}
