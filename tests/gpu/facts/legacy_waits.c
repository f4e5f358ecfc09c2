// Which calls return, or which events come to pass, only when blocking streams have finished what they had
#include "../../apps/check.h"

enum { SIZE = 4, LARGE = 8 << 20 };

// Takes a while, and leaves its mark
static const char *CODE =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry slow(.param .u64 out, .param .u64 cycles) {\n"
    " .reg .u64 %rd<6>; .reg .pred %p;\n"
    " ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [cycles]; mov.u64 %rd3, %clock64;\n"
    "again: mov.u64 %rd4, %clock64; sub.u64 %rd5, %rd4, %rd3; setp.lt.u64 %p, %rd5, %rd2; @%p bra again;\n"
    " st.global.u64 [%rd1], %rd2; ret; }\n";

static CUstream blocking, beside, other;
static CUfunction slow;
static CUdeviceptr out, device, more;
static unsigned char *pageable, *pinned;
static CUevent event;
static CUarray array;

static void take_a_while(CUstream stream)
{
    unsigned long long cycles = 200000000;
    CHECK(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&out, &cycles}, NULL));
}

static void a_little(CUstream stream)
{
    unsigned long long cycles = 1000;
    CHECK(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&more, &cycles}, NULL));
}

static void say(const char *what)
{
    printf("%-64s the blocking stream is %s\n", what, cuStreamQuery(blocking) == CUDA_SUCCESS ? "done" : "at work");
    CHECK(cuCtxSynchronize());
}

#define AFTER(what, call) do { take_a_while(blocking); call; say(what); } while (0)

static void rows(CUmemorytype from, void *host, CUdeviceptr source, CUmemorytype to, void *host_to, CUdeviceptr destination)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = from, .srcHost = host, .srcDevice = source, .dstMemoryType = to, .dstHost = host_to,
                          .dstDevice = destination, .WidthInBytes = SIZE, .Height = 1, .srcPitch = 64, .dstPitch = 64};
    CHECK(cuMemcpy2D(&copy));
}

