# CuPy: raw kernels and modules, element-wise and reduction kernels, fusion, streams and events, host functions on a
# stream, graphs by stream capture.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_kernels")
import hashlib
import numpy as np
import cupy as cp
import cupyx

RNG = np.random.default_rng(17)


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


MODULE = r"""
__constant__ float taps[9];
__device__ unsigned int calls;
template <typename T> struct Pair { T a, b; };

template <typename T, int N>
__global__ void poly(const T* x, T* y, int n, Pair<T> p) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        T v = p.a;
        #pragma unroll
        for (int k = 0; k < N; ++k) v = v * x[i] + p.b;
        y[i] = v;
    }
    if (threadIdx.x == 0) atomicAdd(&calls, 1u);
}

extern "C" __global__ void blur(const float* x, float* y, int w, int h) {
    extern __shared__ float tile[];
    int lx = threadIdx.x, ly = threadIdx.y, p = blockDim.x + 2;
    int gx = blockIdx.x * blockDim.x + lx, gy = blockIdx.y * blockDim.y + ly;
    for (int j = ly; j < (int)blockDim.y + 2; j += blockDim.y)
        for (int i = lx; i < p; i += blockDim.x) {
            int sx = min(max((int)(blockIdx.x * blockDim.x) + i - 1, 0), w - 1);
            int sy = min(max((int)(blockIdx.y * blockDim.y) + j - 1, 0), h - 1);
            tile[j * p + i] = x[sy * w + sx];
        }
    __syncthreads();
    if (gx >= w || gy >= h) return;
    float s = 0;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i) s += taps[3 * j + i] * tile[(ly + j) * p + lx + i];
    y[gy * w + gx] = s;
}
"""

def raw():
    mod = cp.RawModule(code=MODULE, options=("--std=c++17",), name_expressions=["poly<float, 3>", "poly<double, 7>"])
    taps = cp.ndarray((9,), cp.float32, mod.get_global("taps"))
    taps.set(np.arange(1, 10, dtype=np.float32) / 45)
    out = []
    for name, dt in (("poly<float, 3>", np.float32), ("poly<double, 7>", np.float64)):
        x = cp.asarray(RNG.standard_normal(10_000).astype(dt))
        y = cp.empty_like(x)
        pair = np.array((0.75, -0.5), dtype=[("a", dt), ("b", dt)])  # a struct by value: a 0-d array
        mod.get_function(name)((40,), (128,), (x, y, np.int32(x.size), pair))
        out.append(y)
    img = cp.asarray(RNG.standard_normal((123, 250)).astype(np.float32))
    a, b = cp.empty_like(img), cp.empty_like(img)
    blur = mod.get_function("blur")
    for i in range(5):
        src, dst = ((img, a), (a, b))[i % 2] if i < 2 else ((b, a), (a, b))[i % 2]
        blur((8, 8), (32, 16), (src, dst, np.int32(250), np.int32(123)), shared_mem=34 * 18 * 4)
        if i == 2:
            taps[4] = 0.25  # constant memory changed by a kernel between launches
    calls = cp.ndarray((1,), cp.uint32, mod.get_global("calls"))
    print("raw", digest(*out), digest(a, b), "calls", int(calls[0]), "regs", blur.attributes["num_regs"] > 0)


def generated():
    mix = cp.ElementwiseKernel("T x, T y, raw T table, int32 m", "T z, int32 k",
                               "k = (int)(abs(x) * 7) % m; z = x * table[k] + y * table[(i + 1) % m]", "mix")
    norm = cp.ReductionKernel("T x, T w", "T y", "x * x * w", "a + b", "y = sqrt(a)", "0", "wnorm")
    x, y = (cp.asarray(RNG.standard_normal((70, 300))) for _ in range(2))
    z, k = mix(x, y, cp.linspace(0, 1, 13), 13)

    @cp.fuse()
    def act(v, s):
        return cp.where(v > 0, v, cp.expm1(v)) * s + cp.abs(v) ** 0.5

    f = act(x, 0.25)
    print("generated", digest(z, k), digest(norm(x, abs(y), axis=1)), digest(f), digest(f.astype(cp.float32).sum(0), cp.cumsum(k[0])))


def streams():
    n, chunks = 1 << 18, 6
    src = cupyx.empty_pinned((chunks, n), dtype=np.float32)
    dst = cupyx.zeros_pinned((chunks, n), dtype=np.float32)
    src[...] = RNG.standard_normal((chunks, n), dtype=np.float32)
    ss = [cp.cuda.Stream(non_blocking=True, priority=-(i % 2)) for i in range(3)]
    ev = [cp.cuda.Event(disable_timing=True) for _ in range(chunks)]
    bufs = [cp.empty(n, cp.float32) for _ in range(chunks)]
    total = cp.zeros(n, cp.float32)
    cp.cuda.Device().synchronize()
    for c in range(chunks):
        with ss[c % 3] as s:
            bufs[c].set(src[c], stream=s)
            bufs[c] *= np.float32(c + 1)
            cp.sqrt(cp.abs(bufs[c]), out=bufs[c])
            bufs[c].get(stream=s, out=dst[c], blocking=False)
            ev[c].record(s)
    join = cp.cuda.Stream()
    with join:
        for c in range(chunks):
            join.wait_event(ev[c])
            total += bufs[c]
    join.synchronize()
    # the host takes part in the order of the stream: copy out, change on the CPU, copy in
    buf = cupyx.zeros_pinned(1000, dtype=np.float32)

    def on_host(v):
        buf[:] = np.cumsum(buf, dtype=np.float32) % np.float32(v)

    d = cp.arange(1000, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    with ss[0] as s:
        for v in (97, 31, 11):
            d.get(stream=s, out=buf, blocking=False)
            s.launch_host_func(on_host, v)
            d.set(buf, stream=s)
            d += 1
    ss[0].synchronize()
    t0, t1 = cp.cuda.Event(), cp.cuda.Event()
    t0.record(); t1.record(); t1.synchronize()
    print("streams", digest(dst), digest(total), "host function", digest(d), cp.cuda.get_elapsed_time(t0, t1) >= 0)


def graphs():
    s, s2 = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    e1, e2 = cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True)
    x, y, z = cp.linspace(0, 1, 5000), cp.zeros(5000), cp.zeros(5000)

    def work():
        cp.multiply(x, 1.25, out=y)
        e1.record(s)
        s2.wait_event(e1)
        with s2:
            cp.sin(y, out=z)
            e2.record(s2)
        cp.subtract(y, 0.125, out=y)
        s.wait_event(e2)
        cp.add(y, z, out=x)

    with s:
        work()  # loads the kernels
        s.synchronize()
        s2.synchronize()
        s.begin_capture()
        work()
        g = s.end_capture()
        g.upload()
        for _ in range(5):
            g.launch()
            x *= 0.5
    s.synchronize()
    print("graphs", digest(x, y, z))


for part in (raw, generated, streams, graphs):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
