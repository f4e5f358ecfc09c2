// Calls that fail: on objects which are gone, or never were, and on more memory than there is
#include "../check.h"
#include <stdint.h>

int main(void)
{
    CUstream gone, stream;
    CUevent event;
    CUdeviceptr memory;
    unsigned char bytes[64];
    void *pinned;

    start_driver();
    memory = allocate(sizeof bytes);
    CHECK(cuMemAllocHost(&pinned, sizeof bytes));
    CHECK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamDestroy(gone));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(gone));
    CHECK(cuEventCreate(&event, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord((CUevent)(uintptr_t)0x1234560, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, gone));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuMemcpyDtoH(bytes, memory, SIZE_MAX) != CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoD(memory, bytes, SIZE_MAX - 7) != CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoHAsync(pinned, memory, SIZE_MAX, stream) != CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(memory, 7, sizeof bytes, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
    REQUIRE(bytes[63] == 7);
    CHECK(cuStreamDestroy(stream));
    return 0;
}
