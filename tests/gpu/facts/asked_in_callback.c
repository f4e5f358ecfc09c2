// What the driver answers within a host function and a stream callback, where it must not be called
// cc asked_in_callback.c -lcuda
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

static CUdeviceptr memory;
static void *pinned;
static CUstream other;
static CUevent event;
static CUcontext context;

static void ask(const char *where)
{
    unsigned value;
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *at = &value;
    CUdeviceptr start;
    CUdevice device;
    CUcontext current = NULL;
    CUstreamCaptureStatus status;
    size_t bytes, all;
    int count;

    printf("%s: cuPointerGetAttributes %d", where, cuPointerGetAttributes(1, &what, &at, memory));
    printf(", cuMemHostGetFlags %d", cuMemHostGetFlags(&value, pinned));
    printf(", cuMemGetAddressRange %d", cuMemGetAddressRange(&start, &bytes, memory));
    printf(", cuCtxGetCurrent %d", cuCtxGetCurrent(&current));
    printf(" (%s)", current == context ? "the stream's" : current ? "another" : "none");
    printf(", cuCtxGetDevice %d", cuCtxGetDevice(&device));
    printf(", cuStreamGetFlags %d", cuStreamGetFlags(other, &value));
    printf(", cuStreamIsCapturing %d", cuStreamIsCapturing(other, &status));
    printf(", cuStreamQuery %d", cuStreamQuery(other));
    printf(", cuEventQuery %d", cuEventQuery(event));
    printf(", cuDeviceGetCount %d", cuDeviceGetCount(&count));
    printf(", cuMemGetInfo %d", cuMemGetInfo(&bytes, &all));
    printf(", cuMemAlloc %d\n", cuMemAlloc(&start, 64));
}

static void CUDA_CB host_function(void *unused)
{
    (void)unused;
    ask("host function");
}

static void CUDA_CB callback(CUstream stream, CUresult status, void *unused)
{
    (void)stream, (void)status, (void)unused;
    ask("stream callback");
}

int main(void)
{
    CUdevice device;
    CUstream stream;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&memory, 4096));
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ask("outside");
    CHECK(cuLaunchHostFunc(stream, host_function, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamAddCallback(stream, callback, NULL, 0));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSetCurrent(NULL));
    ask("without a context");
    return 0;
}
