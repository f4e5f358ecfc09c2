// Copies that take managed memory for the host's: what the CPU put there, what kernels put there, and what copies bring there
#include "check.h"

enum { N = 4096, W = 64, H = 16 };

static void fill(unsigned char *at, unsigned seed)
{
    for (unsigned i = 0; i < N; i++)
        at[i] = i * 13 + seed;
}

static unsigned sum(const unsigned char *at)
{
    unsigned i, total = 0;

    for (i = 0; i < N; i++)
        total = total * 31 + at[i];
    return total;
}

int main(void)
{
    unsigned char *from, *to, host[N], wanted[N];
    CUdeviceptr managed, a;
    CUdevice device;
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    unsigned i, y, total = 0;

    start_driver();
    CHECK(cuCtxGetDevice(&device));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL));
    from = (unsigned char *)managed;
    CHECK(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL));
    to = (unsigned char *)managed;
    a = allocate(N);

    fill(from, 1);
    CHECK(cuMemcpyHtoD(a, from, N));
    CHECK(cuMemcpyDtoH(host, a, N));
    REQUIRE(!memcmp(host, from, N));
    CHECK(cuMemcpyDtoH(to, a, N));
    REQUIRE(!memcmp(to, from, N));
    // The CPU goes on where the copy left it, and the next copy takes both.
    for (i = 0; i < 100; i++)
        to[i * 7] ^= 0xff;
    CHECK(cuMemcpyHtoD(a, to, N));
    CHECK(cuMemcpyDtoH(host, a, N));
    total += sum(host);

    // On a stream, one behind the other: what the device brings is what the device takes.
    fill(from, 2);
    CHECK(cuMemcpyHtoDAsync(a, from, N, stream));
    CHECK(cuMemsetD8Async(a + 10, 9, 20, stream));
    CHECK(cuMemcpyDtoHAsync(to, a, N, stream));
    CHECK(cuMemsetD8Async(a, 0, N, stream));
    CHECK(cuMemcpyHtoDAsync(a, to, N, stream));
    CHECK(cuMemcpyDtoHAsync(host, a, N, stream));
    CHECK(cuStreamSynchronize(stream));
    memcpy(wanted, from, N);
    memset(wanted + 10, 9, 20);
    REQUIRE(!memcmp(host, wanted, N) && !memcmp(to, wanted, N));
    total += sum(host);

    // Pitched, with a corner of the managed memory at either side.
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = W, .srcXInBytes = 3, .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = a, .dstPitch = W, .WidthInBytes = 40, .Height = H};
    CUDA_MEMCPY3D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .srcPitch = W, .srcHeight = H,
                          .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .dstPitch = W, .dstHeight = H + 2, .dstXInBytes = 5, .dstY = 2,
                          .WidthInBytes = 40, .Height = H, .Depth = 1};
    fill(from, 3);
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemcpy3DAsync(&back, stream));
    CHECK(cuStreamSynchronize(stream));
    for (y = 0; y < H; y++)
        REQUIRE(!memcmp(to + (y + 2) * W + 5, from + (y + 1) * W + 3, 40));
    CHECK(cuMemcpyHtoD(a, to, N));
    CHECK(cuMemcpyDtoH(host, a, N));
    total += sum(host);

    // Captured: each launch takes what the CPU has put there by then.
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyHtoDAsync(a, from, N, stream));
    CHECK(cuMemcpyDtoHAsync(to, a, N, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (i = 4; i < 7; i++) {
        fill(from, i);
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(!memcmp(to, from, N));
        CHECK(cuMemcpyDtoH(host, a, N));
        total += sum(host);
    }
    printf("%u\n", total);
    return 0;
}
