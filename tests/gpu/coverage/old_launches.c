// Launches before CUDA 4: the block and the arguments are put into the function, one by one. And of one grid on several devices.
#include "tell.h"

enum { N = 64 };

static CUdeviceptr memory;

static void see(void)
{
    int numbers[N];

    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(numbers, memory, sizeof numbers));
    printf("%d %d\n", numbers[1], numbers[N - 1]);
}

int main(void)
{
    CUfunction twice;
    CUtexref texture;
    CUstream stream;
    CUDA_LAUNCH_PARAMS grid;
    int numbers[N], n = N, i;
    void *arguments[] = {&memory, &n};

    start_driver();
    twice = find_kernel(load_module("faults"), "twice");
    memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD_v2(memory, numbers, sizeof numbers));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuFuncSetBlockShape(twice, N, 1, 1));
    TELL(cuFuncSetSharedSize(twice, 0));
    TELL(cuParamSetSize(twice, 12));
    TELL(cuParamSetv(twice, 0, &memory, sizeof memory));
    TELL(cuParamSeti(twice, 8, N));
    TELL(cuLaunch(twice));
    see();
    TELL(cuLaunchGrid(twice, 1, 1));
    see();
    TELL(cuLaunchGridAsync(twice, 1, 1, stream));
    see();
    // Half as many: the number's bits are those of a float here.
    TELL(cuParamSetf(twice, 8, 4.48415509e-44f));
    TELL(cuLaunch(twice));
    see();
    if (TELL(cuTexRefCreate(&texture)) == CUDA_SUCCESS) {
        TELL(cuParamSetTexRef(twice, CU_PARAM_TR_DEFAULT, texture));
        TELL(cuTexRefDestroy(texture));
    }

    memset(&grid, 0, sizeof grid);
    grid.function = twice;
    grid.gridDimX = grid.gridDimY = grid.gridDimZ = grid.blockDimY = grid.blockDimZ = 1;
    grid.blockDimX = N;
    grid.hStream = stream;
    grid.kernelParams = arguments;
    TELL(cuLaunchCooperativeKernelMultiDevice(&grid, 1, 0));
    see();
    return 0;
}
