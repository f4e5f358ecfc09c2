// Addresses wherever a program may put them: in payloads of all kinds, in structs by value, in results that come back
#include "check.h"

enum { N = 256 };

struct span {
    CUdeviceptr first, last;
};

struct job {
    int scale;
    struct span spans[2];
};

struct __attribute__((packed)) tight {
    int scale;
    CUdeviceptr first;
    int count;
};

static long long result(CUdeviceptr out)
{
    long long sum;

    CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
    return sum;
}

int main(void)
{
    int numbers[N], count = 1, sixteen = 16, five = 5, i;
    CUdeviceptr basin, shelf, odd, pitched;
    struct span spans[4], *pinned, back, all;
    struct job job;
    struct tight tight;
    size_t size, pitch;
    CUstream stream;

    start_driver();
    CUmodule module = load_module("addresses");
    CUfunction span = find_kernel(module, "sum_span"), sums = find_kernel(module, "sum_spans");
    CUdeviceptr first = allocate(sizeof numbers), second = allocate(sizeof numbers), out = allocate(sizeof(long long));
    CUdeviceptr list = allocate(sizeof spans), copy = allocate(sizeof spans);

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(first, numbers, sizeof numbers));
    for (i = 0; i < N; i++)
        numbers[i] = 1000;
    CHECK(cuMemcpyHtoD(second, numbers, sizeof numbers));
    struct span whole = {first, first + sizeof numbers}, few = {second + 4, second + 8}, none = {0, 0};

    // Up to the end of an allocation.
    launch(span, 1, 1, (void *[]){&whole.first, &whole.last, &out});
    REQUIRE(result(out) == 255 * 128);

    // In constant memory, and in a list in device memory.
    CHECK(cuModuleGetGlobal(&shelf, &size, module, "shelf"));
    REQUIRE(size == 2 * sizeof none);
    CHECK(cuMemcpyHtoD(shelf, &few, sizeof few));
    spans[0] = whole;
    CHECK(cuMemcpyHtoD(list, spans, sizeof *spans));
    launch(sums, 1, 1, (void *[]){&list, &count, &out});
    REQUIRE(result(out) == 255 * 128 + 1000);

    // By way of pinned memory that holds other addresses later.
    CHECK(cuMemAllocHost((void **)&pinned, sizeof spans));
    for (i = 0; i < 2; i++) {
        pinned[0] = i ? whole : few;
        CHECK(cuMemcpyHtoDAsync(list, pinned, sizeof *pinned, stream));
        CHECK(cuStreamSynchronize(stream));
        launch(sums, 1, 1, (void *[]){&list, &count, &out});
        REQUIRE(result(out) == (i ? 255 * 128 + 1000 : 2000));
    }

    // In rows.
    CHECK(cuMemAllocPitch(&pitched, &pitch, sizeof none, 4, 8));
    for (i = 0; i < 4; i++)
        spans[i] = i % 2 ? whole : few;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = spans, .srcPitch = sizeof none,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = pitched, .dstPitch = pitch,
                          .WidthInBytes = sizeof none, .Height = 4};
    CHECK(cuMemcpy2D(&rows));
    for (i = 0; i < 4; i++) {
        CUdeviceptr row = pitched + i * pitch;
        launch(sums, 1, 1, (void *[]){&row, &count, &out});
        REQUIRE(result(out) == (i % 2 ? 255 * 128 + 1000 : 2000));
    }
    memset(spans, 0, sizeof spans);
    CUDA_MEMCPY2D home = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = pitched, .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = spans, .dstPitch = 2 * sizeof none,
                          .WidthInBytes = sizeof none, .Height = 2};
    CHECK(cuMemcpy2D(&home));
    REQUIRE(spans[0].last == few.last && spans[2].last == whole.last);

    // In a batch, in both directions.
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t sizes[2] = {sizeof few, sizeof whole}, index = 0;
    CUdeviceptr from[2] = {(CUdeviceptr)&few, (CUdeviceptr)&whole}, to[2] = {list, copy};
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, stream));
    CUdeviceptr there[2] = {(CUdeviceptr)&spans[3], (CUdeviceptr)&all};
    CHECK(cuMemcpyBatchAsync(there, to, sizes, 2, &attributes, &index, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(!memcmp(&spans[3], &few, sizeof few) && !memcmp(&all, &whole, sizeof whole));
    launch(sums, 1, 1, (void *[]){&list, &count, &out});
    REQUIRE(result(out) == 2000);

    // Word by word, in the order of a stream.
    CUstreamBatchMemOpParams operation = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64};
    operation.writeValue.address = list + sizeof(CUdeviceptr);
    operation.writeValue.value64 = whole.last;
    CHECK(cuStreamWriteValue64(stream, list, whole.first, 0));
    CHECK(cuStreamBatchMemOp(stream, 1, &operation, 0));
    CHECK(cuStreamWaitValue64(stream, list, whole.first, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamSynchronize(stream));
    launch(sums, 1, 1, (void *[]){&list, &count, &out});
    REQUIRE(result(out) == 255 * 128 + 1000);

    // Into the middle of an allocation, from the middle of a packed buffer.
    char packed[4 + sizeof whole];
    memcpy(packed + 4, &whole, sizeof whole);
    odd = list + sizeof whole;
    CHECK(cuMemcpyHtoD(odd, packed + 4, sizeof whole));
    launch(sums, 1, 1, (void *[]){&odd, &count, &out});
    REQUIRE(result(out) == 255 * 128 + 1000);
    memset(packed, 0, sizeof packed);
    CHECK(cuMemcpyDtoH(packed + 4, odd, sizeof whole));
    REQUIRE(!memcmp(packed + 4, &whole, sizeof whole));

    // By value: far behind the first words of a struct, at 4 bytes, and in a buffer.
    memset(&job, 0, sizeof job);
    job.scale = 3;
    job.spans[0] = few;
    job.spans[1] = whole;
    launch(find_kernel(module, "sum_job"), 1, 1, (void *[]){&job, &out});
    REQUIRE(result(out) == 3 * (255 * 128 + 1000));
    tight = (struct tight){.scale = 7, .first = second + 8, .count = 2};
    launch(find_kernel(module, "sum_tight"), 1, 1, (void *[]){&tight, &out});
    REQUIRE(result(out) == 14000);
    struct {
        struct span span;
        CUdeviceptr out;
    } buffer = {few, out};
    size = sizeof buffer;
    CHECK(cuLaunchKernel(span, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
                         (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                                    CU_LAUNCH_PARAM_END}));
    REQUIRE(result(out) == 1000);

    // Made by a kernel, seen by the host, given to a kernel again.
    CHECK(cuModuleGetGlobal(&basin, &size, module, "basin"));
    launch(find_kernel(module, "name_basin"), 1, 1, (void *[]){&list});
    CHECK(cuMemcpyDtoH(&back, list, sizeof back));
    REQUIRE(back.first == basin && back.last == basin + size);
    launch(find_kernel(module, "add_to"), 1, 1, (void *[]){&back.first, &sixteen, &five});
    CHECK(cuMemcpyHtoD(copy, &back, sizeof back));
    CHECK(cuMemcpyHtoD(shelf, &none, sizeof none));
    launch(sums, 1, 1, (void *[]){&copy, &count, &out});
    REQUIRE(result(out) == 80);

    // Nobody's any more.
    CHECK(cuMemFree(second));
    CHECK(cuMemcpyHtoD(copy, &few, sizeof few));
    CHECK(cuMemcpyDtoH(&back, copy, sizeof back));
    REQUIRE(!memcmp(&back, &few, sizeof few));
    printf("%lld\n", result(out));
    return 0;
}
