// What may be asked while a stream is being captured, by the thread that captures and by another, and whether the capture survives it.
// cc asked_while_captured.c -lcuda -lpthread
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

static CUcontext context;
static CUstream other, captured;
static CUevent event;
static CUdeviceptr memory;
static void *pinned;

static CUresult flags_of(CUstream s) { unsigned v; return cuStreamGetFlags(s, &v); }
static CUresult flags_of_legacy(void) { return flags_of(CU_STREAM_LEGACY); }
static CUresult flags_of_null(void) { return flags_of(NULL); }
static CUresult flags_of_per_thread(void) { return flags_of(CU_STREAM_PER_THREAD); }
static CUresult flags_of_other(void) { return flags_of(other); }
static CUresult flags_of_captured(void) { return flags_of(captured); }
static CUresult captures_captured(void) { CUstreamCaptureStatus v; return cuStreamIsCapturing(captured, &v); }
static CUresult wait_for_other(void) { return cuStreamSynchronize(other); }
static CUresult query_event(void) { return cuEventQuery(event); }
static CUresult device(void) { CUdevice v; return cuCtxGetDevice(&v); }
static CUresult captures_legacy(void) { CUstreamCaptureStatus v; return cuStreamIsCapturing(CU_STREAM_LEGACY, &v); }
static CUresult captures_null(void) { CUstreamCaptureStatus v; return cuStreamIsCapturing(NULL, &v); }
static CUresult captures_other(void) { CUstreamCaptureStatus v; return cuStreamIsCapturing(other, &v); }
static CUresult priority_of_null(void) { int v; return cuStreamGetPriority(NULL, &v); }
static CUresult context_of_null(void) { CUcontext v; return cuStreamGetCtx(NULL, &v); }
static CUresult id_of_null(void) { unsigned long long v; return cuStreamGetId(NULL, &v); }
static CUresult query_null(void) { return cuStreamQuery(NULL); }
static CUresult query_other(void) { return cuStreamQuery(other); }
static CUresult pointer(void) { unsigned v; CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE; void *at = &v; return cuPointerGetAttributes(1, &what, &at, memory); }
static CUresult host_flags(void) { unsigned v; return cuMemHostGetFlags(&v, pinned); }
static CUresult address_range(void) { CUdeviceptr v; size_t n; return cuMemGetAddressRange(&v, &n, memory); }
static CUresult free_memory(void) { size_t a, b; return cuMemGetInfo(&a, &b); }
static CUresult allocate(void) { CUdeviceptr v; CUresult r = cuMemAlloc(&v, 64); return r; }
static CUresult allocate_pinned(void) { void *v; CUresult r = cuMemHostAlloc(&v, 64, 0); return r; }
static CUresult create_stream(void) { CUstream v; return cuStreamCreate(&v, CU_STREAM_NON_BLOCKING); }
static CUresult synchronize(void) { return cuCtxSynchronize(); }
static CUresult copy(void) { unsigned v; return cuMemcpyDtoH(&v, memory, 4); }

static const struct { const char *name; CUresult (*ask)(void); } questions[] = {
    {"cuStreamGetFlags(legacy)", flags_of_legacy}, {"cuStreamGetFlags(0)", flags_of_null}, {"cuStreamGetFlags(per thread)", flags_of_per_thread},
    {"cuStreamGetFlags(another)", flags_of_other}, {"cuStreamGetFlags(the captured)", flags_of_captured},
    {"cuStreamIsCapturing(the captured)", captures_captured}, {"cuStreamSynchronize(another)", wait_for_other}, {"cuEventQuery", query_event}, {"cuCtxGetDevice", device},
    {"cuStreamIsCapturing(legacy)", captures_legacy}, {"cuStreamIsCapturing(0)", captures_null},
    {"cuStreamIsCapturing(another)", captures_other}, {"cuStreamGetPriority(0)", priority_of_null}, {"cuStreamGetCtx(0)", context_of_null},
    {"cuStreamGetId(0)", id_of_null}, {"cuStreamQuery(0)", query_null}, {"cuStreamQuery(another)", query_other}, {"cuPointerGetAttributes", pointer},
    {"cuMemHostGetFlags", host_flags}, {"cuMemGetAddressRange", address_range}, {"cuMemGetInfo", free_memory}, {"cuMemAlloc", allocate},
    {"cuMemHostAlloc", allocate_pinned}, {"cuStreamCreate", create_stream}, {"cuCtxSynchronize", synchronize}, {"cuMemcpyDtoH", copy}};

struct asking { CUresult (*ask)(void), result; };

static void *elsewhere(void *argument)
{
    struct asking *asking = argument;
    CHECK(cuCtxSetCurrent(context));
    asking->result = asking->ask();
    return NULL;
}

static void try(unsigned question, CUstreamCaptureMode mode, unsigned flags, int by_another)
{
    struct asking asking = {questions[question].ask, 0};
    CUgraph graph = NULL;
    pthread_t thread;

    CHECK(cuStreamCreate(&captured, flags));
    CHECK(cuStreamBeginCapture(captured, mode));
    CHECK(cuMemsetD32Async(memory, 1, 4, captured));
    if (by_another) {
        pthread_create(&thread, NULL, elsewhere, &asking);
        pthread_join(thread, NULL);
    } else {
        asking.result = asking.ask();
    }
    CUresult ended = cuStreamEndCapture(captured, &graph);
    printf("  %3d %s", asking.result, ended ? "ENDS" : "    ");
    if (graph)
        CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(captured));
}

int main(void)
{
    CUdevice device;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&memory, 4096));
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, other));
    printf("%-35s  blocking stream: global, thread-local, relaxed; non-blocking: the same; each by the same thread and by another\n", "");
    for (unsigned i = 0; i < sizeof questions / sizeof *questions; i++) {
        printf("%-35s", questions[i].name);
        for (unsigned flags = 0; flags < 2; flags++)
            for (int mode = 0; mode < 3; mode++)
                for (int another = 0; another < 2; another++)
                    try(i, (CUstreamCaptureMode)mode, flags ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, another);
        printf("\n");
    }
    return 0;
}
