# CuPy: pinned and managed memory (written by the CPU too), memory pools, textures and surfaces.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_memory")
import ctypes
import hashlib
import numpy as np
import cupy as cp
from cupy.cuda import runtime, texture

RNG = np.random.default_rng(18)


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


TEXTURES = r"""
extern "C" __global__ void sample(cudaTextureObject_t t, float* out, int w, int h, float angle) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = x - w * 0.5f, v = y - h * 0.5f;
    out[y * w + x] = tex2D<float>(t, u * angle + v * 0.5f + w * 0.5f + 0.5f, v * angle - u * 0.5f + h * 0.5f + 0.5f);
}
extern "C" __global__ void paint(cudaSurfaceObject_t s, int w, int h, float k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) surf2Dwrite(k * x - y, s, x * 4, y);
}
"""


def managed():
    pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.zeros(100_000, cp.float32)
        view = np.frombuffer((ctypes.c_float * a.size).from_address(a.data.ptr), dtype=np.float32)
        for i in range(4):
            cp.cuda.Device().synchronize()
            view[i::7] += i + 1  # by the CPU, through the same address
            a *= np.float32(1.5)
            if i == 1:
                try:
                    runtime.memPrefetchAsync(a.data.ptr, a.nbytes, 0, cp.cuda.Stream.null.ptr)
                except Exception as e:
                    print("skipped: prefetch", type(e).__name__)
        cp.cuda.Device().synchronize()
        print("managed", hashlib.sha256(view.tobytes()).hexdigest()[:16], digest(a[:5000] + 1))
        del view, a
    pool.free_all_blocks()


def pools():
    sums, pool = [], cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        pool.set_limit(size=256 << 20)
        keep = [cp.full(1 << (10 + i), i, cp.int32) for i in range(10)]
        del keep[::2]
        try:
            cp.empty(1 << 30, cp.uint8)
        except cp.cuda.memory.OutOfMemoryError:
            sums.append("limit")
        sums += [int(k.sum()) for k in keep]
        del keep
        pool.free_all_blocks()
    with cp.cuda.using_allocator(cp.cuda.MemoryAsyncPool().malloc):
        s = cp.cuda.Stream(non_blocking=True)
        with s:
            v = cp.arange(50_000, dtype=cp.int64)
            for i in range(8):
                v = v * 3 + i  # the old block goes back in stream order
            s.synchronize()
        sums.append(int(v.sum()))
        del v
    pinned = cp.cuda.PinnedMemoryPool()
    cp.cuda.set_pinned_memory_allocator(pinned.malloc)
    blocks = [cp.asarray(np.full((300, 10 * i + 1), i, np.int16)).sum().get() for i in range(6)]
    cp.cuda.set_pinned_memory_allocator(cp.get_default_pinned_memory_pool().malloc)
    pinned.free_all_blocks()
    print("pools", sums, [int(b) for b in blocks])


def textures():
    w, h = 160, 96
    mod = cp.RawModule(code=TEXTURES)
    ch = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    arr = texture.CUDAarray(ch, w, h, flags=2)  # surface load and store too
    arr.copy_from(cp.asarray(RNG.standard_normal((h, w)).astype(np.float32)))
    res = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=arr)
    out, grid, block = [], (10, 6), (16, 16)
    for mode, flt in ((runtime.cudaAddressModeClamp, runtime.cudaFilterModePoint), (runtime.cudaAddressModeBorder, runtime.cudaFilterModeLinear)):
        tex = texture.TextureObject(res, texture.TextureDescriptor((mode, mode), flt, runtime.cudaReadModeElementType))
        o = cp.empty((h, w), cp.float32)
        mod.get_function("sample")(grid, block, (tex, o, np.int32(w), np.int32(h), np.float32(0.875)))
        out.append(o)
    surf = texture.SurfaceObject(res)
    mod.get_function("paint")(grid, block, (surf, np.int32(w), np.int32(h), np.float32(0.5)))
    back = np.zeros((h, w), np.float32)
    cp.cuda.Device().synchronize()
    arr.copy_to(back)
    print("textures", digest(*out), "surface", digest(back))


for part in (managed, pools, textures):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
