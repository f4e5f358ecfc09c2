// Pinned memory that is freed and comes back at the same address, filled by the stream while its kernels already know it; and a
// staging buffer that the CPU writes again while copies from it are still to come
#include "check.h"

enum { N = 256 };

static void CUDA_CB nothing(void *data) { (void)data; }

int main(void)
{
    int *flag, *again, *staging, *piece, results[N], n = N, i, round;
    CUdeviceptr out, slots;
    CUstream stream, copies;
    CUevent event;

    start_driver();
    CUmodule module = load_module("memory");
    CUfunction take = find_kernel(module, "take");
    CUfunction pass = find_kernel(module, "pass");
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    out = allocate(N * sizeof(int));
    slots = allocate(N * sizeof(int));
    unsigned rounds = 200000;
    for (round = 0; round < 3; round++) {
        CHECK(cuMemHostAlloc((void **)&flag, N * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slots}, NULL));
        CHECK(cuMemsetD32Async((CUdeviceptr)flag, 5 + round, N, stream));
        CHECK(cuLaunchKernel(take, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&out, &flag, &n}, NULL));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(results, out, sizeof results));
        REQUIRE(results[N - 1] == 5 + round);
        for (i = 0; i < N; i++)
            flag[i] = 1000;
        CHECK(cuMemFreeHost(flag));
    }
    CHECK(cuMemHostAlloc((void **)&again, N * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostAlloc((void **)&staging, N * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
    // Known to a kernel, so that its changes are followed
    CHECK(cuLaunchKernel(take, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&out, &staging, &n}, NULL));
    CHECK(cuStreamSynchronize(stream));
    for (round = 0; round < 4; round++) {
        staging[0] = 10 + round;
        CHECK(cuMemcpyHtoDAsync(slots + round * 4, staging, 4, copies));
        while (cuStreamQuery(copies) == CUDA_ERROR_NOT_READY)
            ;
    }
    CHECK(cuMemcpyDtoH(results, slots, 16));
    for (round = 0; round < 4; round++)
        REQUIRE(results[round] == 10 + round);
    // The same again over what a copy brought, and over what the stream filled
    staging[0] = 7;
    CHECK(cuMemcpyHtoDAsync(slots, staging, 4, copies));
    CHECK(cuMemcpyDtoHAsync(staging, slots + 8, 4, copies));
    CHECK(cuStreamSynchronize(copies));
    REQUIRE(staging[0] == 12);
    staging[0] = 7;
    CHECK(cuMemcpyHtoDAsync(slots + 4, staging, 4, copies));
    CHECK(cuMemsetD32Async((CUdeviceptr)staging, 99, 1, copies));
    CHECK(cuStreamSynchronize(copies));
    staging[0] = 7;
    CHECK(cuMemcpyHtoDAsync(slots + 8, staging, 4, copies));
    CHECK(cuStreamSynchronize(copies));
    CHECK(cuMemcpyDtoH(results, slots, 16));
    for (i = 0; i < 3; i++)
        REQUIRE(results[i] == 7);
    // Once more where a copy brought more than what others had read, while a callback was about to run
    CHECK(cuMemHostAlloc((void **)&piece, N * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
    piece[0] = 7;
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slots}, NULL));
    CHECK(cuLaunchHostFunc(stream, nothing, NULL));
    CHECK(cuMemcpyHtoDAsync(slots + 4, piece, 4, copies));
    CHECK(cuMemcpyHtoDAsync(slots + 8, piece + 8, 4, copies));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(copies));
    CHECK(cuMemsetD32Async(out, 5, N, copies));
    CHECK(cuMemcpyDtoHAsync(piece, out, N * sizeof(int), copies));
    CHECK(cuStreamSynchronize(copies));
    REQUIRE(piece[0] == 5);
    piece[0] = 7;
    CHECK(cuMemcpyHtoDAsync(slots + 4, piece, 4, copies));
    CHECK(cuStreamSynchronize(copies));
    CHECK(cuMemcpyDtoH(results, slots, 16));
    REQUIRE(results[1] == 7);
    // What a kernel makes of all of it a copy behind it reads, though only a piece of it was known before
    CHECK(cuLaunchKernel(pass, 1, 1, 1, N, 1, 1, 0, copies, (void *[]){&piece, &n}, NULL));
    CHECK(cuStreamSynchronize(copies));
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, copies, (void *[]){&rounds, &slots}, NULL));
    CHECK(cuLaunchKernel(pass, 1, 1, 1, N, 1, 1, 0, copies, (void *[]){&piece, &n}, NULL));
    CHECK(cuMemcpyHtoDAsync(slots, piece + 10, 16, copies));
    CHECK(cuStreamSynchronize(copies));
    CHECK(cuMemcpyDtoH(results, slots, 16));
    REQUIRE(results[0] == (5 * 3 + 10) * 3 + 10);
    printf("%d %d\n", results[0], results[3]);
    return 0;
}
