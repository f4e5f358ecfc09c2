// Kernels bring results to slots of one piece of mapped memory, launches always under way; the CPU takes each and puts back what was there
#include "check.h"

enum { WORDS = 1024, SLOTS = 16, ROUNDS = 32 };

int main(void)
{
    unsigned words = WORDS, rounds = 30000, sum = 0, *memory, *part[SLOTS];
    CUstream stream;
    CUevent done[SLOTS];

    start_driver();
    CUfunction pass = find_kernel(load_module("memory"), "pass"), busy = find_kernel(load_module("faults"), "busy");
    CUdeviceptr slot = allocate(sizeof(int));
    CHECK(cuMemHostAlloc((void **)&memory, SLOTS * WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0xcc, SLOTS * WORDS * 4);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUlaunchConfig config = {.gridDimX = WORDS / 128, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
    for (int i = 0; i < SLOTS; i++) {
        part[i] = memory + i * WORDS;
        CHECK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
    }
    for (int ahead = 1; ahead < SLOTS; ahead += 11) {
        for (int round = 0; round < ROUNDS + ahead; round++) {
            if (round < ROUNDS) {
                CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &slot}, NULL));
                CHECK(cuLaunchKernelEx(&config, pass, (void *[]){&part[round % SLOTS], &words}, NULL));
                CHECK(cuEventRecord(done[round % SLOTS], stream));
            }
            if (round >= ahead) {
                unsigned *taken = part[(round - ahead) % SLOTS];
                CHECK(cuEventSynchronize(done[(round - ahead) % SLOTS]));
                for (int i = 0; i < WORDS; i++)
                    sum = sum * 31 + taken[i];
                memset(taken, 0xcc, WORDS * 4);
            }
        }
        CHECK(cuStreamSynchronize(stream));
    }
    printf("%u\n", sum);
    return 0;
}
