// Arrays, copies and pinned memory in the forms with 32-bit sizes. They want a context that is made in the old form, too.
#include "tell.h"

enum { N = 64 };

static unsigned char in[N * 4], out[N * 4];

static void see(const char *what)
{
    CHECK(cuCtxSynchronize());
    printf("%s %u %u\n", what, out[0], out[N - 1]);
    memset(out, 0, sizeof out);
}

static void linear(CUarray one, CUarray other, CUstream stream)
{
    TELL(cuMemcpyHtoA(one, 0, in, N));
    TELL(cuMemcpyAtoH(out, one, 0, N));
    see("there and back");
    in[0] = 2;
    TELL(cuMemcpyHtoAAsync(one, 0, in, N, stream));
    CHECK(cuStreamSynchronize(stream));
    TELL(cuMemcpyAtoA(other, 0, one, 0, N));
    CHECK(cuCtxSynchronize());
    TELL(cuMemcpyAtoHAsync(out, other, 0, N, stream));
    see("by way of another");
}

static void rectangles(CUarray array, CUstream stream)
{
    CUDA_MEMCPY2D_v1 to = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = N, .dstMemoryType = CU_MEMORYTYPE_ARRAY,
        .dstArray = array, .WidthInBytes = N, .Height = 1};
    CUDA_MEMCPY2D_v1 back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = out, .dstPitch = N, .WidthInBytes = N, .Height = 1};

    in[0] = 3;
    TELL(cuMemcpy2D(&to));
    TELL(cuMemcpy2DUnaligned(&back));
    see("rows");
    in[0] = 4;
    TELL(cuMemcpy2DAsync(&to, stream));
    TELL(cuMemcpy2DAsync(&back, stream));
    see("rows on a stream");
}

static void boxes(CUarray array, CUstream stream)
{
    CUDA_MEMCPY3D_v1 to = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = N, .srcHeight = 1,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .WidthInBytes = N, .Height = 1, .Depth = 1};
    CUDA_MEMCPY3D_v1 back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = out, .dstPitch = N, .dstHeight = 1, .WidthInBytes = N, .Height = 1, .Depth = 1};

    in[0] = 5;
    TELL(cuMemcpy3D(&to));
    TELL(cuMemcpy3D(&back));
    see("a box");
    in[0] = 6;
    TELL(cuMemcpy3DAsync(&to, stream));
    TELL(cuMemcpy3DAsync(&back, stream));
    see("a box on a stream");
}

static void all(void)
{
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {.Width = N, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1}, told;
    CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {.Width = N, .Height = 1, .Depth = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
        .NumChannels = 1}, asked;
    CUDA_ARRAY_DESCRIPTOR now = {.Width = N, .Height = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUarray one, other, box;
    CUstream stream;
    unsigned little, all_of_it;
    void *pinned;

    TELL(cuMemGetInfo(&little, &all_of_it));
    if (TELL(cuMemAllocHost(&pinned, N)) == CUDA_SUCCESS)
        CHECK(cuMemFreeHost(pinned));

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (TELL(cuArrayCreate(&one, &flat)) != CUDA_SUCCESS)
        CHECK(cuArrayCreate_v2(&one, &now));
    flat.Height = 0;
    if (TELL(cuArrayCreate(&other, &flat)) != CUDA_SUCCESS)
        CHECK(cuArrayCreate_v2(&other, &now));
    if (TELL(cuArrayGetDescriptor(&told, other)) == CUDA_SUCCESS)
        printf("%u %u %d\n", told.Width, told.Height, told.Format);
    if (TELL(cuArray3DCreate(&box, &deep)) == CUDA_SUCCESS) {
        TELL(cuArray3DGetDescriptor(&asked, box));
        boxes(box, stream);
        CHECK(cuArrayDestroy(box));
    } else {
        TELL(cuArray3DGetDescriptor(&asked, one));
        boxes(one, stream);
    }
    linear(one, other, stream);
    rectangles(one, stream);
    CHECK(cuArrayDestroy(one));
    CHECK(cuArrayDestroy(other));
    TELL(cuStreamDestroy(stream));
}

int main(void)
{
    CUcontext primary = start_driver(), old;
    unsigned version;
    CUdevice d;
    int i;

    CHECK(cuDeviceGet(&d, 0));
    for (i = 0; i < N; i++)
        in[i] = i + 1;
    all();
    fill_and_see(9);
    if (TELL(cuCtxCreate(&old, 0, d)) == CUDA_SUCCESS) {
        CHECK(cuCtxGetApiVersion(old, &version));
        printf("version %u\n", version);
        all();
        TELL(cuCtxDestroy(old));
    }
    CHECK(cuCtxSetCurrent(primary));
    fill_and_see(10);
    return 0;
}
