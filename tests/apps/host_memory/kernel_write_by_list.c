// Pinned memory that kernels change by addresses in a list, and that the CPU sets to what it was: between launches, and while others of the row are
// under way
#include "check.h"

enum { WORDS = 1024, TURNS = 3 };

static unsigned *pinned(void)
{
    unsigned *memory;

    CHECK(cuMemHostAlloc((void **)&memory, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    return memory;
}

static void set(unsigned *memory)
{
    for (int i = 0; i < WORDS; i++)
        memory[i] = 7;
}

int main(void)
{
    int count = 1, words = WORDS;
    unsigned *memory[2], **lists[2];
    CUstream stream, other;
    CUevent event;

    start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass_each");
    CUdeviceptr open = allocate(4);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) {
        memory[i] = pinned();
        lists[i] = (unsigned **)pinned();
        lists[i][0] = memory[i];
        set(memory[i]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        set(memory[0]);
        CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&lists[0], &count, &words}, NULL));
        CHECK(cuStreamSynchronize(stream));
        printf("%u ", memory[0][WORDS - 1]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        set(memory[0]);
        CHECK(cuMemsetD32Async(open, 0, 1, stream));
        CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&lists[0], &count, &words}, NULL));
        CHECK(cuEventRecord(event, stream));
        CHECK(cuStreamWaitValue32(stream, open, 1, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&lists[1], &count, &words}, NULL));
        CHECK(cuEventSynchronize(event));
        printf("%u ", memory[0][WORDS - 1]);
        set(memory[0]);
        CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, other, (void *[]){&lists[0], &count, &words}, NULL));
        CHECK(cuStreamSynchronize(other));
        printf("%u ", memory[0][WORDS - 1]);
        CHECK(cuStreamWriteValue32(other, open, 1, 0));
        CHECK(cuStreamSynchronize(stream));
    }
    CUdeviceptr to = allocate(WORDS * 4);
    CHECK(cuMemcpyDtoD(to, (CUdeviceptr)memory[0], WORDS * 4));
    CHECK(cuMemcpyDtoH(lists[0], to, WORDS * 4));
    puts("");
    return 0;
}
