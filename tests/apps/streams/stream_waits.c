// Streams that wait for values: one that the device wrote, and two that only the CPU did
#include "check.h"
#include <unistd.h>

int main(void)
{
    volatile unsigned *flag;
    CUdeviceptr memory, value;
    CUstream stream;
    unsigned char bytes[64];
    CUstreamBatchMemOpParams batch[2] = {0};

    start_driver();
    CHECK(cuMemAllocHost((void **)&flag, 4096));
    flag[0] = flag[1] = 0;
    memory = allocate(sizeof bytes);
    value = allocate(4);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWriteValue32(stream, value, 3, 0));
    CHECK(cuStreamWaitValue32(stream, value, 3, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)&flag[0], 1, CU_STREAM_WAIT_VALUE_EQ));
    batch[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[0].waitValue.address = (CUdeviceptr)&flag[1];
    batch[0].waitValue.value = 1;
    batch[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    batch[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[1].writeValue.address = memory;
    batch[1].writeValue.value = 77;
    CHECK(cuStreamBatchMemOp(stream, 2, batch, 0));
    CHECK(cuMemsetD8Async(memory + 4, 4, sizeof bytes - 4, stream));
    usleep(1000);
    flag[0] = flag[1] = 1;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
    REQUIRE(bytes[0] == 77 && bytes[63] == 4);
    return 0;
}
