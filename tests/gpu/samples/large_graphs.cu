// Graphs of thousands of nodes: a chain, a fan, copies of them that are instantiated again and again, uploaded and launched on many streams
#include "sample.h"

__global__ void more(int *values, int at, int by) { atomicAdd(&values[at], by); }

int main()
{
    const int length = 2000, wide = 500;
    int *values = allocate<int>(wide + 1);
    cudaStream_t streams[8];
    cudaEvent_t begun, done[8];
    CHECK(cudaMemset(values, 0, (wide + 1) * sizeof(int)));
    CHECK(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    for (int i = 0; i < 8; i++) {
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    }
    cudaGraph_t chain, fan, copy;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (int i = 0; i < length; i++)
        more<<<1, 32, 0, streams[0]>>>(values, wide, i % 7);
    CHECK(cudaStreamEndCapture(streams[0], &chain));

    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
    CHECK(cudaEventRecord(begun, streams[0]));
    for (int i = 1; i < 8; i++)
        CHECK(cudaStreamWaitEvent(streams[i], begun, 0));
    for (int i = 0; i < wide; i++)
        more<<<1, 32, 0, streams[i % 8]>>>(values, i, i);
    for (int i = 1; i < 8; i++) {
        CHECK(cudaEventRecord(done[i], streams[i]));
        CHECK(cudaStreamWaitEvent(streams[0], done[i], 0));
    }
    CHECK(cudaStreamEndCapture(streams[0], &fan));

    size_t nodes;
    CHECK(cudaGraphGetNodes(chain, nullptr, &nodes));
    REQUIRE(nodes == length);
    for (int turn = 0; turn < 5; turn++) {
        cudaGraphExec_t executables[3];
        CHECK(cudaGraphClone(&copy, turn % 2 ? fan : chain));
        CHECK(cudaGraphInstantiate(&executables[0], chain, 0));
        CHECK(cudaGraphInstantiate(&executables[1], fan, 0));
        CHECK(cudaGraphInstantiate(&executables[2], copy, 0));
        for (int i = 0; i < 3; i++)
            CHECK(cudaGraphUpload(executables[i], streams[i]));
        for (int i = 0; i < 9; i++)
            CHECK(cudaGraphLaunch(executables[i % 3], streams[i % 8]));
        CHECK(cudaDeviceSynchronize());
        for (cudaGraphExec_t executable : executables)
            CHECK(cudaGraphExecDestroy(executable));
        CHECK(cudaGraphDestroy(copy));
        print("turn", download(values, wide + 1));
    }
    std::vector<int> results = download(values, wide + 1);
    for (int i = 0; i < wide; i++)
        REQUIRE(results[i] == 32 * i * (5 * 3 + 2 * 3));
    return 0;
}
