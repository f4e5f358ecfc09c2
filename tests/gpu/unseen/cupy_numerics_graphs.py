# CuPy for numerical work: Fourier transforms with callbacks compiled in, spectral solvers and a conjugate gradient captured as
# graphs whose temporaries are the graph's own memory, batched factorisations over arrays of pointers, managed memory that
# both sides use in turns, sparse products, image warps through textures, random streams in threads, kernels from Python.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_numerics_graphs")
import ctypes
import hashlib
import threading
import numpy as np
import cupy as cp
from cupy.cuda import runtime
from cupyx.scipy.fftpack import get_fft_plan

CONJUGATE = r"""
extern "C" {
/* one block for sums, so that their order is always the same */
__global__ void dot(const double* a, const double* b, double* out, int n) {
    __shared__ double s[256];
    double v = 0;
    for (int i = threadIdx.x; i < n; i += 256) v += a[i] * b[i];
    s[threadIdx.x] = v;
    for (int k = 128; k; k /= 2) { __syncthreads(); if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; }
    if (!threadIdx.x) *out = s[0];
}
__global__ void laplace(const double* x, double* y, int w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / w, c = i % w;
    if (i >= w * w) return;
    y[i] = 4.05 * x[i] - (r ? x[i - w] : 0) - (r < w - 1 ? x[i + w] : 0) - (c ? x[i - 1] : 0) - (c < w - 1 ? x[i + 1] : 0);
}
__global__ void advance(double* x, double* r, const double* p, const double* ap, const double* rr, const double* pap, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { double a = *rr / *pap; x[i] += a * p[i]; r[i] -= a * ap[i]; }
}
__global__ void direct(double* p, const double* r, double* rr, const double* fresh, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = r[i] + *fresh / *rr * p[i];
}
}
"""


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape, dtype=np.float64):
    return cp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def conjugate_gradient():
    """Eight steps are one graph; the CPU looks at the residual in pinned memory after each launch and decides to go on."""
    import cupyx
    mod, w = cp.RawModule(code=CONJUGATE), 96
    dot, laplace, advance, direct = (mod.get_function(k) for k in ("dot", "laplace", "advance", "direct"))
    n, s, look = w * w, cp.cuda.Stream(non_blocking=True), cupyx.zeros_pinned((1,), np.float64)
    x, r, p, ap = (cp.zeros(n) for _ in range(4))
    rr, pap, fresh = (cp.zeros(1) for _ in range(3))
    grid = (n + 255) // 256,
    cp.cuda.Device().synchronize()
    with s:
        s.begin_capture()
        for _ in range(8):
            laplace(grid, (256,), (p, ap, np.int32(w)))
            dot((1,), (256,), (p, ap, pap, np.int32(n)))
            advance(grid, (256,), (x, r, p, ap, rr, pap, np.int32(n)))
            dot((1,), (256,), (r, r, fresh, np.int32(n)))
            direct(grid, (256,), (p, r, rr, fresh, np.int32(n)))
            runtime.memcpyAsync(rr.data.ptr, fresh.data.ptr, 8, runtime.memcpyDeviceToDevice, s.ptr)
        runtime.memcpyAsync(look.ctypes.data, rr.data.ptr, 8, runtime.memcpyDeviceToHost, s.ptr)
        g = s.end_capture()
        out, launches = [], 0
        for i in range(5):
            b = data(i, n)
            x.fill(0)
            r[...] = b
            p[...] = b
            dot((1,), (256,), (r, r, rr, np.int32(n)))
            while True:
                g.launch(s)
                s.synchronize()
                launches += 1
                if look[0] < 1e-12 or launches > 400:
                    break
            out.append(x.copy())
        s.synchronize()
    print("conjugate gradient", launches, digest(*out))


