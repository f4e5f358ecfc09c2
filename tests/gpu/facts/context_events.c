// What an event of a whole context covers, and which streams a context's wait for an event holds back
#include "tell.h"

static const char *CODE =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry slow(.param .u64 cycles) {\n"
    " .reg .u64 %rd<5>; .reg .pred %p;\n"
    " ld.param.u64 %rd1, [cycles]; mov.u64 %rd2, %clock64;\n"
    "again: mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; setp.lt.u64 %p, %rd4, %rd1; @%p bra again;\n"
    " ret; }\n";

static CUfunction slow[2];

static void put(int context, CUstream stream, unsigned long long cycles)
{
    CHECK(cuLaunchKernel(slow[context], 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&cycles}, NULL));
}

static void say(const char *what, CUresult result)
{
    printf("%-72s %s\n", what, result == CUDA_SUCCESS ? "done" : result == CUDA_ERROR_NOT_READY ? "at work" : "failed");
}

int main(void)
{
    const unsigned long long LONG = 400000000, SHORT = 1000;
    CUcontext contexts[2];
    CUstream first, second, before, behind, capturing;
    CUevent event, other;
    CUmodule module;
    CUgraph graph;

    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        CHECK(cuCtxCreate(&contexts[i], NULL, 0, 0));
        CHECK(cuModuleLoadData(&module, CODE));
        slow[i] = find_kernel(module, "slow");
        put(i, NULL, SHORT);
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuCtxSetCurrent(contexts[0]));
    CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

    // All streams of the context, and what they wait for
    put(0, first, LONG);
    TELL(cuCtxRecordEvent(contexts[0], event));
    say("the event, one stream of two being at work", cuEventQuery(event));
    put(0, second, LONG);
    CHECK(cuStreamSynchronize(first));
    say("the event, what it was recorded behind having ended", cuEventQuery(event));
    CHECK(cuCtxSynchronize());

    // Streams of another context that wait for it: made before the wait, and behind it
    CHECK(cuCtxSetCurrent(contexts[1]));
    CHECK(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSetCurrent(contexts[0]));
    put(0, first, LONG);
    CHECK(cuCtxRecordEvent(contexts[0], event));
    CHECK(cuCtxSetCurrent(contexts[1]));
    TELL(cuCtxWaitEvent(contexts[1], event));
    CHECK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
    put(1, before, SHORT);
    put(1, behind, SHORT);
    put(1, NULL, SHORT);
    CHECK(cuStreamSynchronize(before));
    say("a stream made before the wait has ended; what was waited for is", cuEventQuery(event));
    CHECK(cuStreamSynchronize(behind));
    say("a stream made behind the wait has ended; what was waited for is", cuEventQuery(event));
    CHECK(cuStreamSynchronize(NULL));
    say("the legacy stream has ended; what was waited for is", cuEventQuery(event));
    CHECK(cuCtxSetCurrent(contexts[0]));
    CHECK(cuCtxSynchronize());

    // Beside a capture
    CHECK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(other, capturing));
    TELL(cuCtxRecordEvent(contexts[0], other));
    TELL(cuCtxWaitEvent(contexts[0], other));
    TELL(cuStreamEndCapture(capturing, &graph));
    return 0;
}
