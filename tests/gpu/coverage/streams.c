// Streams: old forms, twins for per-thread default streams, what a capture is told, callbacks, events
#include "tell.h"

enum { N = 64 };

static CUdeviceptr memory;
static CUfunction twice;
static int n = N;

static void step(CUstream stream)
{
    CHECK(cuLaunchKernel(twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
}

static void see(CUstream stream)
{
    int numbers[N];

    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(numbers, memory, sizeof numbers));
    printf("%d %d\n", numbers[1], numbers[N - 1]);
}

static void counted(void *data)
{
    ++*(int *)data;
}

static void called(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    *(int *)data += 10 + (int)status;
}

static void called_back(CUstream stream)
{
    static int count;

    TELL(cuLaunchHostFunc(stream, counted, &count));
    TELL(cuLaunchHostFunc_ptsz(stream, counted, &count));
    TELL(cuStreamAddCallback(stream, called, &count, 0));
    TELL(cuStreamAddCallback_ptsz(stream, called, &count, 0));
    CHECK(cuStreamSynchronize(stream));
    printf("%d\n", count);
}

static void captured(CUstream stream, int twin)
{
    CUstreamCaptureStatus status;
    CUgraphNode first, second;
    const CUgraphNode *last;
    const CUgraphEdgeData *edges;
    CUgraphEdgeData plain[1] = {{0}};
    CUgraph graph, inside;
    CUgraphExec exec;
    cuuint64_t id;
    size_t count;

    EITHER(twin, cuStreamBeginCapture, stream);
    step(stream);
    EITHER(twin, cuStreamGetCaptureInfo, stream, &status, &id);
    printf("%d\n", status);
    EITHER(twin, cuStreamGetCaptureInfo_v2, stream, &status, &id, &inside, &last, &count);
    printf("%zu\n", count);
    first = last[0];
    CHECK(cuGraphAddEmptyNode(&second, inside, &first, 1));
    // The next one comes after the empty node, then after both.
    EITHER(twin, cuStreamUpdateCaptureDependencies, stream, &second, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    step(stream);
    CHECK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &inside, &last, &edges, &count));
    CHECK(cuGraphAddEmptyNode(&second, inside, last, count));
    EITHER(twin, cuStreamUpdateCaptureDependencies_v2, stream, &second, plain, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    step(stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &count));
    printf("%zu nodes\n", count);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    see(stream);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

// NVIDIA's driver has the first forms only where it was loaded with NVreg_EnableStreamMemOPs.
static void words(CUstream stream)
{
    CUdeviceptr at = allocate(64);
    CUstreamBatchMemOpParams write;
    unsigned seen[16];

    CHECK(cuMemsetD32_v2(at, 0, 16));
    CHECK(cuCtxSynchronize());
    memset(&write, 0, sizeof write);
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = at + 32;
    write.writeValue.value = 9;
    if (TELL(cuStreamWriteValue32(stream, at, 5, 0)) == CUDA_SUCCESS)
        TELL(cuStreamWaitValue32(stream, at, 5, CU_STREAM_WAIT_VALUE_EQ));
    if (TELL(cuStreamWriteValue64(stream, at + 8, 7, 0)) == CUDA_SUCCESS)
        TELL(cuStreamWaitValue64(stream, at + 8, 7, CU_STREAM_WAIT_VALUE_EQ));
    if (TELL(cuStreamWriteValue32_ptsz(stream, at + 16, 6, 0)) == CUDA_SUCCESS)
        TELL(cuStreamWaitValue32_ptsz(stream, at + 16, 6, CU_STREAM_WAIT_VALUE_EQ));
    if (TELL(cuStreamWriteValue64_ptsz(stream, at + 24, 8, 0)) == CUDA_SUCCESS)
        TELL(cuStreamWaitValue64_ptsz(stream, at + 24, 8, CU_STREAM_WAIT_VALUE_EQ));
    TELL(cuStreamBatchMemOp(stream, 1, &write, 0));
    write.writeValue.address = at + 36;
    TELL(cuStreamBatchMemOp_ptsz(stream, 1, &write, 0));
    write.writeValue.address = at + 40;
    TELL(cuStreamBatchMemOp_v2(stream, 1, &write, 0));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(seen, at, sizeof seen));
    printf("%u %u %u %u %u %u %u\n", seen[0], seen[2], seen[4], seen[6], seen[8], seen[9], seen[10]);
}

static void events(CUstream stream)
{
    CUevent begin, end;
    float milliseconds;

    CHECK(cuEventCreate(&begin, CU_EVENT_BLOCKING_SYNC));
    CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CHECK(cuEventRecord(begin, stream));
    step(stream);
    CHECK(cuEventRecordWithFlags(end, stream, CU_EVENT_RECORD_DEFAULT));
    CHECK(cuEventSynchronize(end));
    TELL(cuEventElapsedTime(&milliseconds, begin, end));
    TELL(cuEventElapsedTime_v2(&milliseconds, begin, end));
    TELL(cuEventDestroy(begin));
    CHECK(cuEventDestroy_v2(end));
    see(stream);
}

int main(void)
{
    CUcontext context = start_driver(), of;
    CUgreenCtx green = NULL;
    CUstream stream;
    int numbers[N], i;

    twice = find_kernel(load_module("faults"), "twice");
    memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD_v2(memory, numbers, sizeof numbers));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamGetCtx_v2(stream, &of, &green));
    printf("%d %d\n", of == context, green == NULL);
    TELL(cuStreamGetCtx_v2_ptsz(stream, &of, &green));
    called_back(stream);
    captured(stream, 0);
    captured(stream, 1);
    words(stream);
    events(stream);
    TELL(cuStreamDestroy(stream));
    return 0;
}
