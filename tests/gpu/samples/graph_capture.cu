// A graph captured over two streams, with copies, memsets, host functions; cloned, launched often, taken apart
#include "sample.h"

__global__ void scale(const float *in, float *out, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * by;
}

__global__ void join(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] += a[i] + b[i];
}

static void count(void *data) { ++*static_cast<int *>(data); }

int main()
{
    const int n = 4000;
    float *in, *out, *device = allocate<float>(n), *a = allocate<float>(n), *b = allocate<float>(n), *sum = allocate<float>(n);
    int counted = 0;
    CHECK(cudaMallocHost(&in, n * sizeof(float)));
    CHECK(cudaMallocHost(&out, n * sizeof(float)));
    cudaStream_t one, two;
    cudaEvent_t fork, joined;
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreate(&two));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    cudaGraph_t graph, copy;
    CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device, in, n * sizeof(float), cudaMemcpyHostToDevice, one));
    CHECK(cudaEventRecord(fork, one));
    CHECK(cudaStreamWaitEvent(two, fork, 0));
    scale<<<(n + 255) / 256, 256, 0, one>>>(device, a, n, 2);
    scale<<<(n + 255) / 256, 256, 0, two>>>(device, b, n, 3);
    CHECK(cudaMemsetAsync(sum, 0, n * sizeof(float), two));
    CHECK(cudaEventRecord(joined, two));
    CHECK(cudaStreamWaitEvent(one, joined, 0));
    join<<<(n + 255) / 256, 256, 0, one>>>(a, b, sum, n);
    CHECK(cudaMemcpyAsync(out, sum, n * sizeof(float), cudaMemcpyDeviceToHost, one));
    CHECK(cudaLaunchHostFunc(one, count, &counted));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(two, &status));
    REQUIRE(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamEndCapture(one, &graph));

    size_t nodes = 0, kernels = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    std::vector<cudaGraphNode_t> all(nodes);
    CHECK(cudaGraphGetNodes(graph, all.data(), &nodes));
    for (auto node : all) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(node, &type));
        kernels += type == cudaGraphNodeTypeKernel;
    }
    REQUIRE(nodes == 7 && kernels == 3);
    CHECK(cudaGraphClone(&copy, graph));
    cudaGraphExec_t executable, of_copy;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphInstantiateWithFlags(&of_copy, copy, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    CHECK(cudaGraphUpload(executable, two));
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < n; i++)
            in[i] = number(i + turn * n) % 100;
        CHECK(cudaGraphLaunch(turn % 2 ? of_copy : executable, turn % 3 ? one : two));
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++)
            REQUIRE(out[i] == in[i] * 5);
        print("turn", std::vector<float>(out, out + n));
    }
    REQUIRE(counted == 6);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}
