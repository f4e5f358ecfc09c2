// With CUDA_LAUNCH_BLOCKING a launch, of a kernel or a graph, has ended when it returns, and so has what was before it on its stream: nothing
// else is waited for. Results are looked at and written over, inputs written anew
#include "check.h"

enum { WORDS = 1024, ROUNDS = 6 };

int main(void)
{
    unsigned *copied, *mapped, *input, sum = 0, expected[WORDS];
    int n = WORDS, round, i;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;

    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    start_driver();
    CUmodule module = load_module("memory");
    CUfunction pass = find_kernel(module, "pass"), take = find_kernel(module, "take");
    CUdeviceptr data = allocate(WORDS * sizeof *copied);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&copied, WORDS * sizeof *copied, 0));
    CHECK(cuMemHostAlloc((void **)&mapped, WORDS * sizeof *mapped, 0));
    CHECK(cuMemHostAlloc((void **)&input, WORDS * sizeof *input, 0));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&data, &n}, NULL));
    CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&mapped, &data, &n}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    memset(mapped, 0, WORDS * sizeof *mapped);
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < WORDS; i++)
            input[i] = expected[i] = 1000 * round + i;
        CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&data, &input, &n}, NULL));
        memset(input, 0xff, WORDS * sizeof *input);
        CHECK(cuMemcpyDtoHAsync(copied, data, WORDS * sizeof *copied, stream));
        if (round % 2)
            CHECK(cuGraphLaunch(exec, stream));
        else {
            CHECK(cuLaunchKernel(pass, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&data, &n}, NULL));
            CHECK(cuLaunchKernel(take, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&mapped, &data, &n}, NULL));
        }
        for (i = 0; i < WORDS; i++) {
            REQUIRE(copied[i] == expected[i] && mapped[i] == expected[i] * 3 + i);
            sum = sum * 31 + copied[i] + mapped[i];
        }
        memset(copied, 0xee, WORDS * sizeof *copied);
        memset(mapped, 0xdd, WORDS * sizeof *mapped);
    }
    printf("%u\n", sum);
    return 0;
}
