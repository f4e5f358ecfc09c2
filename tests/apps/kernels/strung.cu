struct Node {
    Node *next;
    unsigned value;
};

extern "C" {
__device__ Node arena[64];
__device__ Node *head;
}

// Strings a list through an array whose address nobody asks for; its head is in a variable of its own
extern "C" __global__ void string_up(int count)
{
    for (int i = 0; i < count; i++) {
        arena[i * 7 % count].next = i + 1 < count ? &arena[(i + 1) * 7 % count] : nullptr;
        arena[i * 7 % count].value = i * i;
    }
    head = &arena[0];
}

extern "C" __global__ void sum_up(unsigned *out)
{
    unsigned sum = 1;
    for (const Node *node = head; node; node = node->next)
        sum = sum * 31 + node->value;
    *out = sum;
}
