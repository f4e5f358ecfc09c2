// Six steps, of which the third and fourth are to be recorded. argv[1] says how the program tells; "killed" ends it so.
#include "../check.h"
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <unistd.h>

enum { N = 256, STEPS = 6, FIRST = 2, LAST = 3 };

static const char *way;
static volatile sig_atomic_t handled;
static nvtxRangeId_t range;

static void own_handler(int signal)
{
    (void)signal;
    handled++;
}

static int is(const char *name)
{
    return !strcmp(way, name);
}

static void begin(int step)
{
    if (is("push")) {
        nvtxRangePushA(step < FIRST || step > LAST ? "other" : "part");
        nvtxRangePushA("inner");
        nvtxRangePop();
    }
    if (step != FIRST)
        return;
    if (is("profiler"))
        CHECK(cuProfilerStart());
    if (is("start")) {
        nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
        nvtxEventAttributes_t about = {0};
        about.version = NVTX_VERSION;
        about.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        about.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        about.message.registered = nvtxDomainRegisterStringA(domain, "part");
        range = nvtxDomainRangeStartEx(domain, &about);
    }
    if (is("signals") || is("handled"))
        REQUIRE(!kill(getpid(), SIGUSR1));
}

static void end(int step)
{
    if (is("push"))
        nvtxRangePop();
    if (step != LAST)
        return;
    if (is("profiler"))
        CHECK(cuProfilerStop());
    if (is("start"))
        nvtxRangeEnd(range);
    if (is("signals"))
        REQUIRE(!kill(getpid(), SIGUSR2));
}

int main(int argc, char **argv)
{
    float a[N], b[N], *c;
    unsigned n = N;
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable = NULL;

    way = argc > 1 ? argv[1] : "";
    if (is("handled"))
        signal(SIGUSR1, own_handler);
    start_driver();
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    CUdeviceptr da = allocate(sizeof a), db = allocate(sizeof b), dc = allocate(sizeof a);
    void *arguments[] = {&da, &db, &dc, &n};
    CHECK(cuMemAllocHost((void **)&c, sizeof a));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (is("profiler")) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&executable, graph, 0));
    }
    for (int step = 0; step < STEPS; step++) {
        CUcontext current;
        for (int i = 0; i < N; i++)
            a[i] = i, b[i] = step;
        begin(step);
        CHECK(cuCtxGetCurrent(&current));
        CHECK(cuMemcpyHtoD(da, a, sizeof a));
        CHECK(cuMemcpyHtoD(db, b, sizeof b));
        if (executable)
            CHECK(cuGraphLaunch(executable, stream));
        else
            CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuMemcpyDtoHAsync(c, dc, sizeof a, stream));
        end(step);
        CHECK(cuStreamSynchronize(stream));
        for (int i = 0; i < N; i++)
            REQUIRE(c[i] == i + step);
        if (is("slow"))
            usleep(300000);
    }
    printf("%g %d\n", c[N - 1], (int)handled);
    fflush(stdout);
    if (argc > 2)
        raise(SIGKILL);
    return 0;
}
