// Which waits cover which work, and what the driver says of an address: facts that shim/src/pending.rs and ask.rs rest on
#include "../../apps/check.h"
#include <sys/mman.h>
#include <time.h>

static const char *spin = ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry spin(.param .u64 ns){.reg .u64 %r<4>;.reg .pred %p;\n"
    "ld.param.u64 %r1,[ns];mov.u64 %r2,%globaltimer;\n"
    "L:mov.u64 %r3,%globaltimer;sub.u64 %r3,%r3,%r2;setp.lt.u64 %p,%r3,%r1;@%p bra L;ret;}\n";
static CUfunction kernel;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void busy(CUstream stream)
{
    cuuint64_t ns = 60000000;
    void *arguments[] = {&ns};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void waits(const char *what, CUstream worker, CUstream waiter)
{
    busy(worker);
    CUresult query = cuStreamQuery(waiter);
    double start = now();
    CHECK(cuStreamSynchronize(waiter));
    printf("%-52s query %3d, synchronize %5.1f ms\n", what, query, now() - start);
    CHECK(cuCtxSynchronize());
}

static void asks(const char *what, CUdeviceptr address)
{
    unsigned type = 0xdeadbeef, managed = 0xdeadbeef;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *where[] = {&type, &managed};
    CUresult result = cuPointerGetAttributes(2, which, where, address);
    unsigned single = 0xdeadbeef;
    CUresult one = cuPointerGetAttribute(&single, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    printf("%-24s attributes %d: type %x managed %x; attribute %d: type %x\n", what, result, type, managed, one, single);
}

int main(void)
{
    CUmodule module;
    CUstream blocking, other, free_running;
    CUdeviceptr device, managed;
    void *pinned, *mapped;

    start_driver();
    CHECK(cuModuleLoadData(&module, spin));
    kernel = find_kernel(module, "spin");
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    busy(NULL);
    CHECK(cuCtxSynchronize());
    waits("legacy waits for work of legacy", NULL, NULL);
    waits("legacy (0) for a blocking stream", blocking, NULL);
    waits("legacy (handle 1) for a blocking stream", blocking, CU_STREAM_LEGACY);
    waits("legacy for a non-blocking stream", free_running, NULL);
    waits("legacy for the per-thread stream", CU_STREAM_PER_THREAD, NULL);
    waits("blocking stream for legacy", NULL, blocking);
    waits("blocking stream for another blocking stream", other, blocking);
    waits("per-thread for legacy", NULL, CU_STREAM_PER_THREAD);
    waits("per-thread for a blocking stream", blocking, CU_STREAM_PER_THREAD);
    waits("non-blocking for legacy", NULL, free_running);
    CHECK(cuMemAlloc(&device, 4096));
    CHECK(cuMemAllocHost(&pinned, 4096));
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *heap = malloc(64);
    asks("device", device);
    asks("pinned", (CUdeviceptr)pinned);
    asks("managed", managed);
    asks("heap", (CUdeviceptr)heap);
    asks("stack", (CUdeviceptr)&heap);
    asks("fresh mapping", (CUdeviceptr)mapped);
    asks("nothing there", 0x1000);
    busy(blocking);
    double start = now();
    asks("pinned, device busy", (CUdeviceptr)pinned);
    asks("heap, device busy", (CUdeviceptr)heap);
    printf("asked in %.3f ms\n", now() - start);
    return 0;
}
