// A child, on the second device, whose kernel waits for a flag in its parent's memory: the parent sets it if memory that it
// never wrote holds zeros
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry set(.param .u64 p_flag, .param .u64 p_word)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<3>;\n    .reg .b64 %rd<3>;\n"
    "    ld.param.u64 %rd1, [p_flag];\n    ld.param.u64 %rd2, [p_word];\n    ld.global.u32 %r1, [%rd2];\n"
    "    setp.eq.u32 %p1, %r1, 0;\n    selp.u32 %r2, 1, 0, %p1;\n    st.volatile.global.u32 [%rd1], %r2;\n    ret;\n}\n"
    ".visible .entry wait(.param .u64 p_flag)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<2>;\n    .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd1, [p_flag];\n"
    "SPIN:\n    ld.volatile.global.u32 %r1, [%rd1];\n    setp.eq.u32 %p1, %r1, 0;\n    @%p1 bra SPIN;\n    ret;\n}\n";

static CUmodule start_on(int number)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, number));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, kernels));
    return module;
}

static int child(int from, int to)
{
    CUipcMemHandle handle;
    CUdeviceptr flag;
    unsigned found;
    CUfunction wait;

    setenv("RANK", "1", 1);
    wait = find_kernel(start_on(1), "wait");
    REQUIRE(read(from, &handle, sizeof handle) == sizeof handle);
    CHECK(cuIpcOpenMemHandle(&flag, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    launch(wait, 1, 1, (void *[]){&flag});
    REQUIRE(write(to, "w", 1) == 1);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(&found, flag, sizeof found));
    CHECK(cuIpcCloseMemHandle(flag));
    return found;
}

int main(void)
{
    int there[2], back[2], status;
    CUipcMemHandle handle;
    CUdeviceptr flag, word;
    unsigned found;
    CUfunction set;
    pid_t pid;
    char is_waiting;

    setenv("WORLD_SIZE", "2", 1);
    REQUIRE(!pipe(there) && !pipe(back));
    pid = fork();
    if (!pid)
        exit(child(there[0], back[1]));
    setenv("RANK", "0", 1);
    set = find_kernel(start_on(0), "set");
    flag = allocate(4096);
    word = allocate(4096);
    CHECK(cuMemsetD8(flag, 0, 4096));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handle, flag));
    REQUIRE(write(there[1], &handle, sizeof handle) == sizeof handle);
    REQUIRE(read(back[0], &is_waiting, 1) == 1);
    // What was put before the child's kernel has been done by then.
    usleep(200000);
    // Before the child can go on: that this differs is known by then.
    CHECK(cuMemcpyDtoH(&found, word, sizeof found));
    launch(set, 1, 1, (void *[]){&flag, &word});
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK(cuMemcpyDtoH(&found, flag, sizeof found));
    printf("%u %d\n", found, WEXITSTATUS(status));
    return 0;
}
