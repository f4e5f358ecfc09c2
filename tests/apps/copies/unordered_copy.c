// A result that depends on an order that nothing keeps: a kernel on a non-blocking stream writes what a copy on the default stream
// reads at once. It takes long enough for the copy to come first ("copy"), or for a fill on another stream ("fill"). With "event",
// the fill waits for an event that was recorded before the kernel was launched, which orders nothing more. With "before" the fill
// comes first, and is over by the time the kernel writes
#include "check.h"

static const char code[] =
    ".version 7.8\n.target sm_75\n.address_size 64\n"
    ".visible .entry late(.param .u64 out, .param .u32 turns)\n{\n"
    ".reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d;\n"
    "ld.param.u64 %d, [out]; ld.param.u32 %r1, [turns]; cvta.to.global.u64 %d, %d; mov.u32 %r2, 0;\n"
    "again: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra again;\n"
    "st.global.u32 [%d], %r2; ret;\n}\n";

int main(int count, char **options)
{
    int turns = 3000000;
    CUstream work, other;
    CUfunction late;
    CUmodule module;
    CUevent early;
    int found;

    REQUIRE(count == 2);
    start_driver();
    CHECK(cuModuleLoadData(&module, code));
    CHECK(cuModuleGetFunction(&late, module, "late"));
    CHECK(cuStreamCreate(&work, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&early, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr memory = allocate(sizeof found);
    void *arguments[] = {&memory, &turns};
    CHECK(cuMemsetD32(memory, 7, 1));
    CHECK(cuCtxSynchronize());

    if (strcmp(options[1], "before") == 0)
        CHECK(cuMemsetD32Async(memory, 8, 1, other));
    CHECK(cuEventRecord(early, work));
    CHECK(cuLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, work, arguments, NULL));
    if (strcmp(options[1], "copy") == 0) {
        CHECK(cuMemcpyDtoH(&found, memory, sizeof found));
        REQUIRE(found == 7);
    } else if (strcmp(options[1], "before") != 0) {
        if (strcmp(options[1], "event") == 0)
            CHECK(cuStreamWaitEvent(other, early, 0));
        CHECK(cuMemsetD32Async(memory, 8, 1, other));
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(&found, memory, sizeof found));
    REQUIRE(found == turns);
    return 0;
}
