// Pinned memory freed when its copy is known to be done, while more work is under way on the stream
#include "check.h"

enum { SIZE = 1 << 24, COPIED = 1 << 22, MORE = 100 };

int main(void)
{
    CUstream stream;
    CUevent copied;
    char some[64];
    char *host;

    start_driver();
    CUdeviceptr memory = allocate(SIZE);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&copied, 0));
    CHECK(cuMemAllocHost((void **)&host, COPIED));
    CHECK(cuMemsetD8(memory, 3, SIZE));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoHAsync(host, memory, COPIED, stream));
    CHECK(cuEventRecord(copied, stream));
    for (int i = 0; i < MORE; i++)
        CHECK(cuMemsetD8Async(memory + COPIED, i, SIZE - COPIED, stream));
    CHECK(cuEventSynchronize(copied));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemcpyDtoH(some, memory, sizeof some));
    return 0;
}
