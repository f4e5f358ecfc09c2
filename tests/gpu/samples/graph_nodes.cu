// A graph built node by node, with dependencies, a child, events, priorities of kernels; changed before and after instantiation
#include "sample.h"

__global__ void add(int *values, int what) { values[threadIdx.x] += what * (threadIdx.x + 1); }

static void note(void *data) { ++*static_cast<int *>(data); }

static cudaKernelNodeParams kernel(void **arguments)
{
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(add);
    params.gridDim = dim3(1);
    params.blockDim = dim3(128);
    params.kernelParams = arguments;
    return params;
}

int main()
{
    const int n = 128;
    int *values = allocate<int>(n), *copied = allocate<int>(n), noted = 0, one = 1, ten = 10;
    std::vector<int> results(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph, child;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));
    cudaGraphNode_t set, first, second, copy, host, inner, back, child_node;
    cudaMemsetParams memset_params = {values, 0, 5, 4, n, 1};
    CHECK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &memset_params));
    void *with_one[] = {&values, &one}, *with_ten[] = {&values, &ten};
    cudaKernelNodeParams params = kernel(with_one);
    CHECK(cudaGraphAddKernelNode(&first, graph, &set, 1, &params));
    params = kernel(with_ten);
    CHECK(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &params));
    cudaGraphEdgeData edge = {};
    CHECK(cudaGraphAddDependencies(graph, &first, &second, &edge, 1));
    cudaLaunchAttributeValue priority = {};
    priority.priority = -2;
    CHECK(cudaGraphKernelNodeSetAttribute(second, cudaLaunchAttributePriority, &priority));
    params = kernel(with_one);
    CHECK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &params));
    CHECK(cudaGraphAddChildGraphNode(&child_node, graph, &second, 1, child));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &child_node, 1, copied, values, n * 4, cudaMemcpyDeviceToDevice));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &copy, 1, results.data(), copied, n * 4, cudaMemcpyDeviceToHost));
    cudaHostNodeParams host_params = {note, &noted};
    CHECK(cudaGraphAddHostNode(&host, graph, &back, 1, &host_params));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    cudaGraphNode_t recorded, empty;
    CHECK(cudaGraphAddEventRecordNode(&recorded, graph, &host, 1, event));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, &recorded, 1));

    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority));
    auto run = [&](int wanted_set, int wanted_add) {
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            REQUIRE(results[i] == wanted_set + wanted_add * (i + 1));
        print("run", results);
    };
    run(5, 12);
    // The executable graph alone is changed
    int hundred = 100;
    void *with_hundred[] = {&values, &hundred};
    params = kernel(with_hundred);
    CHECK(cudaGraphExecKernelNodeSetParams(executable, second, &params));
    memset_params.value = 9;
    CHECK(cudaGraphExecMemsetNodeSetParams(executable, set, &memset_params));
    run(9, 102);
    CHECK(cudaGraphNodeSetEnabled(executable, first, 0));
    run(9, 101);
    CHECK(cudaGraphNodeSetEnabled(executable, first, 1));
    // The graph is changed, and the executable brought up to date
    int twenty = 20;
    void *with_twenty[] = {&values, &twenty};
    params = kernel(with_twenty);
    CHECK(cudaGraphKernelNodeSetParams(first, &params));
    CHECK(cudaGraphMemsetNodeSetParams(set, &memset_params));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(executable, graph, &info));
    REQUIRE(info.result == cudaGraphExecUpdateSuccess);
    run(9, 31);
    REQUIRE(noted == 4);
    // What cannot be brought up to date
    CHECK(cudaGraphDestroyNode(empty));
    EXPECT(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(executable, graph, &info));
    cudaGetLastError();
    printf("update: %d\n", info.result);
    print("copied", download(copied, n));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
    return 0;
}
