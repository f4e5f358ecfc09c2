// What becomes of what was made while a green context was current, when that is destroyed
#include "tell.h"
#include <string.h>

int main(void)
{
    CUdevice device;
    CUcontext primary, context, popped, of_stream = NULL;
    CUgreenCtx green;
    CUdevResource all, part, rest;
    CUdevResourceDesc description;
    unsigned groups = 1;
    CUdeviceptr memory, ordered;
    CUstream own, plain;
    CUevent event;
    CUmodule module;
    void *pinned;
    int host[4] = {1, 2, 3, 4}, back[4] = {0};

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, device));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&context, green));
    printf("one handle: %s\n", (void *)context == (void *)green ? "yes" : "no");
    CHECK(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuCtxPushCurrent(context));
    CHECK(cuMemAlloc(&memory, 1 << 20));
    CHECK(cuMemAllocHost(&pinned, 4096));
    CHECK(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&ordered, 4096, plain));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    module = load_module("faults");
    CHECK(cuMemcpyHtoD(memory, host, sizeof host));
    CHECK(cuMemcpyHtoD(ordered, host, sizeof host));
    TELL(cuStreamGetCtx(own, &of_stream));
    printf("the context of its stream: %s\n", of_stream == context ? "its own" : of_stream == primary ? "the primary" : "another");
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxPopCurrent(&popped));
    TELL(cuGreenCtxDestroy(green));
    TELL(cuMemcpyDtoH(back, memory, sizeof back));
    printf("  %s\n", memcmp(host, back, sizeof host) ? "other bytes" : "the bytes");
    TELL(cuMemcpyDtoH(back, ordered, sizeof back));
    memset(pinned, 1, 4096);
    TELL(cuMemcpyDtoHAsync(pinned, memory, sizeof back, plain));
    TELL(cuEventRecord(event, plain));
    TELL(cuStreamSynchronize(plain));
    TELL(cuMemFreeAsync(ordered, plain));
    TELL(cuStreamDestroy(plain));
    TELL(cuEventDestroy(event));
    TELL(cuModuleUnload(module));
    TELL(cuMemFreeHost(pinned));
    TELL(cuMemFree(memory));
    return 0;
}
