// Surface objects over 1D, 2D, 3D and layered arrays, written by kernels, read by surfaces, textures and copies
#include "sample.h"

enum { SIDE = 32, DEEP = 8 };

__global__ void write(cudaSurfaceObject_t line, cudaSurfaceObject_t plane, cudaSurfaceObject_t volume, cudaSurfaceObject_t layers)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    if (y == 0 && z == 0)
        surf1Dwrite(x * 3, line, x * 4);
    if (z == 0)
        surf2Dwrite(make_int2(x, y), plane, x * 8, y);
    surf3Dwrite(x + 100 * y + 10000 * z, volume, x * 4, y, z);
    surf2DLayeredwrite(x * y + z, layers, x * 4, y, z);
}

__global__ void gather(cudaSurfaceObject_t volume, cudaTextureObject_t plane, int *out)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    int2 there = tex2D<int2>(plane, y + 0.5f, x + 0.5f);
    out[(z * SIDE + y) * SIDE + x] = surf3Dread<int>(volume, x * 4, y, z) + there.x - there.y;
    // Outside: what is read is zero
    if (x == 0)
        out[(z * SIDE + y) * SIDE] += surf3Dread<int>(volume, SIDE * 4, y, z, cudaBoundaryModeZero);
}

static cudaSurfaceObject_t surface_of(cudaArray_t array)
{
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    return surface;
}

int main()
{
    cudaChannelFormatDesc one = cudaCreateChannelDesc<int>(), two = cudaCreateChannelDesc<int2>();
    cudaArray_t line, plane, volume, layers;
    CHECK(cudaMallocArray(&line, &one, SIDE, 0, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&plane, &two, SIDE, SIDE, cudaArraySurfaceLoadStore));
    CHECK(cudaMalloc3DArray(&volume, &one, make_cudaExtent(SIDE, SIDE, DEEP), cudaArraySurfaceLoadStore));
    CHECK(cudaMalloc3DArray(&layers, &one, make_cudaExtent(SIDE, SIDE, DEEP), cudaArrayLayered | cudaArraySurfaceLoadStore));
    cudaSurfaceObject_t in_volume = surface_of(volume);
    write<<<DEEP, dim3(SIDE, SIDE)>>>(surface_of(line), surface_of(plane), in_volume, surface_of(layers));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = plane;
    cudaTextureDesc desc = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    int *out = allocate<int>(SIDE * SIDE * DEEP);
    gather<<<DEEP, dim3(SIDE, SIDE)>>>(in_volume, texture, out);
    std::vector<int> results = download(out, SIDE * SIDE * DEEP), lines(SIDE), last(SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE * DEEP; i++) {
        int x = i % SIDE, y = i / SIDE % SIDE, z = i / SIDE / SIDE;
        REQUIRE(results[i] == x + 100 * y + 10000 * z + y - x);
    }
    print("volume", results);
    CHECK(cudaMemcpy2DFromArray(lines.data(), SIDE * 4, line, 0, 0, SIDE * 4, 1, cudaMemcpyDeviceToHost));
    REQUIRE(lines[31] == 93);
    print("line", lines);
    cudaMemcpy3DParms copy = {};
    copy.srcArray = layers;
    copy.srcPos.z = DEEP - 1;
    copy.dstPtr = make_cudaPitchedPtr(last.data(), SIDE * 4, SIDE, SIDE);
    copy.extent = make_cudaExtent(SIDE, SIDE, 1);
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    REQUIRE(last[5 * SIDE + 6] == 30 + DEEP - 1);
    print("last layer", last);
    return 0;
}
