// One of each thing that a report must find; what it finds is counted in tests/command/reporting.rs
#include "check.h"

enum { N = 1024, BYTES = N * sizeof(float) };

int main(void)
{
    CUdeviceptr memory, left, managed, pool;
    CUmodule again;
    CUfunction elsewhere;
    CUstream stream;
    float pageable[N], *pinned;
    unsigned n = N, i;

    start_driver();
    CUmodule module = load_module("vector_add");
    CUfunction function = find_kernel(module, "vector_add");
    CUdeviceptr a = allocate(BYTES), b = allocate(BYTES), c = allocate(BYTES);
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    // The same image twice in one context.
    char *text = read_kernels("vector_add");
    CHECK(cuModuleLoadData(&again, text));
    free(text);
    CHECK(cuModuleUnload(again));

    // To the same place: first, redundant, repeated after a launch, redundant once more, something else, first again.
    for (i = 0; i < N; i++)
        pageable[i] = pinned[i] = i;
    void *arguments[] = {&a, &b, &c, &n};
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    launch(function, N / 256, 256, arguments);
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    pageable[0] = -1;
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    pageable[0] = 0;
    CHECK(cuMemcpyHtoD(a, pageable, BYTES));
    // Pinned, asynchronous; filled over, so that it is not the same again.
    CHECK(cuMemcpyHtoDAsync(b, pinned, BYTES, stream));
    CHECK(cuMemsetD8Async(b, 0, BYTES, stream));
    CHECK(cuMemcpyHtoDAsync(b, pinned, BYTES, stream));
    // Some of it may have been copied over.
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = c, .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = b, .dstPitch = 64, .WidthInBytes = 16, .Height = 4};
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemcpyHtoDAsync(b, pinned, BYTES, stream));
    // Asynchronous in name only.
    CHECK(cuMemcpyDtoHAsync(pageable, c, BYTES, stream));

    // Waits for what is on the stream, then for nothing; for the copy of rows, then for nothing.
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSynchronize());

    // Two shapes, and the last argument varies.
    for (n = 1; n <= 3; n++)
        launch(function, 1, n < 3 ? 32 : 64, arguments);
    CHECK(cuCtxSynchronize());

    // Allocated and freed over and over; the peak is the big one.
    for (i = 0; i < 5; i++) {
        memory = allocate(i == 2 ? 1 << 20 : 1 << 10);
        CHECK(cuMemFree(memory));
    }
    CHECK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemFree(managed));
    CHECK(cuMemAllocAsync(&pool, BYTES, stream));
    CHECK(cuMemFreeAsync(pool, stream));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&left, (size_t)1 << 45));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&elsewhere, module, "no_such_kernel"));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&elsewhere, module, "no_such_kernel"));

    // Not freed: b, c and this one, which go with the context.
    left = allocate(1000);
    CHECK(cuMemFree(a));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuDevicePrimaryCtxRelease(0));
    return left == 0;
}
