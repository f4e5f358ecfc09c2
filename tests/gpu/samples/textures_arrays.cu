// Textures over arrays of every shape: 1D, 2D, 3D, layered, cubemaps, layered cubemaps
#include "sample.h"

enum { SIDE = 16, LAYERS = 6 };

enum Shape { LINE, PLANE, VOLUME, LINES, PLANES, CUBE, CUBES };

__global__ void read(cudaTextureObject_t texture, Shape shape, float *out, int layers)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    float u = x + 0.25f, v = y + 0.75f, w = z + 0.5f, value = 0;
    float a = (2 * x + 1.0f) / SIDE - 1, b = (2 * y + 1.0f) / SIDE - 1;
    switch (shape) {
    case LINE: value = tex1D<float>(texture, u); break;
    case PLANE: value = tex2D<float>(texture, u, v); break;
    case VOLUME: value = tex3D<float>(texture, u, v, w); break;
    case LINES: value = tex1DLayered<float>(texture, u, z); break;
    case PLANES: value = tex2DLayered<float>(texture, u, v, z); break;
    case CUBE: value = texCubemap<float>(texture, z == 0 ? 1 : a, z == 1 ? -1 : b, z == 2 ? 1 : a * b); break;
    case CUBES: value = texCubemapLayered<float>(texture, z % 2 ? 1 : a, b, z == 2 ? -1 : 0.5f, z % layers); break;
    }
    out[(z * SIDE + y) * SIDE + x] = value;
}

static float lerp(float a, float b, float t) { return a + (b - a) * t; }

int main()
{
    struct { const char *name; Shape shape; cudaExtent extent; unsigned flags; int layers; } kinds[] = {
        {"1D", LINE, {SIDE, 0, 0}, 0, 1}, {"2D", PLANE, {SIDE, SIDE, 0}, 0, 1}, {"3D", VOLUME, {SIDE, SIDE, LAYERS}, 0, LAYERS},
        {"1D layered", LINES, {SIDE, 0, LAYERS}, cudaArrayLayered, LAYERS},
        {"2D layered", PLANES, {SIDE, SIDE, LAYERS}, cudaArrayLayered, LAYERS},
        {"cubemap", CUBE, {SIDE, SIDE, 6}, cudaArrayCubemap, 6},
        {"cubemap layered", CUBES, {SIDE, SIDE, 12}, cudaArrayCubemap | cudaArrayLayered, 12},
    };
    float *out = allocate<float>(SIDE * SIDE * LAYERS);
    for (auto &kind : kinds) {
        cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
        cudaArray_t array;
        CHECK(cudaMalloc3DArray(&array, &channel, kind.extent, kind.flags));
        int rows = kind.extent.height ? kind.extent.height : 1;
        std::vector<float> values = numbers(SIDE * rows * kind.layers);
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(values.data(), SIDE * sizeof(float), SIDE, rows);
        copy.dstArray = array;
        copy.extent = make_cudaExtent(SIDE, rows, kind.layers);
        copy.kind = cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3D(&copy));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = array;
        cudaTextureDesc desc = {};
        desc.filterMode = kind.shape >= CUBE ? cudaFilterModePoint : cudaFilterModeLinear;
        desc.normalizedCoords = kind.shape >= CUBE;
        desc.seamlessCubemap = kind.shape == CUBE;
        desc.addressMode[0] = desc.addressMode[1] = desc.addressMode[2] = cudaAddressModeClamp;
        cudaTextureObject_t texture;
        CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
        read<<<LAYERS, dim3(SIDE, SIDE)>>>(texture, kind.shape, out, 2);
        std::vector<float> results = download(out, SIDE * SIDE * LAYERS);
        if (kind.shape == PLANES) {
            for (int z = 0; z < LAYERS; z++) {
                auto at = [&](int x, int y) { return values[(z * SIDE + y) * SIDE + x]; };
                float wanted = lerp(lerp(at(4, 5), at(5, 5), 0.75f), lerp(at(4, 6), at(5, 6), 0.75f), 0.25f);
                REQUIRE(fabsf(results[(z * SIDE + 5) * SIDE + 5] - wanted) < 4);
            }
        }
        print(kind.name, results);
        cudaChannelFormatDesc channel_back;
        cudaExtent extent_back;
        unsigned flags_back;
        CHECK(cudaArrayGetInfo(&channel_back, &extent_back, &flags_back, array));
        REQUIRE(extent_back.width == SIDE && (flags_back & kind.flags) == kind.flags);
        CHECK(cudaDestroyTextureObject(texture));
        CHECK(cudaFreeArray(array));
    }
    return 0;
}
