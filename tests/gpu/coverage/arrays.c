// Arrays: mipmapped, of several planes, sparse, without memory yet; surfaces on them, and what objects tell of themselves
#include "tell.h"

enum { SIDE = 64 };

static CUdevice d;

static void see(const char *what, CUarray array, unsigned rows)
{
    static unsigned char out[SIDE * SIDE * 4];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = out, .dstPitch = rows, .WidthInBytes = rows, .Height = rows};

    memset(out, 0, sizeof out);
    if (TELL(cuMemcpy2D_v2(&copy)) == CUDA_SUCCESS)
        printf("%s %u %u\n", what, out[0], out[rows * rows - 1]);
}

static void paint(CUarray array, unsigned rows, int value)
{
    static unsigned char in[SIDE * SIDE];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = rows,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .WidthInBytes = rows, .Height = rows};

    memset(in, value, sizeof in);
    TELL(cuMemcpy2D_v2(&copy));
}

static void asked(CUarray array)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS needed;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUarray plane;

    TELL(cuArrayGetMemoryRequirements(&needed, array, d));
    TELL(cuArrayGetSparseProperties(&sparse, array));
    TELL(cuArrayGetPlane(&plane, array, 0));
}

static void mipmaps(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS needed;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUDA_RESOURCE_DESC resource, told;
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT, .mipmapFilterMode = CU_TR_FILTER_MODE_POINT,
        .maxMipmapLevelClamp = 2}, as;
    CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_1X8, .width = SIDE, .height = SIDE, .lastMipmapLevel = 2},
        through;
    CUmipmappedArray mipmap;
    CUtexObject texture;
    CUarray level;
    unsigned i;

    if (TELL(cuMipmappedArrayCreate(&mipmap, &shape, 3)) != CUDA_SUCCESS)
        return;
    for (i = 0; i < 3; i++) {
        TELL(cuMipmappedArrayGetLevel(&level, mipmap, i));
        paint(level, SIDE >> i, 20 + i);
        see("level", level, SIDE >> i);
    }
    TELL(cuMipmappedArrayGetMemoryRequirements(&needed, mipmap, d));
    TELL(cuMipmappedArrayGetSparseProperties(&sparse, mipmap));
    memset(&resource, 0, sizeof resource);
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = mipmap;
    sampling.flags = CU_TRSF_READ_AS_INTEGER;
    if (TELL(cuTexObjectCreate(&texture, &resource, &sampling, &view)) == CUDA_SUCCESS) {
        TELL(cuTexObjectGetResourceDesc(&told, texture));
        TELL(cuTexObjectGetTextureDesc(&as, texture));
        TELL(cuTexObjectGetResourceViewDesc(&through, texture));
        printf("%d %d %u %g %zu\n", told.res.mipmap.hMipmappedArray == mipmap, told.resType, as.flags, as.maxMipmapLevelClamp,
            through.width);
        TELL(cuTexObjectDestroy(texture));
    }
    TELL(cuMipmappedArrayDestroy(mipmap));
}

static void surfaces(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
        .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC resource, told;
    CUsurfObject surface;
    CUarray array;

    CHECK(cuArray3DCreate_v2(&array, &shape));
    asked(array);
    paint(array, SIDE, 30);
    memset(&resource, 0, sizeof resource);
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    if (TELL(cuSurfObjectCreate(&surface, &resource)) == CUDA_SUCCESS) {
        TELL(cuSurfObjectGetResourceDesc(&told, surface));
        printf("%d %d\n", told.res.array.hArray == array, told.resType);
        TELL(cuSurfObjectDestroy(surface));
    }
    see("surface", array, SIDE);
    CHECK(cuArrayDestroy(array));
}

static void planes(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_NV12, .NumChannels = 3};
    const unsigned flags[] = {CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, CUDA_ARRAY3D_SURFACE_LDST, 0};
    CUarray array, plane;
    unsigned i;

    // Which of them makes an array of such a format depends on the device.
    for (i = 0; i < sizeof flags / sizeof *flags; i++) {
        shape.Flags = flags[i];
        if (TELL(cuArray3DCreate_v2(&array, &shape)) == CUDA_SUCCESS)
            break;
    }
    if (i == sizeof flags / sizeof *flags)
        return;
    if (TELL(cuArrayGetPlane(&plane, array, 0)) == CUDA_SUCCESS) {
        paint(plane, SIDE, 40);
        see("plane", plane, SIDE);
    }
    CHECK(cuArrayDestroy(array));
}

// Memory for a whole array or a tile of one, mapped on a stream
static void map(CUarray array, CUDA_ARRAY_SPARSE_PROPERTIES tile, size_t bytes, int twin)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d}, .allocFlags = {.usage = CU_MEM_CREATE_USAGE_TILE_POOL}};
    CUarrayMapInfo one;
    CUmemGenericAllocationHandle memory;

    if (TELL(cuMemCreate(&memory, bytes, &prop, 0)) != CUDA_SUCCESS)
        return;
    memset(&one, 0, sizeof one);
    one.resourceType = CU_RESOURCE_TYPE_ARRAY;
    one.resource.array = array;
    one.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    one.subresource.sparseLevel.extentWidth = tile.tileExtent.width;
    one.subresource.sparseLevel.extentHeight = tile.tileExtent.height;
    one.subresource.sparseLevel.extentDepth = tile.tileExtent.depth;
    one.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    one.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    one.memHandle.memHandle = memory;
    one.deviceBitMask = 1u << d;
    if (EITHER(twin, cuMemMapArrayAsync, &one, 1, NULL) == CUDA_SUCCESS) {
        CHECK(cuCtxSynchronize());
        paint(array, SIDE, 50 + twin);
        see("sparse", array, SIDE);
        one.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
        one.memHandle.memHandle = 0;
        EITHER(twin, cuMemMapArrayAsync, &one, 1, NULL);
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuMemRelease(memory));
}

static void sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
        .Flags = CUDA_ARRAY3D_SPARSE};
    CUDA_ARRAY_SPARSE_PROPERTIES tile;
    CUmipmappedArray mipmap;
    CUarray array;

    if (TELL(cuArray3DCreate_v2(&array, &shape)) == CUDA_SUCCESS) {
        if (TELL(cuArrayGetSparseProperties(&tile, array)) == CUDA_SUCCESS) {
            map(array, tile, 2 << 20, 0);
            map(array, tile, 2 << 20, 1);
        }
        CHECK(cuArrayDestroy(array));
    }
    if (TELL(cuMipmappedArrayCreate(&mipmap, &shape, 4)) == CUDA_SUCCESS) {
        TELL(cuMipmappedArrayGetSparseProperties(&tile, mipmap));
        TELL(cuMipmappedArrayDestroy(mipmap));
    }
    shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (TELL(cuArray3DCreate_v2(&array, &shape)) == CUDA_SUCCESS) {
        asked(array);
        CHECK(cuArrayDestroy(array));
    }
    if (TELL(cuMipmappedArrayCreate(&mipmap, &shape, 4)) == CUDA_SUCCESS) {
        CUDA_ARRAY_MEMORY_REQUIREMENTS needed;
        TELL(cuMipmappedArrayGetMemoryRequirements(&needed, mipmap, d));
        TELL(cuMipmappedArrayDestroy(mipmap));
    }
}

int main(void)
{
    start_driver();
    CHECK(cuDeviceGet(&d, 0));
    mipmaps();
    surfaces();
    planes();
    sparse();
    fill_and_see(7);
    return 0;
}
