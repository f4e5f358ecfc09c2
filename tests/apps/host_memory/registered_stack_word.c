// One registered word on the stack, whose page the program writes all the time: a kernel works in place there, then the CPU, then the
// kernel again. With "flag" the kernel waits for what the CPU writes there
#include "check.h"

static const char code[] =
    ".version 7.8\n.target sm_75\n.address_size 64\n"
    ".visible .entry grow(.param .u64 word, .param .u32 by)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %d;\n"
    "ld.param.u64 %d, [word]; ld.param.u32 %r1, [by]; cvta.to.global.u64 %d, %d;\n"
    "ld.global.u32 %r2, [%d]; mad.lo.u32 %r3, %r2, 3, %r1; st.global.u32 [%d], %r3; ret;\n}\n";

// Writes the pages around the word
static unsigned __attribute__((noinline)) deep(unsigned n)
{
    volatile unsigned char room[700];

    memset((void *)room, n, sizeof room);
    return n ? deep(n - 1) + room[n % 700] : room[0];
}

static unsigned __attribute__((noinline)) grown(CUfunction kernel, CUstream stream, unsigned word, unsigned by, unsigned *noise)
{
    CUdeviceptr at;
    int turn;

    CHECK(cuMemHostRegister(&word, sizeof word, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, &word, 0));
    for (turn = 0; turn < 2; turn++) {
        *noise += deep(6);
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &by}, NULL));
        *noise += deep(3);
        CHECK(cuStreamSynchronize(stream));
        word = word * 2 + 1;
    }
    CHECK(cuMemHostUnregister(&word));
    return word;
}

static void __attribute__((noinline)) released(CUfunction kernel, CUstream stream)
{
    CUdeviceptr at, out = allocate(4);
    volatile int flag = 0;
    int result;

    CHECK(cuMemHostRegister((void *)&flag, sizeof flag, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, (void *)&flag, 0));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &out}, NULL));
    flag = 41;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemHostUnregister((void *)&flag));
    CHECK(cuMemcpyDtoH(&result, out, 4));
    REQUIRE(result == 42);
}

int main(int argc, char **argv)
{
    unsigned i, total = 0, noise = 0;
    CUfunction kernel;
    CUmodule module;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (argc > 1 && !strcmp(argv[1], "flag")) {
        released(find_kernel(load_module("faults"), "wait_for_host"), stream);
        return 0;
    }
    CHECK(cuModuleLoadData(&module, code));
    CHECK(cuModuleGetFunction(&kernel, module, "grow"));
    for (i = 0; i < 20; i++)
        total = total * 31 + grown(kernel, stream, i, 5 * i + 1, &noise);
    printf("%u, %u\n", total, noise);
    return 0;
}
