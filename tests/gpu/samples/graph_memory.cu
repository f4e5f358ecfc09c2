// Memory that graphs allocate and free: captured and by nodes, freed by a later graph or by the program, trimmed
#include "sample.h"

__global__ void fill(int *values, int n, int with)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = i * with;
}

__global__ void reduce_to(const int *values, int n, int *out)
{
    int i = threadIdx.x, sum = 0;
    for (int k = i; k < n; k += blockDim.x)
        sum += values[k];
    out[i] += sum;
}

int main()
{
    const int n = 30000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *out = allocate<int>(64), *temporary, *kept;
    CHECK(cudaMemset(out, 0, 64 * sizeof(int)));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&temporary, n * sizeof(int), stream));
    CHECK(cudaMallocAsync(&kept, n * sizeof(int), stream));
    fill<<<(n + 255) / 256, 256, 0, stream>>>(temporary, n, 2);
    fill<<<(n + 255) / 256, 256, 0, stream>>>(kept, n, 3);
    reduce_to<<<1, 64, 0, stream>>>(temporary, n, out);
    CHECK(cudaFreeAsync(temporary, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int turn = 0; turn < 3; turn++)
        CHECK(cudaGraphLaunch(executable, stream));
    // The last launch's is still there
    reduce_to<<<1, 64, 0, stream>>>(kept, n, out);
    std::vector<int> by_three(n);
    CHECK(cudaMemcpyAsync(by_three.data(), kept, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(kept, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<int> results = download(out, 64);
    for (int i = 0; i < 64; i++) {
        int sum = 0;
        for (int k = i; k < n; k += 64)
            sum += k;
        REQUIRE(results[i] == sum * 9);
    }
    print("results", results);
    print("kept", by_three);

    // The same by nodes
    cudaGraph_t built;
    CHECK(cudaGraphCreate(&built, 0));
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
    memory.bytesize = n * sizeof(int);
    cudaGraphNode_t made, filled, summed, freed;
    CHECK(cudaGraphAddMemAllocNode(&made, built, nullptr, 0, &memory));
    int count = n, with = 7;
    void *fills[] = {&memory.dptr, &count, &with}, *sums[] = {&memory.dptr, &count, &out};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(fill);
    params.gridDim = dim3((n + 255) / 256);
    params.blockDim = dim3(256);
    params.kernelParams = fills;
    CHECK(cudaGraphAddKernelNode(&filled, built, &made, 1, &params));
    params.func = reinterpret_cast<void *>(reduce_to);
    params.gridDim = dim3(1);
    params.blockDim = dim3(64);
    params.kernelParams = sums;
    CHECK(cudaGraphAddKernelNode(&summed, built, &filled, 1, &params));
    CHECK(cudaGraphAddMemFreeNode(&freed, built, &summed, 1, memory.dptr));
    CHECK(cudaGraphInstantiate(&executable, built, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("by nodes", download(out, 64));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaDeviceGraphMemTrim(0));
    return 0;
}
