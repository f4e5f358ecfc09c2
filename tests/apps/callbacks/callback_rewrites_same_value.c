// The CPU and a callback write into pinned memory what they had written before, and what a copy to its device address has replaced
#include "check.h"

enum { SIZE = 8192 };

static void CUDA_CB write_again(void *at)
{
    memset(at, 1, SIZE);
}

static void replace(CUdeviceptr at, void *by, int as_rows)
{
    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = by, .srcPitch = 64,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = at, .dstPitch = 64,
        .WidthInBytes = 64, .Height = SIZE / 64,
    };

    if (as_rows)
        CHECK(cuMemcpy2D(&rows));
    else
        CHECK(cuMemcpyHtoD(at, by, SIZE));
    CHECK(cuStreamSynchronize(NULL));
}

int main(void)
{
    static char zeros[SIZE], bytes[SIZE];
    CUstream stream;
    CUdeviceptr device;
    char *host;

    start_driver();
    CUdeviceptr to = allocate(SIZE);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&host, SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&device, host, 0));
    for (int turn = 0; turn < 5; turn++) {
        if (turn > 0)
            replace(device, zeros, turn % 2);
        if (turn < 3)
            memset(host, 1, SIZE);
        else
            CHECK(cuLaunchHostFunc(stream, write_again, host));
        CHECK(cuMemcpyDtoDAsync(to, device, SIZE, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(bytes, to, SIZE));
        printf("%d ", bytes[SIZE / 2]);
        REQUIRE(bytes[0] == 1 && bytes[SIZE - 1] == 1);
    }
    puts("");
    return 0;
}
