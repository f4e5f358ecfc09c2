// Managed variables and allocations that the CPU and the GPU use in turns, with advice and prefetching
#include "sample.h"

__managed__ int shared_count = 5;
__managed__ float shared_values[1024];

struct Node {
    int value;
    Node *next;
};

__global__ void add(float *values, int n, float what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += what;
    if (i == 0)
        shared_count++;
}

__global__ void use_variable() { shared_values[threadIdx.x] = shared_values[threadIdx.x] * 2 + shared_count; }

__global__ void walk(Node *node, int *sum)
{
    for (*sum = 0; node; node = node->next)
        *sum += node->value++;
}

int main()
{
    const int n = 100000;
    float *values;
    CHECK(cudaMallocManaged(&values, n * sizeof(float)));
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    CHECK(cudaMemAdvise(values, n * sizeof(float), cudaMemAdviseSetPreferredLocation, device));
    for (int i = 0; i < n; i++)
        values[i] = i;
    for (int turn = 0; turn < 4; turn++) {
        CHECK(cudaMemPrefetchAsync(values, n * sizeof(float), device, 0, 0));
        add<<<(n + 255) / 256, 256>>>(values, n, 0.5f);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemPrefetchAsync(values, n * sizeof(float), host, 0, 0));
        CHECK(cudaDeviceSynchronize());
        values[turn] = -1;
    }
    for (int i = 0; i < n; i++)
        REQUIRE(values[i] == (i < 4 ? -1 + (3 - i) * 0.5f : i + 2.0f));
    REQUIRE(shared_count == 9);
    print("added", std::vector<float>(values, values + n));

    for (int i = 0; i < 1024; i++)
        shared_values[i] = i;
    shared_count = 100;
    use_variable<<<1, 1024>>>();
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 1024; i++)
        REQUIRE(shared_values[i] == i * 2 + 100);
    print("variable", std::vector<float>(shared_values, shared_values + 1024));

    // A list that the CPU links
    Node *first = nullptr;
    for (int i = 0; i < 50; i++) {
        Node *node;
        CHECK(cudaMallocManaged(&node, sizeof(Node)));
        *node = {i, first};
        first = node;
    }
    int *sum;
    CHECK(cudaMallocManaged(&sum, sizeof(int), cudaMemAttachGlobal));
    for (int turn = 0; turn < 3; turn++) {
        walk<<<1, 1>>>(first, sum);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(*sum == 49 * 50 / 2 + turn * 50);
        printf("list %d\n", *sum);
    }
    while (first) {
        Node *next = first->next;
        CHECK(cudaFree(first));
        first = next;
    }
    CHECK(cudaFree(values));
    return 0;
}
