// Shared by the client programs: they stop at the first result that is not the expected one.
#pragma once
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(wanted, call) check_result(call, wanted, #call, __FILE__, __LINE__)
#define CHECK(call) EXPECT(CUDA_SUCCESS, call)
#define REQUIRE(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

static inline void check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    exit(99);
}

static inline void check_result(CUresult result, CUresult wanted, const char *call, const char *file, int line)
{
    if (result == wanted)
        return;
    fprintf(stderr, "%s:%d: %s: result %d, expected %d\n", file, line, call, (int)result, (int)wanted);
    exit(99);
}

// Four calls: cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain, cuCtxSetCurrent
static inline CUcontext start_driver(void)
{
    CUdevice device;
    CUcontext context;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

// The file $KERNELS/<name>.ptx, ended with a zero
static inline char *read_kernels(const char *name)
{
    const char *directory = getenv("KERNELS");
    char path[4096];
    FILE *file;
    char *text;
    long size;

    if (!directory) {
        fprintf(stderr, "KERNELS must name the directory of the PTX files\n");
        exit(98);
    }
    snprintf(path, sizeof path, "%s/%s.ptx", directory, name);
    file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(98);
    }
    REQUIRE(!fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET));
    text = (char *)malloc(size + 1);
    REQUIRE(text && fread(text, 1, size, file) == (size_t)size);
    text[size] = 0;
    fclose(file);
    return text;
}

// One call: cuModuleLoadData
static inline CUmodule load_module(const char *name)
{
    CUmodule module;
    char *text = read_kernels(name);

    CHECK(cuModuleLoadData(&module, text));
    free(text);
    return module;
}

// One call that is recorded each time: cuCtxSetCurrent. Questions that repeat are only counted
static inline void call_once(CUcontext context)
{
    CHECK(cuCtxSetCurrent(context));
}

// One call: cuModuleGetFunction
static inline CUfunction find_kernel(CUmodule module, const char *name)
{
    CUfunction function;

    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

// One call: cuMemAlloc
static inline CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr memory;

    CHECK(cuMemAlloc(&memory, bytes));
    return memory;
}

// One call: cuLaunchKernel, in one dimension on the default stream
static inline void launch(CUfunction function, unsigned blocks, unsigned threads, void **arguments)
{
    CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
}
