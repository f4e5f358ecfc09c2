// Green contexts: a share of the multiprocessors, streams and events in it
#include "tell.h"

enum { N = 64, LEAST = 8 };

static CUdevResource part, rest;

static CUgreenCtx make(CUcontext primary, CUdevice d)
{
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned groups = 1;

    TELL(cuCtxGetDevResource(primary, &all, CU_DEV_RESOURCE_TYPE_SM));
    if (TELL(cuDeviceGetDevResource(d, &all, CU_DEV_RESOURCE_TYPE_SM)) != CUDA_SUCCESS)
        return NULL;
    if (TELL(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, LEAST)) != CUDA_SUCCESS)
        return NULL;
    printf("%u group of %u\n", groups, part.sm.smCount);
    if (TELL(cuDevResourceGenerateDesc(&description, &part, 1)) != CUDA_SUCCESS)
        return NULL;
    if (TELL(cuGreenCtxCreate(&green, description, d, CU_GREEN_CTX_DEFAULT_STREAM)) != CUDA_SUCCESS)
        return NULL;
    return green;
}

static void use(CUgreenCtx green)
{
    char *text = read_kernels("faults");
    CUdevResource its;
    CUlibrary library;
    CUkernel twice;
    CUgreenCtx found;
    CUcontext context, of;
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    unsigned long long id;
    int numbers[N], n = N, i;

    TELL(cuGreenCtxGetDevResource(green, &its, CU_DEV_RESOURCE_TYPE_SM));
    printf("%u\n", its.sm.smCount);
    TELL(cuGreenCtxGetId(green, &id));
    TELL(cuCtxFromGreenCtx(&context, green));
    TELL(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    TELL(cuStreamGetGreenCtx(stream, &found));
    REQUIRE(found == green);
    TELL(cuStreamGetCtx_v2(stream, &of, &found));
    REQUIRE(found == green);
    TELL(cuStreamGetCtx_v2_ptsz(stream, &of, &found));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&twice, library, "twice"));
    memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoDAsync_v2(memory, numbers, sizeof numbers, stream));
    CHECK(cuLaunchKernel((CUfunction)twice, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TELL(cuGreenCtxRecordEvent(green, event));
    TELL(cuGreenCtxWaitEvent(green, event));
    CHECK(cuMemcpyDtoHAsync_v2(numbers, memory, sizeof numbers, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%d\n", numbers[N - 1]);
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuMemFree_v2(memory));
    CHECK(cuLibraryUnload(library));
    free(text);
}

int main(void)
{
    CUcontext primary = start_driver();
    CUgreenCtx green;
    CUdevice d;

    CHECK(cuDeviceGet(&d, 0));
    green = make(primary, d);
    if (green) {
        use(green);
        CHECK(cuCtxSetCurrent(primary));
        TELL(cuGreenCtxDestroy(green));
    }
    fill_and_see(5);
    return 0;
}
