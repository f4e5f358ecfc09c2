// Tensor maps: tiled, by image columns, with another address
#include "tell.h"

enum { CHANNELS = 32, WIDTH = 16, HEIGHT = 8, IMAGES = 2, ELEMENTS = CHANNELS * WIDTH * HEIGHT * IMAGES };

// The first word is the address; the rest says what lies there.
static void see(const char *what, const CUtensorMap *map, CUdeviceptr memory)
{
    const unsigned char *bytes = (const unsigned char *)map;
    unsigned i, sum = 0;

    for (i = 8; i < sizeof *map; i++)
        sum = sum * 31 + bytes[i];
    printf("%s %d %08x\n", what, !memcmp(map, &memory, sizeof memory), sum);
}

int main(void)
{
    cuuint64_t sizes[4] = {CHANNELS, WIDTH, HEIGHT, IMAGES};
    cuuint64_t strides[3] = {CHANNELS * 4, CHANNELS * 4 * WIDTH, CHANNELS * 4 * WIDTH * HEIGHT};
    cuuint32_t box[4] = {CHANNELS, 8, 8, 1}, steps[4] = {1, 1, 1, 1};
    int lower[2] = {-1, -1}, upper[2] = {-1, -1};
    CUdeviceptr memory, other;
    CUtensorMap map;

    start_driver();
    memory = allocate(ELEMENTS * 4);
    other = allocate(ELEMENTS * 4);
    memset(&map, 0, sizeof map);
    if (TELL(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)memory, sizes, strides, box, steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) == CUDA_SUCCESS) {
        see("tiled", &map, memory);
        TELL(cuTensorMapReplaceAddress(&map, (void *)other));
        see("elsewhere", &map, other);
    }
    if (TELL(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)memory, sizes, strides, lower, upper,
            CHANNELS, WIDTH, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) == CUDA_SUCCESS)
        see("columns", &map, memory);
    // Blackwell has this one.
    if (TELL(cuTensorMapEncodeIm2colWide(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)memory, sizes, strides, -1, -1, CHANNELS,
            WIDTH, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) == CUDA_SUCCESS)
        see("wide columns", &map, memory);
    fill_and_see(11);
    return 0;
}
