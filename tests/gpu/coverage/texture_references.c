// Texture and surface references: bound to memory, pitched memory and arrays, set, asked, and read through by a kernel
#include "tell.h"

enum { N = 16 };

static const char text[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .global .texref line;\n.visible .global .texref picture;\n.visible .global .surfref canvas;\n"
    ".visible .entry read(.param .u64 out) {\n"
    "  .reg .b32 %r<4>;\n  .reg .f32 %f<12>;\n  .reg .b64 %a<4>;\n"
    "  ld.param.u64 %a0, [out];\n  cvta.to.global.u64 %a0, %a0;\n"
    "  mov.u32 %r0, %tid.x;\n  mul.wide.u32 %a1, %r0, 4;\n  add.s64 %a0, %a0, %a1;\n"
    "  tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [line, {%r0}];\n"
    "  cvt.rn.f32.u32 %f8, %r0;\n"
    "  tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [picture, {%f8, %f8}];\n"
    "  add.f32 %f0, %f0, %f4;\n  st.global.f32 [%a0], %f0;\n  ret;\n}\n"
    ".visible .entry paint() {\n"
    "  .reg .b32 %r<4>;\n"
    "  mov.u32 %r0, %tid.x;\n  shl.b32 %r1, %r0, 2;\n  mov.u32 %r2, 0x40000000;\n  mov.u32 %r3, 0;\n"
    "  sust.b.2d.b32.trap [canvas, {%r1, %r3}], {%r2};\n  ret;\n}\n";

static CUarray make(unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = N, .Height = N, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = flags};
    CUarray array;

    CHECK(cuArray3DCreate_v2(&array, &shape));
    return array;
}

static void fill(CUarray array, float scale)
{
    float in[N * N];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = N * 4,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .WidthInBytes = N * 4, .Height = N};
    int i;

    for (i = 0; i < N * N; i++)
        in[i] = i * scale;
    CHECK(cuMemcpy2D_v2(&copy));
}

static void settings(CUtexref ref)
{
    float color[4] = {1, 2, 3, 4}, told[4] = {0}, low = -1, high = -1;
    CUaddress_mode address = 0;
    CUfilter_mode filter = 9;
    CUarray_format format = 0;
    unsigned flags = 0;
    int number = -1;

    TELL(cuTexRefSetFormat(ref, CU_AD_FORMAT_FLOAT, 1));
    TELL(cuTexRefSetAddressMode(ref, 0, CU_TR_ADDRESS_MODE_CLAMP));
    TELL(cuTexRefSetFilterMode(ref, CU_TR_FILTER_MODE_POINT));
    TELL(cuTexRefSetMipmapFilterMode(ref, CU_TR_FILTER_MODE_LINEAR));
    TELL(cuTexRefSetMipmapLevelBias(ref, 0.5f));
    TELL(cuTexRefSetMipmapLevelClamp(ref, 1, 3));
    TELL(cuTexRefSetMaxAnisotropy(ref, 4));
    TELL(cuTexRefSetBorderColor(ref, color));
    TELL(cuTexRefSetFlags(ref, 0));
    TELL(cuTexRefGetFormat(&format, &number, ref));
    printf("%d %d\n", format, number);
    TELL(cuTexRefGetAddressMode(&address, ref, 0));
    TELL(cuTexRefGetFilterMode(&filter, ref));
    printf("%d %d\n", address, filter);
    TELL(cuTexRefGetMipmapFilterMode(&filter, ref));
    TELL(cuTexRefGetMipmapLevelBias(&low, ref));
    printf("%d %g\n", filter, low);
    TELL(cuTexRefGetMipmapLevelClamp(&low, &high, ref));
    TELL(cuTexRefGetMaxAnisotropy(&number, ref));
    printf("%g %g %d\n", low, high, number);
    TELL(cuTexRefGetBorderColor(told, ref));
    TELL(cuTexRefGetFlags(&flags, ref));
    printf("%g %g %u\n", told[0], told[3], flags);
}

