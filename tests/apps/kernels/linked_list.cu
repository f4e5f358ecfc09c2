struct Node {
    Node *next;
    int value;
};

// Sums a list whose links are device addresses
extern "C" __global__ void list_sum(const Node *head, long long *sum)
{
    long long total = 0;
    for (const Node *node = head; node; node = node->next)
        total += node->value;
    *sum = total;
}

// Links `count` nodes into a list in device memory, last to first, and stores the address of its head
extern "C" __global__ void list_build(Node *nodes, int count, Node **head)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    nodes[i].value = i + 1;
    nodes[i].next = i ? &nodes[i - 1] : nullptr;
    if (i == count - 1)
        *head = &nodes[i];
}
