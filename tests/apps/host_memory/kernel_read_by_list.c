// Lists whose first node alone kernels are given: the others are in managed memory, or in pinned memory that is named there, in a copy to the
// device, or in other pinned memory; the CPU changes their values
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

static struct node *pinned_node(struct node *next, int value)
{
    struct node *node;

    CHECK(cuMemHostAlloc((void **)&node, sizeof *node, CU_MEMHOSTALLOC_DEVICEMAP));
    *node = (struct node){next, value};
    return node;
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

    head.next = pinned_node(pinned_node(NULL, 1), 2);
    CUdeviceptr at = allocate(sizeof head);
    CHECK(cuMemcpyHtoD(at, &head, sizeof head));
    walk(kernel, at, head.next);

    first->next = pinned_node(pinned_node(NULL, 3), 4);
    walk(kernel, (CUdeviceptr)first, first);
    puts("");
    return 0;
}
