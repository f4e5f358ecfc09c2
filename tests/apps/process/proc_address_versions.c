// What cuGetProcAddress hands out to callers of older CUDAs, and what it lacks for them
#include "check.h"

static void ask(const char *name, int version, cuuint64_t flags)
{
    static const char *const answers[] = {"found", "not found", "version not sufficient"};
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
    void *function = &function;
    CUresult result = cuGetProcAddress_v2(name, &function, version, flags, &status);

    REQUIRE(status <= 2 && !function == (status != 0));
    REQUIRE(result == CUDA_SUCCESS);
    printf("%s %d %d: %s\n", name, version, (int)flags, answers[status]);
}

static int alike(const char *name, int version, cuuint64_t flags, int other, cuuint64_t other_flags)
{
    void *functions[2];

    CHECK(cuGetProcAddress_v2(name, &functions[0], version, flags, NULL));
    CHECK(cuGetProcAddress_v2(name, &functions[1], other, other_flags, NULL));
    return functions[0] == functions[1];
}

int main(void)
{
    enum { LEGACY = CU_GET_PROC_ADDRESS_LEGACY_STREAM, OWN = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

    CHECK(cuInit(0));
    ask("cuNoSuchFunction", 13000, 0);
    ask("cuGraphAddNode", 12010, 0);
    ask("cuGraphAddNode", 12020, 0);
    ask("cuMemAllocAsync", 11010, OWN);
    ask("cuMemAllocAsync", 11020, OWN);
    ask("cuKernelGetLibrary", 12040, 0);
    ask("cuStreamBeginCapture", 9020, 0);
    ask("cuMemcpyBatchAsync", 12060, 0);
    ask("cuLaunchKernel", 6050, OWN);
    ask("cuMemAlloc_v2", 13000, 0);
    printf("%d", alike("cuGraphAddNode", 12020, 0, 12030, 0));
    printf("%d", alike("cuGraphAddNode", 12030, 0, 13000, 0));
    printf("%d", alike("cuCtxCreate", 11030, 0, 11040, 0));
    printf("%d", alike("cuMemcpyBatchAsync", 12080, LEGACY, 13000, LEGACY));
    printf("%d", alike("cuLaunchKernel", 13000, LEGACY, 13000, OWN));
    printf("%d\n", alike("cuMemAlloc", 13000, LEGACY, 13000, OWN));
    return 0;
}