static void made(CUdeviceptr memory)
{
    CUDA_ARRAY_DESCRIPTOR rows = {.Width = 8, .Height = 2, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = N, .Height = N, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUmipmappedArray mipmap, found;
    CUarray array = make(0), same;
    CUdeviceptr at;
    CUtexref ref;
    size_t offset;

    if (TELL(cuTexRefCreate(&ref)) != CUDA_SUCCESS)
        return;
    settings(ref);
    TELL(cuTexRefGetArray(&same, ref));
    TELL(cuTexRefSetArray(ref, array, CU_TRSA_OVERRIDE_FORMAT));
    if (TELL(cuTexRefGetArray(&same, ref)) == CUDA_SUCCESS)
        printf("%d\n", same == array);
    TELL(cuTexRefGetAddress_v2(&at, ref));
    if (TELL(cuTexRefSetAddress_v2(&offset, ref, memory, N * 4)) == CUDA_SUCCESS) {
        TELL(cuTexRefGetAddress_v2(&at, ref));
        printf("%zu %d\n", offset, at == memory);
    }
    TELL(cuTexRefSetAddress2D_v2(ref, &rows, memory, 512));
    TELL(cuTexRefSetAddress2D_v3(ref, &rows, memory, 512));
    CHECK(cuMipmappedArrayCreate(&mipmap, &shape, 2));
    if (TELL(cuTexRefSetMipmappedArray(ref, mipmap, CU_TRSA_OVERRIDE_FORMAT)) == CUDA_SUCCESS) {
        TELL(cuTexRefGetMipmappedArray(&found, ref));
        printf("%d\n", found == mipmap);
    }
    TELL(cuTexRefDestroy(ref));
    CHECK(cuMipmappedArrayDestroy(mipmap));
    CHECK(cuArrayDestroy(array));
}

static void used(CUdeviceptr memory)
{
    CUarray picture = make(0), canvas = make(CUDA_ARRAY3D_SURFACE_LDST), found;
    CUmodule module;
    CUtexref line, ref;
    CUsurfref surface;
    CUdeviceptr out = allocate(N * 4);
    float seen[N];
    size_t offset;

    fill(picture, 100);
    fill(canvas, 1);
    if (TELL(cuModuleLoadData(&module, text)) != CUDA_SUCCESS)
        return;
    // The simulated driver knows no texture references of modules.
    if (TELL(cuModuleGetTexRef(&line, module, "line")) != CUDA_SUCCESS)
        return;
    TELL(cuModuleGetTexRef(&ref, module, "picture"));
    TELL(cuModuleGetSurfRef(&surface, module, "canvas"));
    TELL(cuTexRefSetFormat(line, CU_AD_FORMAT_FLOAT, 1));
    TELL(cuTexRefSetAddress_v2(&offset, line, memory, N * 4));
    TELL(cuTexRefSetArray(ref, picture, CU_TRSA_OVERRIDE_FORMAT));
    TELL(cuParamSetTexRef(find_kernel(module, "read"), CU_PARAM_TR_DEFAULT, line));
    launch(find_kernel(module, "read"), 1, N, (void *[]){&out});
    TELL(cuCtxSynchronize());
    TELL(cuMemcpyDtoH_v2(seen, out, sizeof seen));
    printf("%g %g\n", seen[1], seen[N - 1]);
    TELL(cuSurfRefSetArray(surface, canvas, 0));
    TELL(cuSurfRefGetArray(&found, surface));
    printf("%d\n", found == canvas);
    launch(find_kernel(module, "paint"), 1, N, NULL);
    TELL(cuCtxSynchronize());
    TELL(cuMemcpyAtoH_v2(seen, canvas, 0, sizeof seen));
    printf("%g %g\n", seen[1], seen[N - 1]);
    TELL(cuModuleUnload(module));
}

int main(void)
{
    CUdeviceptr memory;
    float in[N * 16];
    int i;

    start_driver();
    memory = allocate(sizeof in);
    for (i = 0; i < N * 16; i++)
        in[i] = i;
    CHECK(cuMemcpyHtoD_v2(memory, in, sizeof in));
    made(memory);
    used(memory);
    fill_and_see(8);
    return 0;
}
