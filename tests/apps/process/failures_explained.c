// Calls that fail for what the program had done before: events without a time, memory that is not managed, a
// limit that there is not, handles of a context that has been reset
#include "check.h"

static void say(const char *what, CUresult result)
{
    printf("%s: %s\n", what, result ? "refused" : "done");
}

int main(void)
{
    CUcontext context = start_driver();
    CUevent begin, untimed, never, captured, before;
    CUstream stream, gone;
    CUdeviceptr memory = allocate(4096);
    CUgraph graph;
    CUdevice device;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    float time;
    unsigned word;

    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&never, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&captured, CU_EVENT_DEFAULT));
    CHECK(cuEventRecord(begin, stream));
    CHECK(cuEventRecord(untimed, stream));
    CHECK(cuStreamSynchronize(stream));
    say("without timing", cuEventElapsedTime(&time, begin, untimed));
    say("never recorded", cuEventElapsedTime(&time, begin, never));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(captured, stream));
    CHECK(cuMemsetD32Async(memory, 8, 1024, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    say("recorded in a capture", cuEventElapsedTime(&time, begin, captured));
    say("advice", cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    say("prefetch", cuMemPrefetchAsync(memory, 4096, here, 0, stream));
    say("limit", cuCtxSetLimit((CUlimit)77, 1));
    CHECK(cuMemsetD32(memory, 7, 1024));
    CHECK(cuMemcpyDtoH(&word, memory, sizeof word));
    printf("%u\n", word);
    CHECK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&before, CU_EVENT_DEFAULT));
    CHECK(cuDevicePrimaryCtxReset(device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    say("stream of a reset context", cuStreamSynchronize(gone));
    say("event of a reset context", cuEventQuery(before));
    return 0;
}
