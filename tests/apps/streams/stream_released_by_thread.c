// A kernel that waits for a flag in device memory, a thread that waits for the kernel, and another that launches what sets the
// flag once the first one waits
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry set(.param .u64 p_flag)\n{\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd1, [p_flag];\n    mov.u32 %r1, 1;\n    st.volatile.global.u32 [%rd1], %r1;\n    ret;\n}\n"
    ".visible .entry wait(.param .u64 p_flag)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<2>;\n    .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd1, [p_flag];\n"
    "SPIN:\n    ld.volatile.global.u32 %r1, [%rd1];\n    setp.eq.u32 %p1, %r1, 0;\n    @%p1 bra SPIN;\n    ret;\n}\n";

static CUcontext context;
static CUfunction set;
static CUdeviceptr flag;
static CUstream other;

static void *releases(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    usleep(100000);
    CHECK(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, other, (void *[]){&flag}, NULL));
    CHECK(cuStreamSynchronize(other));
    return unused;
}

int main(void)
{
    unsigned found;
    pthread_t thread;
    CUmodule module;
    CUfunction wait;
    CUstream stream;

    context = start_driver();
    CHECK(cuModuleLoadData(&module, kernels));
    set = find_kernel(module, "set");
    wait = find_kernel(module, "wait");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    flag = allocate(4096);
    CHECK(cuMemsetD8(flag, 0, 4096));
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag}, NULL));
    REQUIRE(!pthread_create(&thread, NULL, releases, NULL));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(!pthread_join(thread, NULL));
    CHECK(cuMemcpyDtoH(&found, flag, sizeof found));
    printf("%u\n", found);
    return 0;
}
