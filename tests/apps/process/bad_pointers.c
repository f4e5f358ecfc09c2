// Hands the driver a bad host pointer, in the call that argv[1] names, and prints what the driver makes of it
#include "check.h"

#define BAD ((void *)0x10)

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    CUdeviceptr memory, *nowhere = BAD;
    CUresult result = CUDA_SUCCESS;
    CUgraphNode node;
    void *pinned;
    CUfunction function;
    CUmodule module;
    void *arguments[4] = {&memory, BAD, &memory, NULL};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, BAD, CU_LAUNCH_PARAM_BUFFER_SIZE, BAD, CU_LAUNCH_PARAM_END};

    start_driver();
    CHECK(cuMemAlloc(&memory, 1 << 20));
    // From here on arguments are looked at before the driver sees them
    CHECK(cuMemAllocHost(&pinned, 4096));
    module = load_module("vector_add");
    function = find_kernel(module, "vector_add");
    printf("%s:", what);
    fflush(stdout);
    if (!strcmp(what, "copy from null"))
        result = cuMemcpyHtoD(memory, NULL, 64);
    if (!strcmp(what, "copy from nowhere"))
        result = cuMemcpyHtoD(memory, BAD, 64);
    if (!strcmp(what, "copy to nowhere"))
        result = cuMemcpyDtoH(BAD, memory, 64);
    if (!strcmp(what, "asynchronous copy from nowhere"))
        result = cuMemcpyHtoDAsync(memory, BAD, 64, NULL);
    if (!strcmp(what, "copy beyond the end"))
        result = cuMemcpyDtoH(malloc(4 << 20), memory, 4 << 20);
    if (!strcmp(what, "result to null"))
        result = cuMemAlloc(NULL, 64);
    if (!strcmp(what, "result to nowhere"))
        result = cuMemAlloc(nowhere, 64);
    if (!strcmp(what, "name null"))
        result = cuModuleGetFunction(&function, module, NULL);
    if (!strcmp(what, "name nowhere"))
        result = cuModuleGetFunction(&function, module, BAD);
    if (!strcmp(what, "image null"))
        result = cuModuleLoadData(&module, NULL);
    if (!strcmp(what, "image nowhere"))
        result = cuModuleLoadData(&module, BAD);
    if (!strcmp(what, "struct null"))
        result = cuMemcpy2D(NULL);
    if (!strcmp(what, "struct nowhere"))
        result = cuMemcpy2D(BAD);
    if (!strcmp(what, "arguments null"))
        result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (!strcmp(what, "arguments nowhere"))
        result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, BAD, NULL);
    if (!strcmp(what, "arguments at the end of memory"))
        result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void **)-8, NULL);
    if (!strcmp(what, "host function null"))
        result = cuLaunchHostFunc(NULL, NULL, BAD);
    if (!strcmp(what, "host node nowhere"))
        result = cuGraphAddHostNode(&node, NULL, NULL, 0, BAD);
    if (!strcmp(what, "an argument nowhere"))
        result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    if (!strcmp(what, "packed arguments nowhere"))
        result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
    if (!strcmp(what, "configuration nowhere"))
        result = cuLaunchKernelEx(BAD, function, arguments, NULL);
    if (!strcmp(what, "arguments nowhere of a refused launch"))
        result = cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, BAD, NULL);
    if (!strcmp(what, "handle nowhere"))
        result = cuStreamSynchronize(BAD + 0x1000);
    printf(" %d\n", (int)result);
    CHECK(cuMemFree(memory));
    return 0;
}
