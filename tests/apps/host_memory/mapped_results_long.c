// Kernels write somewhere in pinned memory of many megabytes, and the CPU looks there once it has waited; as often as the first argument
// says; if there is a second, the memory is write-combined, and if there is a third, a callback comes before the wait. The CPU puts what had
// been there back each time, so that the same result is new again
#include "check.h"

enum { N = 256, LEN = 16 << 20, WORDS = LEN / sizeof(int), PLACES = 5 };

static void CUDA_CB count(void *data)
{
    ++*(int *)data;
}

int main(int argc, char **argv)
{
    int called = 0, rounds = argc > 1 ? atoi(argv[1]) : PLACES, *mapped, n = N, round, i;
    unsigned sum = 0;
    int *input = malloc(N * sizeof(int));
    CUdeviceptr memory, place;
    CUevent event;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemHostAlloc((void **)&mapped, LEN, CU_MEMHOSTALLOC_DEVICEMAP | (argc > 2 ? CU_MEMHOSTALLOC_WRITECOMBINED : 0)));
    memset(mapped, 0, LEN);
    memory = allocate(N * sizeof(int));
    for (i = 0; i < N; i++)
        input[i] = 3355443 * (i + 1);
    CHECK(cuMemcpyHtoD(memory, input, N * sizeof(int)));
    CHECK(cuCtxSynchronize());
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    for (round = 0; round < rounds; round++) {
        // Behind what is read in one piece, at the end, and across two pieces
        size_t at = (round % PLACES + 1) * (WORDS / 4) - N;
        if (round % PLACES == 4)
            at = WORDS / 4 - N / 2;
        CHECK(cuMemHostGetDevicePointer(&place, mapped, 0));
        place += at * sizeof(int);
        launch(take, 1, N, (void *[]){&place, &memory, &n});
        if (argc > 3)
            CHECK(cuLaunchHostFunc(NULL, count, &called));
        if (round % 2) {
            CHECK(cuCtxSynchronize());
        } else {
            CHECK(cuEventRecord(event, NULL));
            CHECK(cuEventSynchronize(event));
        }
        for (i = 0; i < N; i++) {
            REQUIRE(mapped[at + i] == input[i]);
            sum = sum * 31 + mapped[at + i];
        }
        memset(mapped + at, 0, N * sizeof(int));
    }
    REQUIRE(called == (argc > 3 ? rounds : 0));
    printf("%u\n", sum);
    return 0;
}
