# CuPy: what is read is not in ordinary arrays. Tables in constant memory that graphs fill from pinned memory over and over between their
# kernels; textures of pitched memory and of 3-D arrays refilled inside graphs, their handles given out again; dozens of modules loaded
# and unloaded; kernels compiled from Python; sorting, sets and histograms in threads; Fourier plans that push each other out.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_modules_churn")
import gc
import hashlib
import threading
import numpy as np
import cupy as cp
import cupyx
from cupy.cuda import compiler, runtime, texture
from cupyx import jit

H2D, D2H, D2D = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost, runtime.memcpyDeviceToDevice


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def sync():
    cp.cuda.Device().synchronize()


def grid(n):
    return ((n + 255) // 256,), (256,)


TABLES = r"""
__constant__ int table[256];
__device__ int log_[64];
__device__ unsigned int count;
extern "C" __global__ void look_up(const int* in, int* out, int n, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = out[i] * 5 + table[(in[i] + shift) & 255];
    if (i == 0) { log_[count & 63] = table[shift & 255]; count++; }
}
"""


def tables():
    """Each launch of the graph fills the table four times, from four places of pinned memory, and uses it after each."""
    mod, n, s = cp.RawModule(code=TABLES), 20_000, cp.cuda.Stream(non_blocking=True)
    look_up = mod.get_function("look_up")
    table, log = mod.get_global("table"), cp.ndarray((64,), cp.int32, mod.get_global("log_"))
    count = cp.ndarray((1,), cp.uint32, mod.get_global("count"))
    host, back = cupyx.zeros_pinned((4, 256), np.int32), cupyx.zeros_pinned((4, 256), np.int32)
    x, y = cp.arange(n, dtype=cp.int32), cp.zeros(n, cp.int32)
    sync()
    with s:
        look_up(*grid(n), (x, y, np.int32(n), np.int32(0)))
        s.synchronize()
        s.begin_capture()
        for k in range(4):
            runtime.memcpyAsync(table.ptr, host[k].ctypes.data, 1024, H2D, s.ptr)
            look_up(*grid(n), (x, y, np.int32(n), np.int32(k * 3)))
            runtime.memcpyAsync(back[k].ctypes.data, table.ptr if k % 2 else y.data.ptr, 1024, D2H, s.ptr)
        g = s.end_capture()
    rng, seen = np.random.default_rng(1), hashlib.sha256()
    for i in range(25):
        if i % 5 != 4:
            host[i % 4] = rng.integers(0, 1 << 16, 256)
            host[(i + 1) % 4, ::7] ^= back[i % 4, ::7] & 0xFFFF
        g.launch(s)
        s.synchronize()
        seen.update(back.tobytes())
        if i % 6 == 5:  # by other ways: an array over the table, and a copy on the device
            cp.ndarray((256,), cp.int32, table)[...] = y[:256]
            sync()
    print("tables", int(count[0]), seen.hexdigest()[:16], digest(y, log))


SAMPLE = r"""
extern "C" __global__ void sample2(cudaTextureObject_t t, float* out, int w, int h, float c, float s) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = x - w * 0.5f, v = y - h * 0.5f;
    out[y * w + x] = tex2D<float>(t, u * c - v * s + w * 0.5f, u * s + v * c + h * 0.5f);
}
extern "C" __global__ void sample3(cudaTextureObject_t t, float* out, int w, int h, float z) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] += tex3D<float>(t, x + 0.5f, y + 0.5f, z);
}
"""


def textures():
    mod, w, h, d = cp.RawModule(code=SAMPLE), 128, 96, 6
    sample2, sample3 = mod.get_function("sample2"), mod.get_function("sample3")
    blocks, threads_ = (w // 16, h // 16), (16, 16)
    kind = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    clamp = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModePoint, runtime.cudaReadModeElementType)
    # a frame is turned into the other one and back, each seen as a texture that is made anew every time
    frames, seen = [cp.asarray(np.random.default_rng(2).random((h, w), dtype=np.float32)), cp.zeros((h, w), cp.float32)], []
    for i in range(24):
        a, b = frames[i % 2], frames[1 - i % 2]
        tex = texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypePitch2D, arr=a, chDesc=kind, width=w, height=h, pitchInBytes=4 * w), clamp)
        sample2(blocks, threads_, (tex, b, np.int32(w), np.int32(h), np.float32(0.96875), np.float32(0.125)))
        if i % 8 == 7:
            b += np.float32(0.25)
            seen.append(b.copy())
        sync()
        del tex
    print("textures", digest(*seen))
    # a volume refilled in a graph from pinned memory, which the CPU changes between launches
    s, host = cp.cuda.Stream(non_blocking=True), cupyx.zeros_pinned((d, h, w), np.float32)
    volume, out = texture.CUDAarray(kind, w, h, d), cp.zeros((h, w), cp.float32)
    edge = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 3, runtime.cudaFilterModePoint, runtime.cudaReadModeElementType)
    tex = texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=volume), edge)
    sync()
    with s:
        sample3(blocks, threads_, (tex, out, np.int32(0), np.int32(0), np.float32(0)))
        s.synchronize()
        s.begin_capture()
        volume.copy_from(host, stream=s)
        for z in range(d):
            sample3(blocks, threads_, (tex, out, np.int32(w), np.int32(h), np.float32(z + 0.5)))
        g = s.end_capture()
    for i in range(12):
        host[i % d] = (np.arange(h * w, dtype=np.float32).reshape(h, w) * (i + 1)) % 251
        g.launch(s)
        s.synchronize()
        if i % 5 == 4:
            out[: h // 2] *= np.float32(0.5)
            sync()
    print("volume", digest(out))


def many_modules():
    """Modules come and go; a kernel of each is used, also in a graph that lives as long as its module."""
    images, Module = {}, cp.cuda.function.Module
    x, seen, kept, s = cp.arange(10_000, dtype=cp.int32), [], [], cp.cuda.Stream(non_blocking=True)
    sync()
    for i in range(24):
        code = 'extern "C" __global__ void f(int* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * %d + (x[i] >> %d); }' % (3 + i % 8, 1 + i % 4)
        if code not in images:
            images[code] = compiler.compile_using_nvrtc(code)[0]
        mod = Module()  # of the later ones the code is known, but they are modules of their own
        mod.load(images[code])
        f = mod.get_function("f")
        with s:
            f(*grid(x.size), (x, np.int32(x.size)))
            if i % 3 == 0:
                s.synchronize()
                s.begin_capture()
                f(*grid(x.size), (x, np.int32(x.size)))
                f(*grid(x.size // 2), (x, np.int32(x.size // 2)))
                kept.append((mod, f, s.end_capture()))
            for _, _, g in kept[-3:]:
                g.launch(s)
            s.synchronize()
        seen.append(int(x[i * 7]))
        del mod, f
        if i % 5 == 4:
            kept = kept[-2:]
            gc.collect()
    print("many modules", hashlib.sha256(repr(seen).encode()).hexdigest()[:16], digest(x))


@jit.rawkernel()
def blocks_sorted(x, y, n):
    """Each block sorts its 256 numbers in shared memory, odd with even."""
    i, t = jit.grid(1), jit.threadIdx.x
    row = jit.shared_memory(np.int32, 256)
    row[t] = 2147483647
    if i < n:
        row[t] = x[i]
    jit.syncthreads()
    for turn in range(256):
        if t % 2 == turn % 2 and t < 255:
            if row[t] > row[t + 1]:
                a = row[t]
                row[t] = row[t + 1]
                row[t + 1] = a
        jit.syncthreads()
    if i < n:
        y[i] = row[t]


@jit.rawkernel()
def counted(x, bins, most, n):
    i = jit.grid(1)
    if i < n:
        jit.atomic_add(bins, x[i] % 64, 1)
        jit.atomic_max(most, x[i] % 8, x[i])


def from_python():
    x, s = cp.asarray(np.random.default_rng(3).integers(0, 1 << 20, 7680).astype(np.int32)), cp.cuda.Stream(non_blocking=True)
    y, bins, most = cp.zeros_like(x), cp.zeros(64, cp.int32), cp.zeros(8, cp.int32)
    n = np.int32(x.size)
    sync()
    with s:
        for i in range(3):
            blocks_sorted[x.size // 256, 256](x, y, n)
            counted[x.size // 256, 256](y, bins, most, n)
            x, y = (y[::-1] * 3 % 1_000_003).astype(cp.int32), x
        s.synchronize()
        s.begin_capture()
        blocks_sorted[x.size // 256, 256](x, y, n)
        counted[x.size // 256, 256](y, bins, most, n)
        runtime.memcpyAsync(x.data.ptr + 400, y.data.ptr, x.nbytes - 400, D2D, s.ptr)
        g = s.end_capture()
        for i in range(6):
            g.launch(s)
        s.synchronize()
    print("from Python", digest(x, y), digest(bins, most))


def in_threads():
    """The library's sorts and sets, on streams and in stream-ordered memory of each thread's own."""
    results = [None] * 4
    pool = cp.cuda.MemoryAsyncPool()

    def run(k):
        try:
            rng, seen = np.random.default_rng(50 + k), []
            with cp.cuda.using_allocator(pool.malloc), cp.cuda.Stream(non_blocking=True) as s:
                for i in range(8):
                    a = cp.asarray(rng.integers(0, 5000, 20_000 + 1000 * i + k).astype(np.int32))
                    u, inverse, counts = cp.unique(a, return_inverse=True, return_counts=True)
                    order = cp.argsort(a[:5000] * 8192 + cp.arange(5000, dtype=cp.int32))
                    total = cp.cumsum(counts)
                    hist = cp.bincount(a % 100, minlength=100)
                    where = cp.searchsorted(u, a[: 500 + i])
                    seen.append(digest(u, inverse, total, order, hist, where, cp.sort(a)[::97], cp.flatnonzero(a < 10)))
                    del a, u, inverse, counts, order, total, hist, where
                s.synchronize()
            results[k] = hashlib.sha256("".join(seen).encode()).hexdigest()[:12]
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    sync()
    print("in threads", *results)


def plans():
    """More shapes than the cache of plans has room for, so that plans and their workspaces are thrown away and made again."""
    cache, seen = cp.fft.config.get_plan_cache(), []
    cache.set_size(4)
    for turn in range(2):
        for i in range(7):
            n = (64, 100, 121, 243, 250, 343, 512)[i]
            x = cp.asarray(np.random.default_rng(i).standard_normal((8, n)))
            f = cp.fft.rfft(x) if i % 2 else cp.fft.fft(x + 1j)
            seen += [f, cp.fft.ifft(f * (turn + 1))]
    s = cp.cuda.Stream(non_blocking=True)
    sync()
    with s:
        y = cp.fft.fft2(cp.arange(60 * 84, dtype=cp.float64).reshape(60, 84) % 17)
        for _ in range(5):
            y = cp.fft.ifft2(cp.fft.fft2(y) * 0.5)
        s.synchronize()
    cache.set_size(16)
    print("plans", digest(*seen), digest(y))


for part in (tables, textures, many_modules, from_python, in_threads, plans):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
sync()
