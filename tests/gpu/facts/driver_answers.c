// What the driver answers where the simulated one had answered otherwise: memory that outlives graphs, pools of
// limited size, attributes of batches, versions of functions, the FIFO of printf
#include "tell.h"
#include <time.h>

static void tell_graph_memory(const char *when)
{
    cuuint64_t values[4];
    int i;

    for (i = 0; i < 4; i++)
        CHECK(cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)i, &values[i]));
    printf("%-40s used %llu, at most %llu, reserved %llu, at most %llu\n", when, (unsigned long long)values[0],
           (unsigned long long)values[1], (unsigned long long)values[2], (unsigned long long)values[3]);
}

static void graphs(CUstream stream)
{
    enum { BYTES = 8 << 20 };
    CUdeviceptr kept, scratch;
    CUgraphExec instance;
    CUgraph graph;
    unsigned word = 0;

    tell_graph_memory("before");
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(&kept, BYTES, stream));
    CHECK(cuMemAllocAsync(&scratch, BYTES, stream));
    CHECK(cuMemsetD32Async(scratch, 1, BYTES / 4, stream));
    CHECK(cuMemsetD32Async(kept, 7, BYTES / 4, stream));
    CHECK(cuMemFreeAsync(scratch, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    TELL(cuGraphInstantiate(&instance, graph, 0));
    tell_graph_memory("instantiated");
    TELL(cuGraphLaunch(instance, stream));
    TELL(cuGraphLaunch(instance, stream));
    CHECK(cuStreamSynchronize(stream));
    tell_graph_memory("launched");
    CHECK(cuGraphExecDestroy(instance));
    CHECK(cuGraphDestroy(graph));
    tell_graph_memory("destroyed");
    TELL(cuMemcpyDtoH(&word, kept, 4));
    printf("%u\n", word);
    TELL(cuDeviceGraphMemTrim(0));
    tell_graph_memory("trimmed");
    TELL(cuMemFreeAsync(kept, stream));
    CHECK(cuStreamSynchronize(stream));
    tell_graph_memory("freed");
    TELL(cuDeviceGraphMemTrim(0));
    tell_graph_memory("trimmed");
    TELL(cuMemFreeAsync(kept, stream));
    TELL(cuMemFree(kept));
}

static void pools(CUstream stream)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    static const size_t most[] = {1 << 20, 3 << 20, 64 << 20};
    CUdeviceptr memory;
    CUmemoryPool pool;
    CUresult result;
    unsigned i;

    for (i = 0; i < 3; i++) {
        size_t size, piece = most[i] / 4 + 512, taken = 0;

        properties.maxSize = most[i];
        CHECK(cuMemPoolCreate(&pool, &properties));
        for (size = 512; size < 512 << 20 && !(result = cuMemAllocFromPoolAsync(&memory, size, pool, stream)); size *= 2)
            CHECK(cuMemFreeAsync(memory, stream)), CHECK(cuStreamSynchronize(stream));
        printf("a pool of %zu bytes: one allocation of %zu is refused with %d\n", most[i], size, result);
        while (taken < 1000 && !(result = cuMemAllocFromPoolAsync(&memory, piece, pool, stream)))
            taken++;
        printf("and of %zu bytes each %zu are had (%d)\n", piece, taken, result);
        CHECK(cuMemPoolDestroy(pool));
    }
}

