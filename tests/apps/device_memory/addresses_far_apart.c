// Two allocations far apart that hold each other's addresses, and pinned memory that holds both
#include "check.h"

enum { N = 100 };

struct node {
    CUdeviceptr next;
    int value;
};

int main(void)
{
    struct node nodes[2][N], *pinned;
    CUdeviceptr lists[2], result;
    long long sum;
    int i, k;

    start_driver();
    CUfunction function = find_kernel(load_module("linked_list"), "list_sum");
    for (k = 0; k < 2; k++)
        lists[k] = allocate(40 << 20);
    result = allocate(40 << 20);
    CHECK(cuMemAllocHost((void **)&pinned, sizeof *nodes));
    memset(nodes, 0, sizeof nodes);
    for (i = 0; i < N; i++)
        for (k = 0; k < 2; k++) {
            nodes[k][i].value = i;
            nodes[k][i].next = k ? (i + 1 < N ? lists[0] + (i + 1) * sizeof **nodes : 0) : lists[1] + i * sizeof **nodes;
        }
    for (k = 0; k < 2; k++) {
        memcpy(pinned, nodes[k], sizeof *nodes);
        CHECK(cuMemcpyHtoDAsync(lists[k], pinned, sizeof *nodes, NULL));
        CHECK(cuStreamSynchronize(NULL));
    }
    launch(function, 1, 1, (void *[]){&lists[0], &result});
    CHECK(cuMemcpyDtoH(&sum, result, sizeof sum));
    printf("%lld\n", sum);
    REQUIRE(sum == N * (N - 1));
    // Back by way of the same memory, and of memory that nobody pinned.
    CHECK(cuMemcpyDtoHAsync(pinned, lists[0], sizeof *nodes, NULL));
    CHECK(cuStreamSynchronize(NULL));
    REQUIRE(!memcmp(pinned, nodes[0], sizeof *nodes));
    CHECK(cuMemcpyDtoH(nodes[0], lists[1], sizeof *nodes));
    REQUIRE(!memcmp(nodes[0], nodes[1], sizeof *nodes));
    return 0;
}
