// Conditional nodes: if with else, while, switch, one within another; decided by kernels
#include "sample.h"

__global__ void decide(cudaGraphConditionalHandle handle, const int *value, int at_least)
{
    cudaGraphSetConditional(handle, *value >= at_least);
}

__global__ void choose(cudaGraphConditionalHandle handle, const int *value) { cudaGraphSetConditional(handle, *value % 4); }

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *sum)
{
    *sum += *left;
    cudaGraphSetConditional(handle, --*left > 0);
}

__global__ void add(int *value, int what) { *value += what; }

static cudaGraphNode_t launch(cudaGraph_t graph, cudaGraphNode_t *after, void *kernel, void **arguments)
{
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = kernel;
    params.kernel.gridDim = params.kernel.blockDim = dim3(1, 1, 1);
    params.kernel.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &params));
    return node;
}

static cudaGraphNode_t branch(cudaGraph_t graph, cudaGraphNode_t *after, cudaGraphConditionalHandle handle,
    cudaGraphConditionalNodeType type, int bodies, cudaGraph_t *body)
{
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = bodies;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &params));
    for (int i = 0; i < bodies; i++)
        body[i] = params.conditional.phGraph_out[i];
    return node;
}

int main()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *value = allocate<int>(4), *left = value + 1, *sum = value + 2, *other = value + 3;
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle whether, which, loop;
    CHECK(cudaGraphConditionalHandleCreate(&whether, graph, 0, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&which, graph));
    CHECK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
    int at_least = 10;
    void *decides[] = {&whether, &value, &at_least}, *chooses[] = {&which, &value}, *counts[] = {&loop, &left, &sum};
    cudaGraph_t either[2], cases[3], body;
    cudaGraphNode_t node = launch(graph, nullptr, reinterpret_cast<void *>(decide), decides);
    node = branch(graph, &node, whether, cudaGraphCondTypeIf, 2, either);
    int what[5] = {1000, 2000, 10, 20, 30};
    for (int i = 0; i < 2; i++) {
        void *arguments[] = {&other, &what[i]};
        launch(either[i], nullptr, reinterpret_cast<void *>(add), arguments);
    }
    node = launch(graph, &node, reinterpret_cast<void *>(choose), chooses);
    node = branch(graph, &node, which, cudaGraphCondTypeSwitch, 3, cases);
    for (int i = 0; i < 3; i++) {
        void *arguments[] = {&other, &what[2 + i]};
        launch(cases[i], nullptr, reinterpret_cast<void *>(add), arguments);
    }
    branch(graph, &node, loop, cudaGraphCondTypeWhile, 1, &body);
    CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    count_down<<<1, 1, 0, stream>>>(loop, left, sum);
    CHECK(cudaStreamEndCapture(stream, nullptr));
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int turn : {3, 8, 12, 17, 6}) {
        int start[4] = {turn, turn, 0, 0}, results[4];
        CHECK(cudaMemcpyAsync(value, start, sizeof start, cudaMemcpyHostToDevice, stream));
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaMemcpyAsync(results, value, sizeof results, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        printf("%d: left %d, sum %d, other %d\n", turn, results[1], results[2], results[3]);
        REQUIRE(results[1] == 0 && results[2] == turn * (turn + 1) / 2);
        REQUIRE(results[3] == (turn >= 10 ? 1000 : 2000) + (turn % 4 < 3 ? 10 * (turn % 4 + 1) : 0));
    }
    return 0;
}
