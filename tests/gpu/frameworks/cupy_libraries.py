# CuPy: cuFFT, cuSOLVER, sorts, raw kernels, pinned memory, streams, textures
import cupy as cp

cp.random.seed(5)
x = cp.random.rand(1 << 16).astype(cp.float32)
print("fft", round(float(cp.abs(cp.fft.fft(x)).sum()), 0))
print("sort", float(cp.sort(x)[1000]), int(cp.argmax(x)))
a = cp.random.rand(64, 64)
print("solve", round(float(cp.linalg.solve(a + 64 * cp.eye(64), a).sum()), 6))
kernel = cp.RawKernel(r"""extern "C" __global__ void twice(float *x, int n) { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) x[i] *= 2; }""", "twice")
stream = cp.cuda.Stream(non_blocking=True)
with stream:
    kernel((256,), (256,), (x, x.size))
    total = x.sum()
stream.synchronize()
print("raw", round(float(total), 1))
managed = cp.cuda.alloc_pinned_memory(4096)
with cp.cuda.using_allocator(cp.cuda.malloc_async):
    print("pool", float((cp.arange(1000, dtype=cp.float64) ** 2).sum()))
