// Batches of copies in all their forms, and a batch to decompress
#include "tell.h"

enum { SIDE = 16, BYTES = SIDE * SIDE };

static CUdeviceptr from, to;
static unsigned char seen[BYTES];

static void see(void)
{
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(seen, to, BYTES));
    printf("%u %u %u\n", seen[0], seen[BYTES / 2 - 1], seen[BYTES - 1]);
    CHECK(cuMemsetD8_v2(to, 0, BYTES));
    CHECK(cuCtxSynchronize());
}

int main(void)
{
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP box;
    CUmemDecompressParams packed;
    cuuint32_t *unpacked;
    CUdeviceptr counted;
    CUstream stream;
    CUdevice d;
    size_t half = BYTES / 2, first = 0, failed = 77;
    int i;

    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    from = allocate(BYTES);
    to = allocate(BYTES);
    for (i = 0; i < BYTES; i++)
        seen[i] = i;
    CHECK(cuMemcpyHtoD_v2(from, seen, BYTES));
    CHECK(cuMemsetD8_v2(to, 0, BYTES));
    CHECK(cuCtxSynchronize());

    TELL(cuMemcpyBatchAsync(&to, &from, &half, 1, &how, &first, 1, &failed, stream));
    see();
    TELL(cuMemcpyBatchAsync_ptsz(&to, &from, &half, 1, &how, &first, 1, &failed, stream));
    see();
    TELL(cuMemcpyBatchAsync_v2(&to, &from, &half, 1, &how, &first, 1, stream));
    see();
    TELL(cuMemcpyBatchAsync_v2_ptsz(&to, &from, &half, 1, &how, &first, 1, stream));
    see();

    memset(&box, 0, sizeof box);
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = from;
    box.dst.op.ptr.ptr = to;
    box.src.op.ptr.rowLength = box.dst.op.ptr.rowLength = SIDE;
    box.src.op.ptr.layerHeight = box.dst.op.ptr.layerHeight = SIDE;
    box.src.op.ptr.locHint = box.dst.op.ptr.locHint = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d};
    box.extent = (CUextent3D){.width = SIDE, .height = SIDE / 2, .depth = 1};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    TELL(cuMemcpy3DBatchAsync(1, &box, &failed, 0, stream));
    see();
    TELL(cuMemcpy3DBatchAsync_ptsz(1, &box, &failed, 0, stream));
    see();
    TELL(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
    see();
    TELL(cuMemcpy3DBatchAsync_v2_ptsz(1, &box, 0, stream));
    see();

    // No engine for it before Blackwell.
    counted = allocate(sizeof *unpacked);
    unpacked = (cuuint32_t *)counted;
    memset(&packed, 0, sizeof packed);
    packed.srcNumBytes = packed.dstNumBytes = BYTES;
    packed.dstActBytes = unpacked;
    packed.src = (void *)from;
    packed.dst = (void *)to;
    packed.algo = CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY;
    TELL(cuMemBatchDecompressAsync(&packed, 1, 0, &failed, stream));
    TELL(cuMemBatchDecompressAsync_ptsz(&packed, 1, 0, &failed, stream));
    TELL(cuStreamSynchronize(stream));
    return 0;
}
