// Work on streams that is neither copy nor kernel: values waited for and written, events with flags, captures in every form.
// Built a second time for per-thread streams.
#include "check.h"

enum { N = 32, BYTES = N * 4 };

static CUdeviceptr memory, flags;
static CUfunction add;
static int n = N;

static void values(CUstream stream)
{
    CUstreamBatchMemOpParams batch[2];
    unsigned long long words[4];

    memset(batch, 0, sizeof batch);
    CHECK(cuMemsetD8Async(flags, 0, sizeof words, stream));
    CHECK(cuStreamWriteValue32(stream, flags, 5, 0));
    CHECK(cuStreamWaitValue32(stream, flags, 5, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamWriteValue64(stream, flags + 8, 7, 0));
    CHECK(cuStreamWaitValue64(stream, flags + 8, 6, CU_STREAM_WAIT_VALUE_GEQ));
    batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[0].writeValue.address = flags + 16;
    batch[0].writeValue.value = 9;
    batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[1].waitValue.address = flags + 16;
    batch[1].waitValue.value = 9;
    batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CHECK(cuStreamBatchMemOp(stream, 2, batch, 0));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(words, flags, sizeof words));
    REQUIRE(words[0] == 5 && words[1] == 7 && words[2] == 9);
}

static void events(CUstream stream, CUstream other)
{
    CUevent event;

    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CHECK(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuEventRecord(event, other));
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventDestroy(event));
}

static void launches(CUstream stream)
{
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1,
        .hStream = stream};
    void *arguments[] = {&memory, &n};

    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuLaunchKernelEx(&config, add, arguments, NULL));
    CHECK(cuLaunchCooperativeKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments));
    CHECK(cuStreamSynchronize(stream));
}

static void captures(CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *last;
    const CUgraphEdgeData *edges;
    CUgraph graph, inner;
    CUgraphExec exec;
    size_t count;
    void *arguments[] = {&memory, &n};

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamGetCaptureInfo(stream, &status, &id, &inner, &last, &edges, &count));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    CHECK(cuStreamIsCapturing(stream, &status));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphUpload(exec, stream));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));

    CHECK(cuGraphDestroy(graph));

    // Into a graph that is there
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamEndCapture(stream, &inner));
    CHECK(cuGraphDestroy(graph));
}

int main(void)
{
    CUstream stream, other;
    int numbers[N], i;

    start_driver();
    add = find_kernel(load_module("faults"), "add_two");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    memory = allocate(BYTES);
    flags = allocate(64);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    values(stream);
    events(stream, other);
    launches(stream);
    captures(stream);
    CHECK(cuMemcpyDtoH(numbers, memory, BYTES));
    printf("%d\n", numbers[N - 1]);
    REQUIRE(numbers[N - 1] == N - 1 + 10);
    return 0;
}
