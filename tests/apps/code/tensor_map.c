// A tensor map made from a device address
#include "check.h"

int main(void)
{
    enum { SIDE = 64 };
    static float in[SIDE * SIDE], out[SIDE * SIDE];
    CUtensorMap map;
    unsigned i;
    cuuint64_t sizes[2] = {SIDE, SIDE}, strides[1] = {SIDE * sizeof(float)};
    cuuint32_t box[2] = {32, 32}, steps[2] = {1, 1};

    start_driver();
    CUdeviceptr memory = allocate(sizeof in);
    for (i = 0; i < SIDE * SIDE; i++)
        in[i] = i;
    CHECK(cuMemcpyHtoD(memory, in, sizeof in));
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)memory, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CHECK(cuMemcpyDtoH(out, memory, sizeof out));
    printf("%g\n", out[SIDE * SIDE - 1]);
    return 0;
}
