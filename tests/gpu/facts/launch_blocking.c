// What has ended when it returns, where CUDA_LAUNCH_BLOCKING is 1 from the beginning
#include "../../apps/check.h"

// Takes a while, and leaves its mark
static const char *CODE =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry slow(.param .u64 out, .param .u64 cycles) {\n"
    " .reg .u64 %rd<6>; .reg .pred %p;\n"
    " ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [cycles]; mov.u64 %rd3, %clock64;\n"
    "again: mov.u64 %rd4, %clock64; sub.u64 %rd5, %rd4, %rd3; setp.lt.u64 %p, %rd5, %rd2; @%p bra again;\n"
    " st.global.u64 [%rd1], %rd2; ret; }\n";

enum { LARGE = 256 << 20 };

static CUstream stream, other;
static CUfunction slow;
static CUdeviceptr out, device, more;

static void launch_on(CUstream on, unsigned long long cycles)
{
    CHECK(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, on, (void *[]){&out, &cycles}, NULL));
}

static void say(const char *what)
{
    printf("%-56s its stream is %s\n", what, cuStreamQuery(stream) == CUDA_SUCCESS ? "done" : "at work");
    CHECK(cuCtxSynchronize());
}

static void CUDA_CB nothing(void *data)
{
    for (volatile int i = 0; i < 200000000; i++)
        ;
}

static CUgraphExec captured(int with_launch)
{
    CUgraph graph;
    CUgraphExec executable;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (with_launch)
        launch_on(stream, 200000000);
    CHECK(cuMemcpyDtoDAsync(more, device, LARGE, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    return executable;
}

int main(void)
{
    CUmodule module;
    CUgraphExec kernel_graph, copy_graph;
    unsigned char *pinned;
    CUevent event;

    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    start_driver();
    CHECK(cuModuleLoadData(&module, CODE));
    slow = find_kernel(module, "slow");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&pinned, LARGE, 0));
    out = allocate(64), device = allocate(LARGE), more = allocate(LARGE);
    kernel_graph = captured(1);
    copy_graph = captured(0);
    CHECK(cuCtxSynchronize());

    launch_on(stream, 200000000), say("cuLaunchKernel");
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
    unsigned long long cycles = 200000000;
    CHECK(cuLaunchKernelEx(&config, slow, (void *[]){&out, &cycles}, NULL)), say("cuLaunchKernelEx");
    CHECK(cuLaunchCooperativeKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&out, &cycles})), say("cuLaunchCooperativeKernel");
    CHECK(cuGraphLaunch(kernel_graph, stream)), say("cuGraphLaunch, a kernel and a copy");
    CHECK(cuGraphLaunch(copy_graph, stream)), say("cuGraphLaunch, a copy");
    CHECK(cuMemcpyHtoDAsync(device, pinned, LARGE, stream)), say("cuMemcpyHtoDAsync, pinned");
    CHECK(cuMemcpyDtoHAsync(pinned, device, LARGE, stream)), say("cuMemcpyDtoHAsync, pinned");
    CHECK(cuMemcpyDtoDAsync(more, device, LARGE, stream)), say("cuMemcpyDtoDAsync");
    CHECK(cuMemsetD8Async(device, 1, LARGE, stream)), say("cuMemsetD8Async");
    CHECK(cuLaunchHostFunc(stream, nothing, NULL)), say("cuLaunchHostFunc");

    // A launch behind what another stream is at: whom does it wait for?
    CHECK(cuLaunchHostFunc(other, nothing, NULL));
    launch_on(stream, 1000);
    printf("%-56s the other stream is %s\n", "cuLaunchKernel beside another stream's callback",
           cuStreamQuery(other) == CUDA_SUCCESS ? "done" : "at work");
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchHostFunc(stream, nothing, NULL));
    launch_on(stream, 1000), say("cuLaunchKernel behind a callback");
    return 0;
}
