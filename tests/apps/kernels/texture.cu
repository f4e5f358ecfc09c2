// Reads a two-dimensional texture by unnormalised coordinates
extern "C" __global__ void sample(cudaTextureObject_t image, float4 *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[y * width + x] = tex2D<float4>(image, x + 0.5f, y + 0.5f);
}

// Texture objects that are kept in memory: the first texel of each
extern "C" __global__ void sample_stored(const cudaTextureObject_t *images, float4 *out)
{
    out[threadIdx.x] = tex2D<float4>(images[threadIdx.x], 0.5f, 0.5f);
}
