// Programmatic dependent launches: a kernel that begins before the one it waits for has ended; launch events
#include "sample.h"

__global__ void first(int *values, int n)
{
    cudaTriggerProgrammaticLaunchCompletion();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * 3 + 1;
}

__global__ void second(const int *values, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cudaGridDependencySynchronize();
    if (i < n)
        out[i] = values[n - 1 - i] + i;
}

int main()
{
    const int n = 4096;
    std::vector<int> values = numbers<int>(n);
    int *device = upload(values), *out = allocate<int>(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t begun;
    CHECK(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributePriority;
    attributes[1].val.priority = -1;
    cudaLaunchConfig_t config = {dim3(n / 256), dim3(256), 0, stream, attributes, 2};
    for (int turn = 0; turn < 3; turn++) {
        first<<<n / 256, 256, 0, stream>>>(device, n);
        CHECK(cudaLaunchKernelEx(&config, second, static_cast<const int *>(device), out, n));
    }
    cudaLaunchAttribute event = {};
    event.id = cudaLaunchAttributeLaunchCompletionEvent;
    event.val.launchCompletionEvent.event = begun;
    cudaLaunchConfig_t with_event = {dim3(n / 256), dim3(256), 0, stream, &event, 1};
    CHECK(cudaLaunchKernelEx(&with_event, first, device, n));
    CHECK(cudaEventSynchronize(begun));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<int> results = download(out, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[n - 1 - i] * 27 + 13 + i);
    print("results", results);
    print("values", download(device, n));

    // The same between two kernels of a captured graph
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    first<<<n / 256, 256, 0, stream>>>(device, n);
    CHECK(cudaLaunchKernelEx(&config, second, static_cast<const int *>(device), out, n));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("by graph", download(out, n));
    return 0;
}
