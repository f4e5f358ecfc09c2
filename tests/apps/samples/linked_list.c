// A list whose links are device addresses: one built by the host, one by a kernel
#include "check.h"

enum { N = 100 };

struct node {
    CUdeviceptr next;
    int value;
};

int main(void)
{
    struct node nodes[N];
    long long sums[2];
    int n = N, i;

    start_driver();
    CUmodule module = load_module("linked_list");
    CUfunction sum = find_kernel(module, "list_sum"), build = find_kernel(module, "list_build");
    CUdeviceptr list = allocate(sizeof nodes), result = allocate(sizeof sums), head = allocate(sizeof head), first;

    memset(nodes, 0, sizeof nodes);
    for (i = 0; i < N; i++) {
        nodes[i].value = i * i;
        nodes[i].next = i + 1 < N ? list + (i + 1) * sizeof *nodes : 0;
    }
    CHECK(cuMemcpyHtoD(list, nodes, sizeof nodes));
    launch(sum, 1, 1, (void *[]){&list, &result});
    launch(build, 2, 64, (void *[]){&list, &n, &head});
    CHECK(cuMemcpyDtoH(&first, head, sizeof first));
    REQUIRE(first == list + (N - 1) * sizeof *nodes);
    CUdeviceptr second = result + sizeof *sums;
    launch(sum, 1, 1, (void *[]){&first, &second});
    CHECK(cuMemcpyDtoH(sums, result, sizeof sums));
    printf("%lld %lld\n", sums[0], sums[1]);
    REQUIRE(sums[0] == 328350 && sums[1] == 5050);
    return 0;
}
