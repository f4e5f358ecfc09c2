// What the programs share that are written like those of a suite of samples: checks, a checksum, random numbers, times that nobody prints
#pragma once
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

#define checkCuda(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) { fprintf(stderr, "CUDA error at %s:%d: %s -> %s (%s)\n", \
    __FILE__, __LINE__, #call, cudaGetErrorName(e_), cudaGetErrorString(e_)); exit(2); } } while (0)
#define checkLaunch(what) do { cudaError_t e_ = cudaGetLastError(); if (e_ != cudaSuccess) { fprintf(stderr, "launch of %s failed: %s\n", \
    what, cudaGetErrorString(e_)); exit(2); } } while (0)
#define checkLib(call) do { int e_ = (int)(call); if (e_ != 0) { fprintf(stderr, "library error at %s:%d: %s -> %d\n", __FILE__, __LINE__, \
    #call, e_); exit(2); } } while (0)
#define iDivUp(a, b) (((a) + (b) - 1) / (b))

static unsigned long long checksum = 14695981039346656037ull;
static int wrong = 0;
static void digest(const void *data, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++) checksum = (checksum ^ p[i]) * 1099511628211ull;
}
static void report(const char *test, bool ok)
{
    printf("  %-44s %s\n", test, ok ? "PASSED" : "FAILED");
    if (!ok) wrong++;
}
static unsigned seed = 2025;
static unsigned nextRandom() { seed = seed * 1664525u + 1013904223u; return seed >> 8; }
static float frand() { return nextRandom() / 16777216.0f; }
struct EventTimer {
    cudaEvent_t begin, end; float ms;
    EventTimer() { checkCuda(cudaEventCreate(&begin)); checkCuda(cudaEventCreate(&end)); }
    ~EventTimer() { cudaEventDestroy(begin); cudaEventDestroy(end); }
    void start(cudaStream_t s = 0) { checkCuda(cudaEventRecord(begin, s)); }
    float stop(cudaStream_t s = 0) {
        checkCuda(cudaEventRecord(end, s)); checkCuda(cudaEventSynchronize(end)); checkCuda(cudaEventElapsedTime(&ms, begin, end)); return ms;
    }
};
static int findDevice()
{
    int count = 0; cudaDeviceProp prop;
    checkCuda(cudaGetDeviceCount(&count));
    if (count == 0) { fprintf(stderr, "no CUDA device\n"); exit(2); }
    checkCuda(cudaSetDevice(0));
    checkCuda(cudaGetDeviceProperties(&prop, 0));
    printf("GPU Device 0: \"%s\" with compute capability %d.%d\n", prop.name, prop.major, prop.minor);
    return 0;
}
#define FINISH(name) do { printf("%s: checksum %016llx wrong %d\n", name, checksum, wrong); return wrong != 0; } while (0)
