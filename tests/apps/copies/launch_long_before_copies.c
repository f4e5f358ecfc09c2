// A launch that takes its time and waits for nobody is given pinned words; that copies behind it are done the CPU sees by what they bring, and then
// it writes the words and what the copies had read
#include "check.h"

enum { WORDS = 2000, TURNS = 2 };

int main(void)
{
    unsigned *words, *source, rounds = 30000000, i;
    volatile unsigned *seen;
    CUdeviceptr data, log;
    CUfunction busy, add_two;
    CUstream stream;
    unsigned all[TURNS][WORDS];
    int n = WORDS * TURNS;

    start_driver();
    CUmodule module = load_module("faults");
    busy = find_kernel(module, "busy"), add_two = find_kernel(module, "add_two");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostAlloc((void **)&source, sizeof *all, 0));
    CHECK(cuMemHostAlloc((void **)&seen, sizeof *all, 0));
    memset(words, 0, 4096), memset((void *)seen, 0, sizeof *all);
    data = allocate(sizeof *all), log = allocate(sizeof all);
    for (i = 1; i <= TURNS; i++) {
        for (int word = 0; word < WORDS; word++)
            source[word] = word * 7 + i;
        words[1] = i;
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&rounds, &words}, NULL));
        CHECK(cuMemcpyHtoDAsync(data, source, sizeof *all, stream));
        CHECK(cuMemcpyDtoDAsync(log + (i - 1) * sizeof *all, data, sizeof *all, stream));
        CHECK(cuMemcpyDtoHAsync((void *)seen, data, sizeof *all, stream));
        while (seen[WORDS - 1] != (WORDS - 1) * 7 + i)
            ;
    }
    CHECK(cuLaunchKernel(add_two, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){&log, &n}, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(all, log, sizeof all));
    for (i = 0; i < TURNS; i++)
        REQUIRE(all[i][10] == 70 + i + 1 + 2);
    printf("%u %u\n", words[0], all[TURNS - 1][10]);
    return 0;
}
