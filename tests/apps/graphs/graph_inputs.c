// A graph whose copies and kernels read host memory, which the CPU changes between its launches
#include "check.h"

enum { N = 512 };

int main(void)
{
    int *pageable = malloc(N * sizeof(int)), *copied, *mapped, results[2][N], n = N, round, i;
    CUdeviceptr one, other;
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    one = allocate(N * sizeof(int));
    other = allocate(N * sizeof(int));
    CUdeviceptr third = allocate(N * sizeof(int));
    CHECK(cuMemAllocHost((void **)&copied, N * sizeof(int)));
    CHECK(cuMemAllocHost((void **)&mapped, N * sizeof(int)));
    memset(pageable, 1, N * sizeof(int));
    memset(copied, 2, N * sizeof(int));
    memset(mapped, 3, N * sizeof(int));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyHtoDAsync(one, copied, N * sizeof(int), stream));
    CHECK(cuMemcpyHtoDAsync(one, pageable, 0, stream));
    CHECK(cuLaunchKernel(take, 4, 1, 1, N / 4, 1, 1, 0, stream, (void *[]){&other, &mapped, &n}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CUDA_MEMCPY3D node = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pageable, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = third, .WidthInBytes = N * sizeof(int), .Height = 1, .Depth = 1};
    CUgraphNode added;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphAddMemcpyNode(&added, graph, NULL, 0, &node, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (round = 0; round < 3; round++) {
        for (i = 0; i < N; i += 1 + 7 * round) {
            pageable[i] = 100 * round + i;
            copied[i] = 200 * round + i;
            mapped[i] = 300 * round + i;
        }
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(results[0], one, sizeof results[0]));
        CHECK(cuMemcpyDtoH(results[1], other, sizeof results[1]));
        for (i = 0; i < N; i++)
            REQUIRE(results[0][i] == copied[i] && results[1][i] == mapped[i]);
        CHECK(cuMemcpyDtoH(results[0], third, sizeof results[0]));
        for (i = 0; i < N; i++)
            REQUIRE(results[0][i] == pageable[i]);
    }
    printf("%d %d\n", results[0][N - 1], results[1][N - 1]);
    return 0;
}
