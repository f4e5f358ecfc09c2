// Which sizes of packed arguments a launch takes: of kernels whose parameters end at 10, 12, 40 and 0 bytes, every size up to 64.
// Driver 580: from 1 byte on up to the end; 0 bytes are CUDA_ERROR_INVALID_VALUE unless there is no parameter, more are error 701
#include "tell.h"

static const char text[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry ends_at_10(.param .u64 a, .param .u16 b) { ret; }\n"
    ".visible .entry ends_at_12(.param .u64 a, .param .u32 b) { ret; }\n"
    ".visible .entry ends_at_40(.param .u32 a, .param .align 16 .b8 b[16], .param .u64 c) { ret; }\n"
    ".visible .entry ends_at_0() { ret; }\n";

int main(void)
{
    static const char *names[] = {"ends_at_10", "ends_at_12", "ends_at_40", "ends_at_0"};
    static char buffer[4096];
    CUmodule module;

    start_driver();
    CHECK(cuModuleLoadData(&module, text));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CUfunction function = find_kernel(module, names[i]);
        CUresult before = -1;

        for (size_t size = 0; size <= 64; size++) {
            void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
            CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
            const char *name;

            cuGetErrorName(result, &name);
            if (result != before)
                printf("%s: from %zu bytes on %s\n", names[i], size, name);
            before = result;
        }
    }
    TELL(cuCtxSynchronize());
    return 0;
}
