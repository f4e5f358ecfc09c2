// A kernel faults, and every call of the clean-up returns its error again: nothing is freed, though the program tries to free it all
#include "check.h"

enum { PIECES = 4, BYTES = 4096 };

int main(void)
{
    CUdeviceptr memory[PIECES];
    CUstream stream[PIECES];
    CUevent event[PIECES];
    void *pinned[PIECES];

    start_driver();
    CUmodule module = load_module("faults");
    CUfunction faulty = find_kernel(module, "write_nowhere");
    for (int i = 0; i < PIECES; i++) {
        memory[i] = allocate(BYTES);
        CHECK(cuMemAllocHost(&pinned[i], BYTES));
        CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&event[i], 0));
    }
    // An error that has nothing to do with it.
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory[0], 0));
    void *arguments[] = {&memory[1]};
    launch(faulty, 1, 1, arguments);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    for (int i = 0; i < PIECES; i++) {
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream[i]));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(memory[i]));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFreeHost(pinned[i]));
        // Whether these fail is the driver's to say.
        (void)cuEventDestroy(event[i]);
        (void)cuStreamDestroy(stream[i]);
    }
    (void)cuModuleUnload(module);
    return 0;
}
