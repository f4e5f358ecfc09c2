// Graphs that kernels launch: fire and forget, and as the tail of the graph that is running
// nvcc: -rdc=true -lcudadevrt
#include "sample.h"

__global__ void work(int *values) { values[threadIdx.x] = values[threadIdx.x] * 2 + threadIdx.x; }

__global__ void launch(cudaGraphExec_t graph, int times)
{
    for (int i = 0; i < times; i++)
        cudaGraphLaunch(graph, cudaStreamGraphFireAndForget);
}

__global__ void launch_stored(const cudaGraphExec_t *graphs, int which)
{
    cudaGraphLaunch(graphs[which], cudaStreamGraphTailLaunch);
}

__global__ void again(int *count)
{
    if (++*count < 5)
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

static cudaGraphExec_t instantiate(cudaStream_t stream, unsigned flags)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, flags));
    CHECK(cudaGraphDestroy(graph));
    return executable;
}

int main()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> values = numbers<int>(128);
    int *device = upload(values), *count = allocate<int>(1);
    cudaGraphExec_t *stored = allocate<cudaGraphExec_t>(2);
    CHECK(cudaMemset(count, 0, sizeof(int)));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work<<<1, 128, 0, stream>>>(device);
    cudaGraphExec_t worker = instantiate(stream, cudaGraphInstantiateFlagDeviceLaunch);
    CHECK(cudaGraphUpload(worker, stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    again<<<1, 1, 0, stream>>>(count);
    cudaGraphExec_t repeated = instantiate(stream, cudaGraphInstantiateFlagDeviceLaunch);
    CHECK(cudaGraphUpload(repeated, stream));
    cudaGraphExec_t both[2] = {worker, repeated};
    CHECK(cudaMemcpy(stored, both, sizeof both, cudaMemcpyHostToDevice));

    // Only kernels of a graph can launch graphs
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch<<<1, 1, 0, stream>>>(worker, 1);
    cudaGraphExec_t launcher = instantiate(stream, 0);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch_stored<<<1, 1, 0, stream>>>(stored, 1);
    cudaGraphExec_t tail = instantiate(stream, 0);
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(launcher, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaGraphLaunch(tail, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<int> results = download(device, 128);
    for (int i = 0; i < 128; i++)
        REQUIRE(results[i] == values[i] * 8 + 7 * i);
    REQUIRE(download(count, 1)[0] == 5);
    print("launched", results);
    return 0;
}
