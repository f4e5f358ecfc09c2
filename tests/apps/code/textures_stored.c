// Texture objects kept in device memory, some of them made after others were gone
#include "check.h"

enum { IMAGES = 5 };

int main(void)
{
    CUtexObject textures[IMAGES], thrown;
    CUarray arrays[IMAGES];
    float out[IMAGES][4];
    int i;

    start_driver();
    CUfunction sample = find_kernel(load_module("texture"), "sample_stored");
    CUdeviceptr memory = allocate(sizeof out), stored = allocate(sizeof textures);

    for (i = 0; i < IMAGES; i++) {
        float texel[4] = {i + 1, 0, 0, 1};
        CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1, .Height = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
        CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};

        CHECK(cuArrayCreate(&arrays[i], &shape));
        CHECK(cuMemcpyHtoA(arrays[i], 0, texel, sizeof texel));
        resource.res.array.hArray = arrays[i];
        CHECK(cuTexObjectCreate(&thrown, &resource, &sampling, NULL));
        CHECK(cuTexObjectCreate(&textures[i], &resource, &sampling, NULL));
        if (i % 2 == 0)
            CHECK(cuTexObjectDestroy(thrown));
    }
    CHECK(cuMemcpyHtoD(stored, textures, sizeof textures));
    launch(sample, 1, IMAGES, (void *[]){&stored, &memory});
    CHECK(cuMemcpyDtoH(out, memory, sizeof out));
    for (i = 0; i < IMAGES; i++)
        REQUIRE(out[i][0] == i + 1);
    printf("%g\n", out[IMAGES - 1][0]);
    return 0;
}
