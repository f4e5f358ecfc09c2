// A picture in pitched memory, of which a window is copied back; and a volume
#include "check.h"

enum { WIDTH = 100, HEIGHT = 30, DEPTH = 4 };

int main(void)
{
    static unsigned char picture[HEIGHT][WIDTH], window[HEIGHT][WIDTH], volume[DEPTH][HEIGHT][WIDTH], slab[DEPTH][10][20];
    CUDA_MEMCPY2D in = {0}, out = {0};
    CUDA_MEMCPY3D in3 = {0}, out3 = {0};
    CUdeviceptr memory, whole;
    size_t pitch;
    int x, y, z;

    start_driver();
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++)
            picture[y][x] = 3 * x + 5 * y;
    for (z = 0; z < DEPTH; z++)
        for (y = 0; y < HEIGHT; y++)
            for (x = 0; x < WIDTH; x++)
                volume[z][y][x] = x ^ y ^ (50 * z);

    CHECK(cuMemAllocPitch(&memory, &pitch, WIDTH, HEIGHT, 16));
    in.srcMemoryType = CU_MEMORYTYPE_HOST;
    in.srcHost = picture;
    in.srcPitch = WIDTH;
    in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    in.dstDevice = memory;
    in.dstPitch = pitch;
    in.WidthInBytes = WIDTH;
    in.Height = HEIGHT;
    CHECK(cuMemcpy2D(&in));
    out.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    out.srcDevice = memory;
    out.srcPitch = pitch;
    out.srcXInBytes = 10;
    out.srcY = 5;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = window;
    out.dstPitch = WIDTH;
    out.dstXInBytes = 1;
    out.dstY = 2;
    out.WidthInBytes = 33;
    out.Height = 20;
    CHECK(cuMemcpy2D(&out));
    for (y = 0; y < 20; y++)
        REQUIRE(!memcmp(&window[y + 2][1], &picture[y + 5][10], 33));
    CHECK(cuMemsetD2D8(memory, pitch, 7, WIDTH, HEIGHT));
    CHECK(cuMemcpy2DUnaligned(&out));
    REQUIRE(window[2][1] == 7 && window[21][33] == 7);

    whole = allocate(sizeof volume);
    in3.srcMemoryType = CU_MEMORYTYPE_HOST;
    in3.srcHost = volume;
    in3.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    in3.dstDevice = whole;
    in3.srcPitch = in3.dstPitch = WIDTH;
    in3.srcHeight = in3.dstHeight = HEIGHT;
    in3.WidthInBytes = WIDTH;
    in3.Height = HEIGHT;
    in3.Depth = DEPTH;
    CHECK(cuMemcpy3D(&in3));
    out3.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    out3.srcDevice = whole;
    out3.srcPitch = WIDTH;
    out3.srcHeight = HEIGHT;
    out3.srcXInBytes = 30;
    out3.srcY = 11;
    out3.dstMemoryType = CU_MEMORYTYPE_HOST;
    out3.dstHost = slab;
    out3.dstPitch = 20;
    out3.dstHeight = 10;
    out3.WidthInBytes = 20;
    out3.Height = 10;
    out3.Depth = DEPTH;
    CHECK(cuMemcpy3D(&out3));
    for (z = 0; z < DEPTH; z++)
        for (y = 0; y < 10; y++)
            REQUIRE(!memcmp(slab[z][y], &volume[z][y + 11][30], 20));
    printf("%d %d\n", window[5][5], slab[3][9][19]);
    return 0;
}
