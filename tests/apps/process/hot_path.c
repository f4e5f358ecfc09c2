// argv[2] calls of the kind argv[1], between two breakpoints of whoever counts their instructions: at the first, rdi is a list of the
// functions that allocate, ended by 0
#include "check.h"
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

static void *const allocating[] = {(void *)malloc, (void *)calloc, (void *)realloc, (void *)posix_memalign, (void *)aligned_alloc,
                                   (void *)free, NULL};

#define BREAK() __asm__ volatile("int3" ::"D"(allocating) : "memory")

// Some before, so that all is there that a first call makes
#define COUNTED(call)                                                                                                                  \
    do {                                                                                                                               \
        for (int i = 0; i < 32; i++)                                                                                                   \
            call;                                                                                                                      \
        BREAK();                                                                                                                       \
        for (int i = 0; i < times; i++)                                                                                                \
            call;                                                                                                                      \
        BREAK();                                                                                                                       \
    } while (0)

static void CUDA_CB nothing(void *data) { (void)data; }

int main(int argc, char **argv)
{
    CUcontext found;
    CUdevice device;
    CUstream stream, held;
    CUevent event;
    CUdeviceptr flag;
    void *pinned;

    REQUIRE(argc == 3);
    const char *kind = argv[1];
    int times = atoi(argv[2]);
    start_driver();
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr a = allocate(1024), b = allocate(1024), c = allocate(1024);
    unsigned n = 1;
    void *arguments[] = {&a, &b, &c, &n};
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (!strcmp(kind, "same query"))
        COUNTED(cuCtxGetCurrent(&found));
    if (!strcmp(kind, "queries in turn"))
        COUNTED(i % 2 ? cuCtxGetCurrent(&found) : cuCtxGetDevice(&device));
    if (!strcmp(kind, "poll, done"))
        COUNTED(cuStreamQuery(stream));
    if (!strcmp(kind, "poll, not done")) {
        flag = allocate(4);
        CHECK(cuMemsetD32(flag, 0, 1));
        CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamWaitValue32(held, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        COUNTED(EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(held)));
        CHECK(cuMemsetD32(flag, 1, 1));
    }
    if (!strcmp(kind, "event"))
        COUNTED(cuEventRecord(event, stream));
    if (!strcmp(kind, "launch"))
        COUNTED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    if (!strcmp(kind, "launch while capturing")) {
        CUgraph graph;
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        COUNTED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
    }
    if (!strcmp(kind, "launch by a description")) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
        CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
        COUNTED(cuLaunchKernelEx(&config, function, arguments, NULL));
    }
    if (!strcmp(kind, "queries between launches"))
        COUNTED(i % 4 == 0   ? cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL)
                : i % 4 == 1 ? cuCtxGetCurrent(&found)
                             : cuCtxGetDevice(&device));
    if (!strncmp(kind, "launch", 6) && strstr(kind, "beside pinned memory")) {
        CHECK(cuMemAllocHost(&pinned, 1 << 20));
        // Not on the stack
        static CUdeviceptr memory;
        static unsigned count = 1;
        static void *elsewhere[] = {&memory, &memory, &memory, &count};
        memory = a;
        void **given = strstr(kind, "static") ? elsewhere : arguments;
        COUNTED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, given, NULL));
    }
    if (!strcmp(kind, "node parameters")) {
        CUDA_KERNEL_NODE_PARAMS params = {.func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                          .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments};
        CUgraphExec executable;
        CUgraphNode node;
        CUgraph graph;
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
        CHECK(cuGraphInstantiate(&executable, graph, 0));
        COUNTED(cuGraphExecKernelNodeSetParams(executable, node, &params));
    }
    if (!strcmp(kind, "pageable copy behind a host node")) {
        static char pageable[64];
        CUDA_HOST_NODE_PARAMS params = {nothing, NULL};
        CUgraphExec executable;
        CUgraphNode node;
        CUgraph graph;
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
        CHECK(cuGraphInstantiate(&executable, graph, 0));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        COUNTED(cuMemcpyHtoDAsync(a, pageable, sizeof pageable, stream));
    }
    if (!strcmp(kind, "launch behind a fork")) {
        for (int i = 0; i < 4; i++) {
            CHECK(cuMemAllocHost(&pinned, 4096));
            c = (CUdeviceptr)pinned;
            CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
        pid_t child = fork();
        if (!child)
            _exit(0);
        REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
        BREAK();
        for (int i = 0; i < times; i++)
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
        BREAK();
    }
    return 0;
}
