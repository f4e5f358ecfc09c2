// A callback puts back what had been there before a kernel ran: on a page to which the driver may have had the CPU copy, and between two kernels
#include "check.h"

enum { WORDS = 4096, FEW = 10 };

static unsigned *memory;

static void CUDA_CB put_back(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < FEW; i++)
        memory[1990 + i] = 1990 + i;
}

int main(void)
{
    unsigned words = WORDS, rounds = 200000, back[WORDS], *from;
    CUstream stream, other;
    CUevent event;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr to = allocate(sizeof back), slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&from, sizeof back, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < WORDS; i++)
        memory[i] = from[i] = i;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuStreamSynchronize(stream));

    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuMemcpyAsync((CUdeviceptr)(memory + 2000), (CUdeviceptr)from, 400, stream));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuLaunchHostFunc(other, put_back, NULL));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, other, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, other));
    CHECK(cuStreamSynchronize(other));
    printf("%u %u %u\n", back[1989], back[1990], back[2000]);

    for (int i = 0; i < WORDS; i++)
        memory[i] = i;
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &words}, NULL));
    CHECK(cuLaunchHostFunc(stream, put_back, NULL));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &words}, NULL));
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%u %u\n", back[1989], back[1990]);
    return 0;
}
