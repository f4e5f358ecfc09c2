// A mipmapped array, whose levels kernels make through surfaces, read at levels between
#include "sample.h"

enum { SIDE = 64, LEVELS = 5 };

__global__ void halve(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int side)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= side || y >= side)
        return;
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += surf2Dread<float>(from, (2 * x + i % 2) * 4, 2 * y + i / 2);
    surf2Dwrite(sum / 4, to, x * 4, y);
}

__global__ void sample_levels(cudaTextureObject_t texture, float *out, float level)
{
    int x = threadIdx.x, y = threadIdx.y;
    out[y * 32 + x] = tex2DLod<float>(texture, (x + 0.5f) / 32, (y + 0.5f) / 32, level);
}

int main()
{
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmap;
    CHECK(cudaMallocMipmappedArray(&mipmap, &channel, make_cudaExtent(SIDE, SIDE, 0), LEVELS, cudaArraySurfaceLoadStore));
    cudaArray_t levels[LEVELS];
    cudaSurfaceObject_t surfaces[LEVELS];
    for (int i = 0; i < LEVELS; i++) {
        CHECK(cudaGetMipmappedArrayLevel(&levels[i], mipmap, i));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = levels[i];
        CHECK(cudaCreateSurfaceObject(&surfaces[i], &resource));
    }
    std::vector<float> values = numbers(SIDE * SIDE);
    CHECK(cudaMemcpy2DToArray(levels[0], 0, 0, values.data(), SIDE * 4, SIDE * 4, SIDE, cudaMemcpyHostToDevice));
    for (int i = 1, side = SIDE / 2; i < LEVELS; i++, side /= 2)
        halve<<<dim3((side + 15) / 16, (side + 15) / 16), dim3(16, 16)>>>(surfaces[i - 1], surfaces[i], side);
    std::vector<float> second(32 * 32);
    CHECK(cudaMemcpy2DFromArray(second.data(), 32 * 4, levels[1], 0, 0, 32 * 4, 32, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 32; x++) {
            float *at = &values[2 * y * SIDE + 2 * x];
            REQUIRE(second[y * 32 + x] == (at[0] + at[1] + at[SIDE] + at[SIDE + 1]) / 4);
        }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = mipmap;
    cudaTextureDesc desc = {};
    desc.normalizedCoords = 1;
    desc.filterMode = cudaFilterModeLinear;
    desc.mipmapFilterMode = cudaFilterModeLinear;
    desc.maxMipmapLevelClamp = LEVELS - 1;
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    float *out = allocate<float>(32 * 32);
    for (float level : {1.0f, 1.5f, 3.75f, 9.0f}) {
        sample_levels<<<1, dim3(32, 32)>>>(texture, out, level);
        std::vector<float> results = download(out, 32 * 32);
        for (int i = 0; i < 32 * 32 && level == 1; i++)
            REQUIRE(fabsf(results[i] - second[i]) < 0.01f);
        print("level", results);
    }
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeMipmappedArray(mipmap));
    return 0;
}
