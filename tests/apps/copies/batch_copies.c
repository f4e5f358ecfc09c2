// Batches of copies to and from neighbouring buffers, pageable, pinned and managed
#include "check.h"

enum { N = 1024, COPIES = 4 };

static void batch(CUdeviceptr *to, CUdeviceptr *from, CUstream stream)
{
    size_t sizes[COPIES] = {N, N, N / 2, N}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    CHECK(cuMemcpyBatchAsync(to, from, sizes, COPIES, &attributes, &first, 1, stream));
}

static CUmemcpy3DOperand operand(CUdeviceptr at)
{
    CUmemcpy3DOperand operand = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

    operand.op.ptr.ptr = at;
    operand.op.ptr.rowLength = N;
    operand.op.ptr.layerHeight = 1;
    operand.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return operand;
}

int main(void)
{
    static unsigned char in[COPIES * N], pageable[COPIES * N];
    unsigned char *pinned;
    CUdeviceptr host[COPIES], device[COPIES], out[COPIES], both;
    CUDA_MEMCPY3D_BATCH_OP boxes[COPIES];
    unsigned i, sum = 0;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost((void **)&pinned, COPIES * N));
    memset(pinned, 0, COPIES * N);
    CUdeviceptr memory = allocate(COPIES * N);
    CHECK(cuMemsetD8(memory, 9, COPIES * N));
    // The stream waits for nothing else, and the driver need not have waited either
    CHECK(cuCtxSynchronize());
    for (i = 0; i < COPIES * N; i++)
        in[i] = i / N * 50 + i % 7;
    for (i = 0; i < COPIES; i++) {
        host[i] = (CUdeviceptr)(in + i * N);
        device[i] = memory + i * N;
        out[i] = (CUdeviceptr)(i % 2 ? pinned + i * N : pageable + i * N);
    }
    batch(device, host, stream);
    batch(out, device, stream);
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < COPIES; i++) {
        REQUIRE(!memcmp((void *)out[i], in + i * N, N / 2));
        out[i] = (CUdeviceptr)(pageable + i * N);
    }
    CHECK(cuMemAllocManaged(&both, COPIES * N, CU_MEM_ATTACH_GLOBAL));
    unsigned char *managed = (unsigned char *)both;
    for (i = 0; i < COPIES; i++) {
        memset(managed + i * N, 7 + i, N);
        host[i] = both + i * N;
    }
    batch(device, host, stream);
    CHECK(cuStreamSynchronize(stream));
    // The CPU changes a byte beside what is brought there the other way round.
    managed[2 * N - 1] = 1;
    for (i = 0; i < COPIES; i++)
        host[i] = both + (COPIES - 1 - i) * N;
    batch(host, device, stream);
    for (i = 0; i < COPIES; i++)
        host[i] = both + i * N;
    batch(device, host, stream);
    batch(out, device, stream);
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(pageable[0] == 10 && pageable[N] == 9 && pageable[2 * N - 1] == 1);
    for (i = 0; i < COPIES; i++) {
        memset(managed + i * N, 70 + i, N);
        boxes[i] = (CUDA_MEMCPY3D_BATCH_OP){
            .src = operand(both + i * N), .dst = operand(device[i]), .extent = {N, 1, 1},
            .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        };
    }
    CHECK(cuMemcpy3DBatchAsync(COPIES, boxes, 0, stream));
    CHECK(cuMemcpyDtoHAsync(in, memory, sizeof in, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(in[0] == 70 && in[sizeof in - 1] == 70 + COPIES - 1);
    for (i = 0; i < COPIES * N; i++)
        sum = sum * 3 + pageable[i];
    printf("%u\n", sum);
    return 0;
}