int main(void)
{
    CUmodule module;
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

    start_driver();
    CHECK(cuModuleLoadData(&module, CODE));
    slow = find_kernel(module, "slow");
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&pinned, LARGE, 0));
    pageable = malloc(LARGE);
    memset(pageable, 1, LARGE);
    CHECK(cuArrayCreate(&array, &shape));
    out = allocate(64), more = allocate(64), device = allocate(LARGE);
    a_little(blocking);
    CHECK(cuCtxSynchronize());

    AFTER("nothing", (void)0);
    AFTER("cuMemcpyHtoD, pageable, 4 bytes", CHECK(cuMemcpyHtoD(device, pageable, SIZE)));
    AFTER("cuMemcpyHtoD, pageable, 8 MiB", CHECK(cuMemcpyHtoD(device, pageable, LARGE)));
    AFTER("cuMemcpyHtoD, pinned, 4 bytes", CHECK(cuMemcpyHtoD(device, pinned, SIZE)));
    AFTER("cuMemcpyHtoD, pinned, 8 MiB", CHECK(cuMemcpyHtoD(device, pinned, LARGE)));
    AFTER("cuMemcpyDtoH, pageable, 4 bytes", CHECK(cuMemcpyDtoH(pageable, device, SIZE)));
    AFTER("cuMemcpyDtoD, 4 bytes", CHECK(cuMemcpyDtoD(more, device, SIZE)));
    AFTER("cuMemcpy, from pageable, 4 bytes", CHECK(cuMemcpy(device, (CUdeviceptr)pageable, SIZE)));
    AFTER("cuMemcpy, from pinned, 4 bytes", CHECK(cuMemcpy(device, (CUdeviceptr)pinned, SIZE)));
    AFTER("cuMemcpy, to pageable, 4 bytes", CHECK(cuMemcpy((CUdeviceptr)pageable, device, SIZE)));
    AFTER("cuMemcpy, from pageable to pageable, 4 bytes", CHECK(cuMemcpy((CUdeviceptr)pageable, (CUdeviceptr)pageable + 64, SIZE)));
    AFTER("cuMemcpy, from pinned to pinned, 4 bytes", CHECK(cuMemcpy((CUdeviceptr)pinned, (CUdeviceptr)pinned + 64, SIZE)));
    AFTER("cuMemcpy, within the device, 4 bytes", CHECK(cuMemcpy(more, device, SIZE)));
    AFTER("cuMemcpy2D, from pageable", rows(CU_MEMORYTYPE_HOST, pageable, 0, CU_MEMORYTYPE_DEVICE, NULL, device));
    AFTER("cuMemcpy2D, from pinned", rows(CU_MEMORYTYPE_HOST, pinned, 0, CU_MEMORYTYPE_DEVICE, NULL, device));
    AFTER("cuMemcpy2D, from pinned, by its device address", rows(CU_MEMORYTYPE_DEVICE, NULL, (CUdeviceptr)pinned, CU_MEMORYTYPE_DEVICE, NULL, device));
    AFTER("cuMemcpy2D, to pageable", rows(CU_MEMORYTYPE_DEVICE, NULL, device, CU_MEMORYTYPE_HOST, pageable, 0));
    AFTER("cuMemcpy2D, within the device", rows(CU_MEMORYTYPE_DEVICE, NULL, device, CU_MEMORYTYPE_DEVICE, NULL, more));
    AFTER("cuMemcpyHtoA, pageable", CHECK(cuMemcpyHtoA(array, 0, pageable, SIZE)));
    AFTER("cuMemcpyHtoA, pinned", CHECK(cuMemcpyHtoA(array, 0, pinned, SIZE)));
    AFTER("cuMemcpyAtoH, pageable", CHECK(cuMemcpyAtoH(pageable, array, 0, SIZE)));
    AFTER("cuMemsetD8", CHECK(cuMemsetD8(device, 1, SIZE)));
    AFTER("cuMemsetD8, pinned", CHECK(cuMemsetD8((CUdeviceptr)pinned, 1, SIZE)));
    AFTER("an event on the legacy stream, waited for", { CHECK(cuEventRecord(event, NULL)); CHECK(cuEventSynchronize(event)); });
    AFTER("that event, queried until it has come to pass", { CHECK(cuEventRecord(event, NULL)); while (cuEventQuery(event)) ; });
    AFTER("a non-blocking stream that waits for that event", { CHECK(cuEventRecord(event, NULL)); CHECK(cuStreamWaitEvent(beside, event, 0)); CHECK(cuStreamSynchronize(beside)); });
    AFTER("the legacy stream, queried until it is done", while (cuStreamQuery(NULL)) ;);
    AFTER("another blocking stream behind a launch on the legacy one", { a_little(NULL); a_little(other); CHECK(cuStreamSynchronize(other)); });
    AFTER("another blocking stream behind an event on the legacy one", { CHECK(cuEventRecord(event, NULL)); a_little(other); CHECK(cuStreamSynchronize(other)); });
    AFTER("another blocking stream", { a_little(other); CHECK(cuStreamSynchronize(other)); });
    AFTER("its own copy to pageable memory, asynchronous, 4 bytes", CHECK(cuMemcpyDtoHAsync(pageable, device, SIZE, blocking)));
    AFTER("its own copy to pageable memory by cuMemcpyAsync", CHECK(cuMemcpyAsync((CUdeviceptr)pageable, device, SIZE, blocking)));
    AFTER("its own copy from pageable memory, asynchronous, 4 bytes", CHECK(cuMemcpyHtoDAsync(device, pageable, SIZE, blocking)));
    AFTER("its own copy from pageable memory, asynchronous, 8 MiB", CHECK(cuMemcpyHtoDAsync(device, pageable, LARGE, blocking)));
    return 0;
}