static void batches(CUstream stream)
{
    CUmemcpyAttributes how[3] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                 {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                 {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
    CUmemcpyAttributes invalid = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID}, flags = how[0];
    size_t sizes[2] = {512, 512}, first[3] = {0, 1, 2}, one = 1, same[2] = {0, 0}, far[2] = {0, 2};
    CUdeviceptr from[2], to[2];

    from[0] = allocate(4096);
    from[1] = from[0] + 512, to[0] = from[0] + 1024, to[1] = from[0] + 2048;
    flags.flags = 6;
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, first, 2, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, &one, 1, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, first, 0, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, NULL, NULL, 0, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, first, 3, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, same, 2, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, how, far, 2, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, &invalid, first, 1, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 2, &flags, first, 1, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 0, how, first, 1, stream));
    TELL(cuMemcpyBatchAsync(to, from, sizes, 0, how, first, 0, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void ask(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
    void *function = &function;
    CUresult result = cuGetProcAddress_v2(name, &function, version, flags, &status);

    printf("%-26s version %5d flags %d: result %d, status %d, %s\n", name, version, (int)flags, (int)result, (int)status,
           !function ? "nothing" : function == &function ? "left alone" : "a function");
}

static void versions(void)
{
    static const char *const names[] = {"", "cuNoSuchFunction", "cuMemAlloc_v2", "cuLaunchKernel_ptsz", "cuMemAlloc", "cuGraphAddNode",
                                        "cuKernelGetLibrary", "cuMemAllocAsync", "cuLaunchKernel"};
    static const int all[] = {0, 1000, 2000, 3010, 3020, 6050, 11010, 12010, 12020, 12050, 13000, 13050, 20000};
    unsigned name, version;

    for (name = 0; name < sizeof names / sizeof *names; name++)
        for (version = 0; version < sizeof all / sizeof *all; version++)
            ask(names[name], all[version], 0);
    ask("cuLaunchKernel", 6050, 2);
    ask("cuLaunchKernel", 13000, 3);
    ask("cuLaunchKernel", 13000, 4);
}

// Lines beyond its room are lost: which, and what the limit is
static void printing(void)
{
    int value = 5;
    size_t size;

    CHECK(cuCtxGetLimit(&size, CU_LIMIT_PRINTF_FIFO_SIZE));
    printf("the printf FIFO has %zu bytes\n", size);
    TELL(cuCtxSetLimit((CUlimit)77, 1));
    TELL(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 32768));
    CHECK(cuCtxGetLimit(&size, CU_LIMIT_PRINTF_FIFO_SIZE));
    printf("the printf FIFO has %zu bytes\n", size);
    CUmodule module = load_module("printing");
    TELL(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 40000));
    CHECK(cuCtxGetLimit(&size, CU_LIMIT_PRINTF_FIFO_SIZE));
    printf("the printf FIFO has %zu bytes; 3000 blocks print two numbers each, then 3:\n", size);
    CUfunction speak = find_kernel(module, "speak");
    CUdeviceptr memory = allocate(3000 * sizeof(int));
    fflush(stdout);
    launch(speak, 3000, 1, (void *[]){&memory, &value});
    TELL(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20));
    CHECK(cuCtxSynchronize());
    launch(speak, 3, 1, (void *[]){&memory, &value});
    CHECK(cuCtxSynchronize());
}

static void streams(void)
{
    static CUstream all[16000];
    struct timespec times[3];
    int count, i;

    for (count = 4000; count <= 16000; count *= 2) {
        clock_gettime(CLOCK_MONOTONIC, &times[0]);
        for (i = 0; i < count; i++)
            CHECK(cuStreamCreate(&all[i], CU_STREAM_DEFAULT)), CHECK(cuStreamQuery(NULL));
        clock_gettime(CLOCK_MONOTONIC, &times[1]);
        for (i = 0; i < count; i++)
            CHECK(cuStreamDestroy(all[i]));
        clock_gettime(CLOCK_MONOTONIC, &times[2]);
        printf("%d streams made in %.3f s, destroyed in %.3f s\n", count,
               times[1].tv_sec - times[0].tv_sec + (times[1].tv_nsec - times[0].tv_nsec) / 1e9,
               times[2].tv_sec - times[1].tv_sec + (times[2].tv_nsec - times[1].tv_nsec) / 1e9);
    }
}

int main(void)
{
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    graphs(stream);
    pools(stream);
    batches(stream);
    versions();
    printing();
    streams();
    return 0;
}
