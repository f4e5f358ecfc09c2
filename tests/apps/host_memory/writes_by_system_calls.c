// Memory that the device reads, written by others than the program's own stores: by system calls, by a process that shares it
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1024, BYTES = N * sizeof(int) };

static int deeper(int levels)
{
    volatile char room[4096];

    room[0] = (char)levels;
    return levels ? deeper(levels - 1) + room[0] - (char)levels : 0;
}

int main(void)
{
    int *pinned, *shared, *nameless, results[N], values[N], on_stack[16] = {1}, n = N, ends[2], round, i;
    int file = memfd_create("shared", 0);
    pid_t child;
    CUcontext context = start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr memory = allocate(BYTES);
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;

    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    REQUIRE(!ftruncate(file, BYTES));
    shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(cuMemHostRegister(shared, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    nameless = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cuMemHostRegister(nameless, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    REQUIRE(!pipe(ends));
    for (round = 0; round < 3; round++) {
        for (i = 0; i < N; i++)
            values[i] = 1000 * round + i;
        REQUIRE(write(ends[1], values, BYTES) == BYTES && read(ends[0], pinned, BYTES) == BYTES);
        launch(take, N / 128, 128, (void *[]){&memory, &pinned, &n});
        CHECK(cuMemcpyDtoH(results, memory, BYTES));
        REQUIRE(!memcmp(results, values, BYTES));

        REQUIRE(pwrite(file, values, BYTES, 0) == BYTES);
        values[5] = -round;
        REQUIRE(pwrite(file, &values[5], sizeof(int), 5 * sizeof(int)) == sizeof(int));
        launch(take, N / 128, 128, (void *[]){&memory, &shared, &n});
        CHECK(cuMemcpyDtoH(results, memory, BYTES));
        REQUIRE(!memcmp(results, values, BYTES));

        child = fork();
        if (!child) {
            for (i = 0; i < N; i++)
                nameless[i] = 2000 * round + i;
            _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
        launch(take, N / 128, 128, (void *[]){&memory, &nameless, &n});
        CHECK(cuMemcpyDtoH(results, memory, BYTES));
        REQUIRE(results[N - 1] == 2000 * round + N - 1);
    }

    // A node's source on the stack, which grows past it
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = on_stack, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = memory, .WidthInBytes = sizeof on_stack, .Height = 1, .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    REQUIRE(deeper(1000) == 0);
    on_stack[3] = 77;
    child = fork();
    if (!child) {
        on_stack[3] = 78;
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child && on_stack[3] == 77);
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(results, memory, sizeof on_stack));
    REQUIRE(results[3] == 77);
    printf("%d\n", results[0]);
    return 0;
}
