# CuPy: elementwise and reduction kernels, a raw module with several kernels, constant memory and templates, fusion, textures, managed memory
import cupy as cp

squared = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared")
norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
x, y = cp.arange(4096, dtype=cp.float32) / 64, cp.linspace(0, 1, 4096, dtype=cp.float32)
print(round(float(squared(x, y).sum()), 1), round(float(norm(y)), 4))
module = cp.RawModule(code=r"""
__constant__ float factors[4];
template <typename T> __global__ void scale(T *x, int n) { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) x[i] = T(x[i] * factors[i % 4]); }
extern "C" __global__ void shuffle(int *x) { x[threadIdx.x] = __shfl_xor_sync(~0u, (int)threadIdx.x, 5); }
""", options=("-std=c++17",), name_expressions=["scale<float>", "scale<double>"])
factors = cp.ndarray(4, cp.float32, module.get_global("factors"))
factors[:] = cp.array([1, 2, 3, 4], dtype=cp.float32)
d = cp.ones(1000)
module.get_function("scale<double>")((4,), (256,), (d, 1000))
s = cp.empty(32, dtype=cp.int32)
module.get_function("shuffle")((1,), (32,), (s,))
print(float(d.sum()), s.tolist()[:6])


@cp.fuse()
def fused(a, b):
    return cp.exp(-a * a) + cp.where(b > 0.5, a, b)


print(round(float(fused(y, y).sum()), 4))
with cp.cuda.using_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc):
    m = cp.arange(1000, dtype=cp.int64)
    print(int((m * m).sum()))
texture_code = r"""extern "C" __global__ void look(float *out, cudaTextureObject_t t, int w) { int x = threadIdx.x, y = blockIdx.x; out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f); }"""
channel = cp.cuda.texture.ChannelFormatDescriptor(32, 0, 0, 0, cp.cuda.runtime.cudaChannelFormatKindFloat)
array = cp.cuda.texture.CUDAarray(channel, 32, 16)
array.copy_from(cp.arange(512, dtype=cp.float32).reshape(16, 32))
texture = cp.cuda.texture.TextureObject(cp.cuda.texture.ResourceDescriptor(cp.cuda.runtime.cudaResourceTypeArray, cuArr=array), cp.cuda.texture.TextureDescriptor())
out = cp.zeros((16, 32), dtype=cp.float32)
cp.RawKernel(texture_code, "look")((16,), (32,), (out, texture, 32))
print(float(out.sum()))
