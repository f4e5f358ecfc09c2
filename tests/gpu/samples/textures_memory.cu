// Texture objects over linear and pitched memory: element and normalised reading, filtering, address modes
#include "sample.h"

__global__ void read_linear(cudaTextureObject_t texture, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex1Dfetch<float>(texture, n - 1 - i);
}

__global__ void read_bytes(cudaTextureObject_t texture, float4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex1Dfetch<float4>(texture, i);
}

__global__ void read_pitched(cudaTextureObject_t texture, float *out, int width, int height, float du, float dv)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[y * width + x] = tex2D<float>(texture, (x + 0.5f + du) / width, (y + 0.5f + dv) / height);
}

static cudaTextureObject_t make(cudaResourceDesc &resource, cudaTextureAddressMode address, cudaTextureFilterMode filter,
    cudaTextureReadMode read, bool normalised)
{
    cudaTextureDesc desc = {};
    desc.addressMode[0] = desc.addressMode[1] = address;
    desc.filterMode = filter;
    desc.readMode = read;
    desc.normalizedCoords = normalised;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    return texture;
}

int main()
{
    const int n = 5000, width = 100, height = 60;
    std::vector<float> values = numbers(n);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {upload(values), cudaCreateChannelDesc<float>(), n * sizeof(float)};
    cudaTextureObject_t texture = make(resource, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
    float *out = allocate<float>(width * height);
    read_linear<<<(n + 127) / 128, 128>>>(texture, out, n);
    std::vector<float> results = download(out, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == values[n - 1 - i]);
    print("linear", results);
    CHECK(cudaDestroyTextureObject(texture));

    std::vector<unsigned char> bytes = numbers<unsigned char>(4 * n, 256);
    resource.res.linear = {upload(bytes), cudaCreateChannelDesc<uchar4>(), bytes.size()};
    texture = make(resource, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeNormalizedFloat, false);
    float4 *wide = allocate<float4>(n);
    read_bytes<<<(n + 127) / 128, 128>>>(texture, wide, n);
    std::vector<float4> wides = download(wide, n);
    for (int i = 0; i < n; i++)
        REQUIRE(fabsf(wides[i].z * 255 - bytes[4 * i + 2]) < 1e-3f);
    print("normalised", wides);

    float *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, width * sizeof(float), height));
    CHECK(cudaMemcpy2D(pitched, pitch, values.data(), width * 4, width * 4, 50, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(reinterpret_cast<char *>(pitched) + 50 * pitch, pitch, 0, width * 4, 10));
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {pitched, cudaCreateChannelDesc<float>(), width, height, pitch};
    for (auto address : {cudaAddressModeWrap, cudaAddressModeMirror, cudaAddressModeBorder}) {
        texture = make(resource, address, cudaFilterModeLinear, cudaReadModeElementType, true);
        dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
        read_pitched<<<grid, block>>>(texture, out, width, height, address == cudaAddressModeWrap ? 0 : 7.25f, -3);
        results = download(out, width * height);
        for (int x = 0; x < width && address == cudaAddressModeWrap; x++)
            REQUIRE(results[10 * width + x] == values[7 * width + x]);
        print("pitched", results);
    }
    cudaResourceDesc asked;
    CHECK(cudaGetTextureObjectResourceDesc(&asked, texture));
    REQUIRE(asked.res.pitch2D.devPtr == pitched);
    return 0;
}
