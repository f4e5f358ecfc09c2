// Copies whose destination is what describes them, structs and the arrays of a batch: what lies there afterwards describes a
// copy from an address that is nobody's. The argument says how many kinds: the last two came after CUDA 13.0
#include "check.h"

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);

enum { ROWS_OF_ONE, BOX, PEERS, BATCH_OF_BOXES, BATCH, BOX_WITH_ATTRIBUTES, WITH_ATTRIBUTES, KINDS };
enum { PITCH = 64, ROWS = 16, BYTES = PITCH * ROWS };

union description {
    CUDA_MEMCPY2D rows;
    CUDA_MEMCPY3D box;
    CUDA_MEMCPY3D_PEER peers;
    CUDA_MEMCPY3D_BATCH_OP operation;
    CUmemcpyAttributes attributes;
    struct {
        CUdeviceptr to, from;
        size_t bytes, first;
        CUmemcpyAttributes attributes;
    } batch;
    unsigned char bytes[BYTES];
};

// The members that the three structs of older calls have in common
#define DESCRIBE(copy, at)                          \
    do {                                            \
        (copy).srcMemoryType = CU_MEMORYTYPE_DEVICE; \
        (copy).srcDevice = at;                      \
        (copy).srcPitch = PITCH;                    \
        (copy).dstMemoryType = CU_MEMORYTYPE_HOST;  \
        (copy).dstHost = &own;                      \
        (copy).dstPitch = PITCH;                    \
        (copy).WidthInBytes = PITCH;                \
        (copy).Height = ROWS;                       \
    } while (0)

static union description own;
static CUcontext context;

static void describe(union description *one, int kind, CUdeviceptr from)
{
    memset(one, 0, sizeof *one);
    switch (kind) {
    case ROWS_OF_ONE:
        DESCRIBE(one->rows, from);
        break;
    case BOX:
        DESCRIBE(one->box, from);
        one->box.Depth = 1;
        break;
    case PEERS:
        DESCRIBE(one->peers, from);
        one->peers.Depth = 1;
        one->peers.srcContext = one->peers.dstContext = context;
        break;
    case BATCH_OF_BOXES:
    case BOX_WITH_ATTRIBUTES:
        one->operation.src.type = one->operation.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        one->operation.src.op.ptr.ptr = from;
        one->operation.dst.op.ptr.ptr = (CUdeviceptr)&own;
        one->operation.extent = (CUextent3D){BYTES, 1, 1};
        one->operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        break;
    case BATCH:
        one->batch.to = (CUdeviceptr)&own;
        one->batch.from = from;
        one->batch.bytes = BYTES;
        one->batch.attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        break;
    default:
        // There is no such order.
        one->attributes.srcAccessOrder = from ? CU_MEMCPY_SRC_ACCESS_ORDER_STREAM : 77;
    }
}

static CUresult copy(int kind, CUdeviceptr from, CUstream stream)
{
    switch (kind) {
    case ROWS_OF_ONE:
        return cuMemcpy2D(&own.rows);
    case BOX:
        return cuMemcpy3D(&own.box);
    case PEERS:
        return cuMemcpy3DPeer(&own.peers);
    case BATCH_OF_BOXES:
        return cuMemcpy3DBatchAsync(1, &own.operation, 0, stream);
    case BOX_WITH_ATTRIBUTES:
        return cuMemcpy3DWithAttributesAsync(&own.operation, 0, stream);
    case WITH_ATTRIBUTES:
        return cuMemcpyWithAttributesAsync((CUdeviceptr)&own, from, BYTES, &own.attributes, stream);
    default:
        return cuMemcpyBatchAsync(&own.batch.to, &own.batch.from, &own.batch.bytes, 1, &own.batch.attributes, &own.batch.first,
                                  1, stream);
    }
}

int main(int argc, char **argv)
{
    int kinds = argc > 1 ? atoi(argv[1]) : KINDS;
    static union description other;
    CUdeviceptr memory;
    CUstream stream;

    context = start_driver();
    memory = allocate(BYTES);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int kind = 0; kind < kinds; kind++) {
        describe(&other, kind, kind == WITH_ATTRIBUTES ? 0 : 0x1000);
        CHECK(cuMemcpyHtoD(memory, &other, BYTES));
        CHECK(cuCtxSynchronize());
        describe(&own, kind, memory);
        CHECK(copy(kind, memory, stream));
        CHECK(cuStreamSynchronize(stream));
        printf("%d\n", !memcmp(&own, &other, BYTES));
    }
    return 0;
}
