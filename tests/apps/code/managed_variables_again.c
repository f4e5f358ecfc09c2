// Variables in managed memory whose module ends with its context, or is refused to be unloaded: the next may have the same handle and addresses
#include "check.h"

enum { N = 256 };

static void use(CUmodule module, CUfunction follow, unsigned first, int refused)
{
    CUdeviceptr factor, current, data = allocate(N * sizeof(unsigned)), managed;
    unsigned *memory, found[N];
    int n = N;

    CHECK(cuModuleGetGlobal(&factor, NULL, module, "factor"));
    CHECK(cuModuleGetGlobal(&current, NULL, module, "current"));
    CHECK(cuMemAllocManaged(&managed, N * sizeof *memory, CU_MEM_ATTACH_GLOBAL));
    memory = (unsigned *)managed;
    for (int i = 0; i < N; i++)
        memory[i] = i;
    for (int round = 0; round < 4; round++) {
        *(unsigned **)current = memory;
        *(unsigned *)factor = first + round;
        launch(follow, N / 64, 64, (void *[]){&data, &n});
        CHECK(cuMemcpyDtoH(found, data, sizeof found));
        REQUIRE(found[7] == 7 * (first + round));
        // A library's module is not the program's to unload.
        if (refused && round == 1 && cuModuleUnload(module) == CUDA_SUCCESS)
            return;
    }
    printf("%u\n", found[7]);
    CHECK(cuMemFree(data));
    CHECK(cuMemFree(managed));
}

int main(void)
{
    CUcontext primary = start_driver(), context;
    CUdevice device;
    CUlibrary library;
    CUmodule module;
    char path[1024];

    CHECK(cuDeviceGet(&device, 0));
    for (unsigned i = 0; i < 6; i++) {
        CHECK(cuCtxCreate(&context, NULL, 0, device));
        module = load_module("managed");
        use(module, find_kernel(module, "follow"), 10 * i, 0);
        CHECK(cuCtxDestroy(context));
        CHECK(cuCtxSetCurrent(primary));
        // Where the variables were there may be this, which is the device's alone.
        CUdeviceptr other = allocate(N);
        CHECK(cuMemsetD8(other, i, N));
        CHECK(cuMemFree(other));
    }
    snprintf(path, sizeof path, "%s/managed.ptx", getenv("KERNELS"));
    CHECK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetModule(&module, library));
    use(module, find_kernel(module, "follow"), 100, 1);
    CHECK(cuLibraryUnload(library));
    return 0;
}
