// Captures that end without a graph: one that a wait broke, and one that another stream had not joined again; then the streams work on
#include "check.h"

enum { WIDE = 61, ROWS = 7, PITCH = 97, N = PITCH * ROWS };

// The rows of one piece of host memory into those of another, which the device reads, and what it made of that
static unsigned back(CUstream stream, unsigned char *to, int start)
{
    static unsigned char from[N];
    CUDA_MEMCPY3D copy = {0};

    for (int i = 0; i < N; i++)
        from[i] = start + i;
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    copy.srcPitch = PITCH;
    copy.dstHost = to;
    copy.dstPitch = WIDE;
    copy.srcHeight = copy.dstHeight = copy.Height = ROWS;
    copy.WidthInBytes = WIDE;
    copy.Depth = 1;
    CHECK(cuMemcpy3DAsync(&copy, stream));
    CHECK(cuStreamSynchronize(stream));
    unsigned sum = 0;
    for (int i = 0; i < WIDE * ROWS; i++)
        sum = sum * 31 + to[i];
    return sum;
}

int main(void)
{
    unsigned char *to;
    CUstream stream, other;
    CUevent event;
    CUgraph graph;

    start_driver();
    CUdeviceptr memory = allocate(N);
    CHECK(cuMemHostAlloc((void **)&to, N, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(memory, 1, N, stream));
    REQUIRE(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !graph);
    printf("%u\n", back(stream, to, 1));

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuMemsetD8Async(memory, 2, N, other));
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && !graph);
    printf("%u\n", back(stream, to, 2));
    printf("%u\n", back(other, to, 3));
    return 0;
}