def graph_memory():
    """Captured while the driver's pools serve as allocator: temporaries become allocations and releases in the graph."""
    pool, s, t = cp.cuda.MemoryAsyncPool(), cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x, y = cp.arange(40_000, dtype=cp.int32), cp.zeros(40_000, cp.int32)

    def body():
        a = x * 3 + 1
        b = a[::-1] ^ (a >> 3)
        y[...] += b % 1009
        c = b * b
        del a
        x[...] = (x + c) & 0xFFFFF

    cp.cuda.Device().synchronize()
    with cp.cuda.using_allocator(pool.malloc):
        with s:
            body()  # compiled before the capture
            s.synchronize()
            s.begin_capture()
            body()
            body()
            g = s.end_capture()
        for i in range(12):
            g.launch(s)
            with t:  # the same pool is used beside it
                z = cp.full(50_000 + 100 * i, i, cp.int32)
                z *= 2
            if i % 4 == 3:
                s.synchronize()
                runtime.memPoolTrimTo(runtime.deviceGetDefaultMemPool(0), 0)
        s.synchronize()
        t.synchronize()
        total = int(z.sum())
        del z
    print("graph memory", total, digest(x, y))


def spectral():
    """A nonlinear wave by Fourier steps; the plan, its work area and the pointwise kernels are captured together."""
    s, n = cp.cuda.Stream(non_blocking=True), 256
    step = cp.ElementwiseKernel("complex128 u, float64 dt", "complex128 v", "v = u * exp(complex<double>(0, -dt * (u.real() * u.real() + u.imag() * u.imag())))", "kick")
    u = data(5, n, n).astype(cp.complex128) * 0.3
    k = cp.fft.fftfreq(n) * n
    drift = cp.exp(-1j * 0.0005 * (k[:, None] ** 2 + k[None, :] ** 2))
    v, f = cp.empty_like(u), cp.empty_like(u)
    plan = get_fft_plan(u, axes=(0, 1))
    cp.cuda.Device().synchronize()
    inverse = cp.float64(1 / (n * n))
    with s:
        def body():
            step(u, np.float64(0.01), v)
            plan.fft(v, f, cp.cuda.cufft.CUFFT_FORWARD)
            cp.multiply(f, drift, out=f)
            plan.fft(f, v, cp.cuda.cufft.CUFFT_INVERSE)
            cp.multiply(v, inverse, out=u)

        body()
        s.synchronize()
        s.begin_capture()
        for _ in range(5):
            body()
        g = s.end_capture()
        g.upload(s)
        seen = []
        for i in range(10):
            g.launch(s)
            if i % 3 == 2:
                body()
                drift *= cp.complex128(np.exp(0.001j))
            seen.append(u.copy())
        s.synchronize()
    print("spectral", digest(*seen))


def callbacks():
    """cuFFT compiles these into its kernels; what they read is at an address handed over with the plan."""
    load = r"""
    typedef float2 cufftComplex;
    struct Info { const float* window; int n; float k; };
    __device__ cufftComplex windowed(void* in, unsigned long long at, void* info, void* shared) {
        Info* i = (Info*)info;
        cufftComplex v = ((cufftComplex*)in)[at];
        float w = i->window[at % i->n] * i->k;
        v.x *= w; v.y *= w;
        return v;
    }
    """
    window = cp.asarray(np.hanning(512).astype(np.float32))
    info, out = cp.zeros(24, cp.uint8), []

    def describe(k):
        record = np.zeros((), np.dtype([("window", np.uint64), ("n", np.int32), ("k", np.float32), ("pad", np.uint64)]))
        record["window"], record["n"], record["k"] = window.data.ptr, 512, k
        info.set(np.frombuffer(record.tobytes(), np.uint8))

    for i in range(6):
        x = data(60 + i, 40, 512, dtype=np.complex64)
        describe(1 + i)
        with cp.fft.config.set_cufft_callbacks(cb_load=load, cb_load_name="windowed", cb_load_data=info.data, cb_ver="jit"):
            y = cp.fft.fft(x, axis=1)
        out.append(y)
        window *= np.float32(0.75)
        good = cp.allclose(y, cp.fft.fft(x * window / np.float32(0.75) * np.float32(1 + i), axis=1), atol=1e-2)
    print("callbacks", digest(*out), bool(good))


def batched():
    """Pointers to each matrix are written by kernels, and read by the library."""
    out = []
    for i, (count, n) in enumerate(((50, 16), (7, 40), (50, 16), (200, 5))):
        a = data(70 + i, count, n, n) + 3 * cp.eye(n)
        spd = a @ a.transpose(0, 2, 1)
        out += [cp.linalg.solve(a, data(80 + i, count, n, 3)), cp.linalg.inv(a), cp.linalg.cholesky(spd), cp.linalg.eigvalsh(spd)]
        out.append(cp.linalg.qr(data(90 + i, 60, 20))[1])
    print("batched", digest(*out), "matmul", digest(cp.einsum("bij,bjk->ik", data(95, 20, 30, 40), data(96, 20, 40, 30))))


