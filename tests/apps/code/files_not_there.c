// Loads files that are not there: what is there when the trace is replayed is not the program's
#include "check.h"

int main(void)
{
    CUmodule module;
    CUlibrary library;
    CUlinkState linker;

    start_driver();
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "later.ptx"));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuLibraryLoadFromFile(&library, "later.ptx", NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLinkCreate(0, NULL, NULL, &linker));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(linker, CU_JIT_INPUT_PTX, "later.ptx", 0, NULL, NULL));
    CHECK(cuLinkDestroy(linker));
    return 0;
}
