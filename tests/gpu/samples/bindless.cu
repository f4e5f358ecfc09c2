// Texture and surface objects kept in device memory, in a struct passed by value, and in a constant variable
#include "sample.h"

enum { IMAGES = 12, SIDE = 24 };

struct Image {
    float weight;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    int side;
};

struct Two {
    int before;
    Image images[2];
};

__constant__ Image favourite;

__global__ void mix(const Image *images, int count, float *out)
{
    int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += images[i].weight * tex2D<float>(images[i].texture, x + 0.5f, y + 0.5f);
    out[y * SIDE + x] = sum;
}

__global__ void through_struct(Two two, float *out)
{
    int x = threadIdx.x, y = threadIdx.y;
    float value = tex2D<float>(two.images[0].texture, y + 0.5f, x + 0.5f);
    surf2Dwrite(value + tex2D<float>(favourite.texture, x, y), two.images[1].surface, x * 4, y);
    out[y * SIDE + x] = value;
}

int main()
{
    std::vector<Image> images(IMAGES);
    std::vector<cudaArray_t> arrays(IMAGES);
    std::vector<float> values = numbers(SIDE * SIDE * IMAGES);
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
    for (int i = 0; i < IMAGES; i++) {
        CHECK(cudaMallocArray(&arrays[i], &channel, SIDE, SIDE, cudaArraySurfaceLoadStore));
        CHECK(cudaMemcpy2DToArray(arrays[i], 0, 0, &values[i * SIDE * SIDE], SIDE * 4, SIDE * 4, SIDE, cudaMemcpyHostToDevice));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = arrays[i];
        cudaTextureDesc desc = {};
        images[i].weight = i + 1;
        images[i].side = SIDE;
        CHECK(cudaCreateTextureObject(&images[i].texture, &resource, &desc, nullptr));
        CHECK(cudaCreateSurfaceObject(&images[i].surface, &resource));
        // Some go again, so that the numbers of the later ones are used a second time
        if (i % 3 == 2) {
            CHECK(cudaDestroyTextureObject(images[i].texture));
            CHECK(cudaCreateTextureObject(&images[i].texture, &resource, &desc, nullptr));
        }
    }
    Image *device = upload(images);
    CHECK(cudaMemcpyToSymbol(favourite, &images[7], sizeof(Image)));
    float *out = allocate<float>(SIDE * SIDE);
    mix<<<1, dim3(SIDE, SIDE)>>>(device, IMAGES, out);
    std::vector<float> results = download(out, SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) {
        float sum = 0;
        for (int k = 0; k < IMAGES; k++)
            sum += (k + 1) * values[k * SIDE * SIDE + i];
        REQUIRE(results[i] == sum);
    }
    print("mixed", results);
    Two two = {1, {images[3], images[4]}};
    through_struct<<<1, dim3(SIDE, SIDE)>>>(two, out);
    std::vector<float> written(SIDE * SIDE);
    print("transposed", download(out, SIDE * SIDE));
    CHECK(cudaMemcpy2DFromArray(written.data(), SIDE * 4, arrays[4], 0, 0, SIDE * 4, SIDE, cudaMemcpyDeviceToHost));
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            REQUIRE(written[y * SIDE + x] == values[(3 * SIDE + x) * SIDE + y] + values[(7 * SIDE + y) * SIDE + x]);
    print("written", written);
    return 0;
}
