// Two contexts whose textures have the same numbers, stored and given to kernels; one's go while the other's are in use
#include "check.h"

enum { CONTEXTS = 2, IMAGES = 3 };

static struct {
    CUcontext context;
    CUfunction sample;
    CUtexObject textures[IMAGES];
    CUdeviceptr stored, out;
} of[CONTEXTS];

static float texel(int which, int image)
{
    return 10 * (which + 1) + image;
}

static CUtexObject make_texture(float value)
{
    float content[4] = {value, 0, 0, 1};
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1, .Height = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};
    CUtexObject texture;

    CHECK(cuArrayCreate(&resource.res.array.hArray, &shape));
    CHECK(cuMemcpyHtoA(resource.res.array.hArray, 0, content, sizeof content));
    CHECK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    return texture;
}

static void look(int which)
{
    float out[IMAGES][4];
    int i;

    CHECK(cuCtxSetCurrent(of[which].context));
    launch(of[which].sample, 1, IMAGES, (void *[]){&of[which].stored, &of[which].out});
    CHECK(cuMemcpyDtoH(out, of[which].out, sizeof out));
    for (i = 0; i < IMAGES; i++)
        REQUIRE(out[i][0] == texel(which, i));
}

int main(void)
{
    int which, i, round;

    CHECK(cuInit(0));
    for (which = 0; which < CONTEXTS; which++) {
        CHECK(cuCtxCreate(&of[which].context, NULL, 0, 0));
        of[which].sample = find_kernel(load_module("texture"), "sample_stored");
        of[which].stored = allocate(sizeof of[which].textures);
        of[which].out = allocate(IMAGES * 4 * sizeof(float));
    }
    for (round = 0; round < 3; round++) {
        for (which = 0; which < CONTEXTS; which++) {
            CHECK(cuCtxSetCurrent(of[which].context));
            for (i = 0; i < IMAGES; i++)
                of[which].textures[i] = make_texture(texel(which, i));
            CHECK(cuMemcpyHtoD(of[which].stored, of[which].textures, sizeof of[which].textures));
        }
        look(0);
        look(1);
        CHECK(cuCtxSetCurrent(of[round % 2].context));
        for (i = 0; i < IMAGES; i++)
            CHECK(cuTexObjectDestroy(of[round % 2].textures[i]));
        look(1 - round % 2);
        CHECK(cuCtxSetCurrent(of[1 - round % 2].context));
        for (i = 0; i < IMAGES; i++)
            CHECK(cuTexObjectDestroy(of[1 - round % 2].textures[i]));
    }
    printf("textures of two contexts\n");
    return 0;
}
