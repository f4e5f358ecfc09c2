// A texture object over an array
#include "check.h"

enum { WIDTH = 24, HEIGHT = 10 };

int main(void)
{
    static float pixels[HEIGHT][WIDTH][4], out[HEIGHT][WIDTH][4];
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = WIDTH, .Height = HEIGHT, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};
    CUDA_MEMCPY2D copy = {0};
    int width = WIDTH, height = HEIGHT, x, y;
    CUtexObject texture;
    CUarray array;

    start_driver();
    CUfunction sample = find_kernel(load_module("texture"), "sample");
    CUdeviceptr memory = allocate(sizeof out);

    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++)
            pixels[y][x][0] = x, pixels[y][x][1] = y, pixels[y][x][2] = x * y, pixels[y][x][3] = 1;
    CHECK(cuArrayCreate(&array, &shape));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pixels;
    copy.srcPitch = sizeof *pixels;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = sizeof *pixels;
    copy.Height = HEIGHT;
    CHECK(cuMemcpy2D(&copy));
    resource.res.array.hArray = array;
    sampling.addressMode[0] = sampling.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    CHECK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    CHECK(cuLaunchKernel(sample, 2, 1, 1, 16, 16, 1, 0, NULL, (void *[]){&texture, &memory, &width, &height}, NULL));
    CHECK(cuMemcpyDtoH(out, memory, sizeof out));
    REQUIRE(!memcmp(out, pixels, sizeof out));
    printf("%g\n", out[HEIGHT - 1][WIDTH - 1][2]);
    CHECK(cuTexObjectDestroy(texture));
    CHECK(cuArrayDestroy(array));
    return 0;
}
