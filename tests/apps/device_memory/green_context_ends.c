// Memory made while a green context was current, which is destroyed: the memory stays, and another green context may have the handle
#include "check.h"

enum { N = 64 };

static CUcontext make_current(CUdevice device, CUgreenCtx *green)
{
    CUdevResource all, part, rest;
    CUdevResourceDesc description;
    CUcontext context;
    unsigned groups = 1;

    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 8));
    CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
    CHECK(cuGreenCtxCreate(green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&context, *green));
    CHECK(cuCtxPushCurrent(context));
    return context;
}

int main(void)
{
    CUcontext primary = start_driver(), context, popped;
    CUgreenCtx green;
    CUdevice device;
    CUdeviceptr memory[3];
    CUstream stream, left;
    int *pinned[3], numbers[N], round, i;

    CHECK(cuDeviceGet(&device, 0));
    for (round = 0; round < 3; round++) {
        context = make_current(device, &green);
        memory[round] = allocate(sizeof numbers);
        CHECK(cuMemAllocHost((void **)&pinned[round], sizeof numbers));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemsetD32Async(memory[round], round + 1, N, stream));
        CHECK(cuMemcpyDtoHAsync(pinned[round], memory[round], sizeof numbers, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy(stream));
        CHECK(cuCtxPopCurrent(&popped));
        REQUIRE(popped == context);
        // Made while another is current; nobody destroys it.
        CHECK(cuGreenCtxStreamCreate(&left, green, CU_STREAM_NON_BLOCKING, 0));
        CHECK(cuGreenCtxDestroy(green));
    }
    CHECK(cuCtxGetCurrent(&context));
    REQUIRE(context == primary);
    for (round = 0; round < 3; round++) {
        CHECK(cuMemcpyDtoH(numbers, memory[round], sizeof numbers));
        for (i = 0; i < N; i++)
            REQUIRE(numbers[i] == round + 1 && pinned[round][i] == round + 1);
        CHECK(cuMemFree(memory[round]));
        CHECK(cuMemFreeHost(pinned[round]));
    }
    printf("%d\n", numbers[N - 1]);
    return 0;
}