def managed():
    """A pool of managed memory; the CPU and the GPU work on the same arrays by turns, some with advice and prefetching."""
    pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
    with cp.cuda.using_allocator(pool.malloc):
        grid, other = cp.zeros((300, 400), cp.float64), cp.zeros((300, 400), cp.float64)
        view = lambda a: np.ctypeslib.as_array((ctypes.c_double * a.size).from_address(a.data.ptr)).reshape(a.shape)
        cp.cuda.Device().synchronize()
        v, rng, seen = view(grid), np.random.default_rng(7), hashlib.sha256()
        for i in range(12):
            v[rng.integers(0, 300, 50), rng.integers(0, 400, 50)] += i + 1  # sources, set by the CPU
            if i == 4:
                try:
                    runtime.memPrefetchAsync(grid.data.ptr, grid.nbytes, 0, 0)
                except Exception as e:
                    print("skipped: prefetch", type(e).__name__)
            for _ in range(3):
                other[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])
                grid[...] = other
            if i % 3 == 0:
                temporary = cp.fft.rfft2(grid)  # managed as well
                grid *= 1 / (1 + cp.abs(temporary[0, 0]) * 1e-6)
                del temporary
            cp.cuda.Device().synchronize()
            seen.update(np.ascontiguousarray(v[::10]).tobytes())
            v[0] = v[150]  # the CPU carries the middle to the edge
        print("managed", seen.hexdigest()[:16], digest(grid))
        del v, grid, other
    pool.free_all_blocks()


def images():
    from cupyx.scipy import ndimage, signal
    image, out = data(100, 180, 240, dtype=np.float32), []
    try:
        for i in range(4):
            turn = np.array([[np.cos(i), -np.sin(i), 5.0], [np.sin(i), np.cos(i), -3.0], [0, 0, 1]], np.float32)
            out.append(ndimage.affine_transform(image, cp.asarray(turn), order=1, mode="constant", texture_memory=True))
    except Exception as e:
        print("skipped: texture_memory", type(e).__name__)
    labels, count = ndimage.label(ndimage.gaussian_filter(image, 3) > 0.02)
    out += [ndimage.median_filter(image, 3), ndimage.zoom(image, 1.37, order=3), (labels > 0).astype(cp.int8)]
    out += [signal.fftconvolve(image, data(101, 15, 15, dtype=np.float32)), ndimage.rotate(image, 33, order=1)]
    print("images", int(count), digest(*out))


def random_threads():
    results = [None] * 4

    def run(k):
        try:
            with cp.cuda.Stream(non_blocking=True) as s:
                g = cp.random.Generator((cp.random.XORWOW, cp.random.Philox4x3210, cp.random.MRG32k3a, cp.random.XORWOW)[k](seed=k + 1))
                parts = []
                for i in range(12):
                    parts += [g.random(5000), g.standard_normal(3000 + i), g.integers(0, 1000, 700), g.gamma(2.5, size=500)]
                results[k] = digest(*parts)
                s.synchronize()
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("random", *results)


def sparse():
    """Whole numbers, exact in any order of the sums."""
    from cupyx.scipy import sparse as sp
    rng = np.random.default_rng(8)
    coo = lambda n, m, k: sp.coo_matrix((cp.asarray(rng.integers(-4, 5, k).astype(np.float64)), (cp.asarray(rng.integers(0, n, k).astype(np.int32)), cp.asarray(rng.integers(0, m, k).astype(np.int32)))), shape=(n, m)).tocsr()
    a, b, x, out = coo(500, 300, 4000), coo(300, 400, 3000), cp.arange(400.0) % 7, []
    for i in range(10):
        c = a @ b
        y = c @ x
        x = cp.remainder(c.T @ y + i, 11.0)
        a = a + a.multiply(i % 2)
        a.data = cp.remainder(a.data, 13.0)
        out += [y, x.copy(), c.sum(axis=0)]
    print("sparse", a.nnz, c.nnz, digest(*out))


for part in (conjugate_gradient, graph_memory, spectral, batched, managed, images, random_threads, sparse, callbacks):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
