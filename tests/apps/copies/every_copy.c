// Every way to copy and to fill, one after another, each seen by a copy back. Built a second time for per-thread streams.
#include "check.h"

enum { N = 64, BYTES = N * 4 };

static CUdeviceptr a, b;
static unsigned host[N], back[N];
static CUcontext context;

// What lies in b, as a sum that depends on the order
static void see(const char *what)
{
    unsigned sum = 0, i;

    CHECK(cuMemcpyDtoH(back, b, BYTES));
    for (i = 0; i < N; i++)
        sum = sum * 31 + back[i];
    printf("%-20s %08x\n", what, sum);
}

static void wait_and_see(CUstream stream, const char *what)
{
    CHECK(cuStreamSynchronize(stream));
    see(what);
}

static void change(void)
{
    static unsigned next = 1;
    int i;

    for (i = 0; i < N; i++)
        host[i] = next++ * 2654435761u;
    CHECK(cuMemcpyHtoD(a, host, BYTES));
    CHECK(cuCtxSynchronize()); // the default stream's copies and fills may return before they are done, and `stream` does not wait for it
}

static void linear(CUstream stream)
{
    change();
    CHECK(cuMemcpyDtoD(b, a, BYTES));
    wait_and_see(stream, "DtoD");
    change();
    CHECK(cuMemcpyPeer(b, context, a, context, BYTES));
    wait_and_see(stream, "Peer");
    change();
    CHECK(cuMemcpyPeerAsync(b, context, a, context, BYTES, stream));
    wait_and_see(stream, "PeerAsync");
    change();
    CHECK(cuMemcpy(b, a, BYTES));
    wait_and_see(stream, "unified");
    change();
    CHECK(cuMemcpyAsync(b, a, BYTES, stream));
    CHECK(cuMemcpyDtoDAsync(b, a, BYTES / 2, stream));
    CHECK(cuMemcpyHtoDAsync(b + BYTES / 2, host, BYTES / 4, stream));
    CHECK(cuMemcpyDtoHAsync(host, b, BYTES, stream));
    wait_and_see(stream, "Async");
}

static void fills(CUstream stream)
{
    CHECK(cuMemsetD8(b, 0x11, BYTES));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemsetD8Async(b + 4, 0x12, 7, stream));
    CHECK(cuMemsetD16(b + 16, 0x1314, 5));
    CHECK(cuMemsetD16Async(b + 32, 0x1516, 5, stream));
    CHECK(cuMemsetD32(b + 64, 0x17181920, 3));
    CHECK(cuMemsetD32Async(b + 80, 0x21222324, 3, stream));
    wait_and_see(stream, "memset");
    CHECK(cuMemsetD2D8(b, 32, 0x25, 3, 4));
    CHECK(cuMemsetD2D8Async(b + 4, 32, 0x26, 3, 4, stream));
    CHECK(cuMemsetD2D16(b + 8, 32, 0x2728, 3, 4));
    CHECK(cuMemsetD2D16Async(b + 16, 32, 0x2930, 3, 4, stream));
    CHECK(cuMemsetD2D32(b + 128, 32, 0x31323334, 3, 4));
    CHECK(cuMemsetD2D32Async(b + 144, 32, 0x35363738, 3, 4, stream));
    wait_and_see(stream, "memset 2D");
}

static void arrays(CUstream stream)
{
    CUDA_ARRAY_DESCRIPTOR line = {.Width = N, .Height = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR told;
    CUDA_ARRAY3D_DESCRIPTOR box = {.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR box_told;
    CUarray one, two, flat;

    CHECK(cuArrayCreate(&one, &line));
    CHECK(cuArrayCreate(&two, &line));
    CHECK(cuArrayGetDescriptor(&told, one));
    CHECK(cuArray3DCreate(&flat, &box));
    CHECK(cuArray3DGetDescriptor(&box_told, flat));
    REQUIRE(told.Width == N && box_told.Height == 8);

    change();
    CHECK(cuMemcpyHtoA(one, 0, host, BYTES));
    CHECK(cuMemcpyAtoA(two, 0, one, 0, BYTES));
    CHECK(cuMemcpyAtoD(b, two, 0, BYTES));
    wait_and_see(stream, "HtoA AtoA AtoD");
    change();
    CHECK(cuMemcpyDtoA(one, 0, a, BYTES));
    CHECK(cuMemcpyAtoH(back, one, 0, BYTES));
    CHECK(cuMemcpyHtoD(b, back, BYTES));
    see("DtoA AtoH");
    change();
    CHECK(cuMemcpyHtoAAsync(two, 0, host, BYTES, stream));
    CHECK(cuMemcpyAtoHAsync(back, two, 0, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoD(b, back, BYTES));
    see("HtoA AtoH Async");
    CHECK(cuArrayDestroy(one));
    CHECK(cuArrayDestroy(two));
    CHECK(cuArrayDestroy(flat));
}

static void boxes(CUstream stream)
{
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 32,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 32, .WidthInBytes = 20, .Height = 8};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 16, .srcHeight = 4,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 16, .dstHeight = 4, .WidthInBytes = 12,
        .Height = 3, .Depth = 3};
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .srcContext = context, .srcPitch = 16,
        .srcHeight = 4, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstContext = context, .dstPitch = 16,
        .dstHeight = 4, .WidthInBytes = 12, .Height = 3, .Depth = 3};

    change();
    CHECK(cuMemcpy2D(&in));
    see("2D");
    change();
    CHECK(cuMemcpy2DUnaligned(&in));
    see("2DUnaligned");
    change();
    CHECK(cuMemcpy2DAsync(&in, stream));
    wait_and_see(stream, "2DAsync");
    change();
    CHECK(cuMemcpy3D(&deep));
    see("3D");
    change();
    CHECK(cuMemcpy3DAsync(&deep, stream));
    wait_and_see(stream, "3DAsync");
    change();
    CHECK(cuMemcpy3DPeer(&peer));
    wait_and_see(stream, "3DPeer");
    change();
    CHECK(cuMemcpy3DPeerAsync(&peer, stream));
    wait_and_see(stream, "3DPeerAsync");
}

static void batch(CUstream stream)
{
    CUdeviceptr to[] = {b, b + 128}, from[] = {a + 128, a};
    size_t sizes[] = {64, 96}, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    change();
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, stream));
    wait_and_see(stream, "batch");
}

int main(void)
{
    CUstream stream;

    context = start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    a = allocate(BYTES);
    b = allocate(BYTES);
    CHECK(cuMemsetD8(b, 0, BYTES));
    CHECK(cuCtxSynchronize());
    linear(stream);
    fills(stream);
    arrays(stream);
    boxes(stream);
    batch(stream);
    CHECK(cuStreamDestroy(stream));
    return 0;
}
