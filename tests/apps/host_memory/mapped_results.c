// Kernels write pinned memory, and the CPU looks there once it has waited: no copy brings anything back
#include "check.h"

enum { N = 2048 };

int main(void)
{
    int *mapped, *input, n = N, round, i;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction take = find_kernel(module, "take"), pass = find_kernel(module, "pass");
    CHECK(cuMemHostAlloc((void **)&mapped, N * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    input = malloc(N * sizeof(int));
    memory = allocate(N * sizeof(int));
    for (i = 0; i < N; i++)
        input[i] = i;
    CHECK(cuMemcpyHtoD(memory, input, N * sizeof(int)));
    // The bytes may still be on their way, and the stream waits for nothing else
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    for (round = 0; round < 3; round++) {
        CHECK(cuLaunchKernel(pass, N / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
        CHECK(cuLaunchKernel(take, N / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){&mapped, &memory, &n}, NULL));
        switch (round) {
        case 0:
            CHECK(cuStreamSynchronize(stream));
            break;
        case 1:
            CHECK(cuEventRecord(event, stream));
            CHECK(cuEventSynchronize(event));
            break;
        default:
            while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
                ;
        }
        for (i = 0; i < N; i++)
            REQUIRE(mapped[i] == (input[i] = input[i] * 3 + i));
    }
    printf("%d\n", mapped[N - 1]);
    return 0;
}
