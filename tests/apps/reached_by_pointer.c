// Lists whose first node alone kernels are given: the others are in managed memory, and in pinned memory; the CPU changes their values
#include "check.h"

enum { N = 8, TURNS = 3 };

struct node {
    struct node *next;
    int value;
};

static CUdeviceptr result;

static void walk(CUfunction kernel, CUdeviceptr first, struct node *rest)
{
    long long sum;

    for (int turn = 0; turn < TURNS; turn++) {
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&first, &result}, NULL));
        CHECK(cuMemcpyDtoH(&sum, result, sizeof sum));
        printf("%lld ", sum);
        for (struct node *node = rest; node; node = node->next)
            node->value += turn;
    }
}

int main(void)
{
    struct node *first = NULL, *node, head = {NULL, 100};

    start_driver();
    CUfunction kernel = find_kernel(load_module("linked_list"), "list_sum");
    result = allocate(sizeof(long long));
    for (int i = 0; i < N; i++, first = node) {
        CHECK(cuMemAllocManaged((CUdeviceptr *)&node, sizeof *node, CU_MEM_ATTACH_GLOBAL));
        *node = (struct node){first, i};
    }
    walk(kernel, (CUdeviceptr)first, first);

    CHECK(cuMemHostAlloc((void **)&node, sizeof *node, CU_MEMHOSTALLOC_DEVICEMAP));
    *node = (struct node){NULL, 1};
    head.next = node;
    CUdeviceptr at = allocate(sizeof head);
    CHECK(cuMemcpyHtoD(at, &head, sizeof head));
    walk(kernel, at, node);
    puts("");
    return 0;
}
