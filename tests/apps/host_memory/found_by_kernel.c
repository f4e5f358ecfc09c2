// The CPU writes pinned memory between launches, which find it by themselves: an earlier kernel has stored its address, or it lies
// under a texture
#include "check.h"

enum { TURNS = 3, SIDE = 16 };

static const char *const CODE = ".version 7.0\n.target sm_50\n.address_size 64\n"
                                ".visible .entry keep(.param .u64 place, .param .u64 kept) {\n"
                                "    .reg .b64 %rd<3>;\n"
                                "    ld.param.u64 %rd1, [place];\n"
                                "    ld.param.u64 %rd2, [kept];\n"
                                "    st.global.u64 [%rd1], %rd2;\n"
                                "    ret;\n}\n"
                                ".visible .entry follow(.param .u64 place, .param .u64 result) {\n"
                                "    .reg .b64 %rd<4>;\n"
                                "    .reg .b32 %r<2>;\n"
                                "    ld.param.u64 %rd1, [place];\n"
                                "    ld.param.u64 %rd2, [result];\n"
                                "    ld.global.u64 %rd3, [%rd1];\n"
                                "    ld.global.u32 %r1, [%rd3];\n"
                                "    st.global.u32 [%rd2], %r1;\n"
                                "    ret;\n}\n";

int main(void)
{
    static float out[SIDE][SIDE][4];
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};
    unsigned *word, found = 0;
    int side = SIDE, turn;
    float *pixels;
    CUtexObject texture;
    CUmodule module;

    start_driver();
    CHECK(cuModuleLoadData(&module, CODE));
    CUfunction keep = find_kernel(module, "keep"), follow = find_kernel(module, "follow");
    CUfunction sample = find_kernel(load_module("texture"), "sample");
    CUdeviceptr place = allocate(8), result = allocate(4), sampled = allocate(sizeof out);

    CHECK(cuMemAllocHost((void **)&word, sizeof *word));
    *word = 1;
    launch(keep, 1, 1, (void *[]){&place, &word});
    CHECK(cuCtxSynchronize());
    for (turn = 0; turn < TURNS; turn++) {
        *word += 41;
        launch(follow, 1, 1, (void *[]){&place, &result});
        CHECK(cuCtxSynchronize());
        CHECK(cuMemcpyDtoH(&found, result, sizeof found));
        REQUIRE(found == 1 + 41u * (turn + 1));
    }

    CHECK(cuMemAllocHost((void **)&pixels, sizeof out));
    memset(pixels, 0, sizeof out);
    resource.res.pitch2D.devPtr = (CUdeviceptr)pixels;
    resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    resource.res.pitch2D.numChannels = 4;
    resource.res.pitch2D.width = resource.res.pitch2D.height = SIDE;
    resource.res.pitch2D.pitchInBytes = sizeof out[0];
    sampling.addressMode[0] = sampling.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    CHECK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    for (turn = 0; turn < TURNS; turn++) {
        pixels[0] = turn + 7;
        CHECK(cuLaunchKernel(sample, 1, 1, 1, SIDE, SIDE, 1, 0, NULL, (void *[]){&texture, &sampled, &side, &side}, NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuMemcpyDtoH(out, sampled, sizeof out));
        REQUIRE(out[0][0][0] == turn + 7);
    }
    printf("%u %g\n", found, out[0][0][0]);
    CHECK(cuTexObjectDestroy(texture));
    return 0;
}
