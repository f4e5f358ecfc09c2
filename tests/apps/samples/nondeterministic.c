// Among kernels that compute the same in every run, one that does not: launched ("direct"), by a pointer that stands in memory
// ("through"), in a graph ("graph"), or in the midst of much memory ("long")
#include "check.h"

enum { N = 64 };

int main(int count, char **options)
{
    unsigned long long numbers[N];
    int n = 2 * N;
    CUgraphExec instance;
    CUstream stream;
    CUgraph graph;

    REQUIRE(count == 2);
    start_driver();
    CUmodule faults = load_module("faults"), timer = load_module("timer");
    CUfunction add = find_kernel(faults, "add_two"), twice = find_kernel(faults, "twice");
    CUfunction stamp = find_kernel(timer, "stamp"), through = find_kernel(timer, "stamp_through");
    size_t before = strcmp(options[1], "long") == 0 ? 66 << 20 : 0;
    CUdeviceptr steady = allocate(sizeof numbers), table = allocate(N), memory = allocate(before + sizeof numbers) + before;
    void *first[] = {&steady, &n}, *one[] = {&memory}, *by_table[] = {&table}, *all[] = {&memory, &n};

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD8(steady, 1, sizeof numbers));
    CHECK(cuMemsetD8(memory, 1, sizeof numbers));
    CHECK(cuMemcpyHtoD(table, &memory, sizeof memory));
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(add, 1, 1, 1, n, 1, 1, 0, stream, first, NULL));
    CHECK(cuLaunchKernel(twice, 1, 1, 1, n, 1, 1, 0, stream, all, NULL));
    if (strcmp(options[1], "direct") == 0 || before) {
        CHECK(cuLaunchKernel(stamp, 1, 1, 1, 1, 1, 1, 0, stream, one, NULL));
    } else if (strcmp(options[1], "through") == 0) {
        CHECK(cuLaunchKernel(through, 1, 1, 1, 1, 1, 1, 0, stream, by_table, NULL));
    } else {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuLaunchKernel(add, 1, 1, 1, n, 1, 1, 0, stream, all, NULL));
        CHECK(cuLaunchKernel(stamp, 1, 1, 1, 1, 1, 1, 0, stream, one, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&instance, graph, 0));
        CHECK(cuGraphLaunch(instance, stream));
    }
    CHECK(cuLaunchKernel(add, 1, 1, 1, n, 1, 1, 0, stream, all, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    return 0;
}
