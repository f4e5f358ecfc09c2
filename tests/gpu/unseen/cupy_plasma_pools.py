# CuPy: a plasma of particles on whole-number charges (so that atomics are exact): a raw module with templates, constant memory, textures
# that are filtered by the hardware, a surface that a kernel writes, sorting into cells, a spectral solver, a whole step as a graph. The
# same steps are run on each kind of memory pool (default, stream-ordered, managed, none, limited), and from threads; PyTorch looks on.
import ctypes
import os
import tempfile
CACHE = tempfile.mkdtemp(prefix="cupy_plasma_")
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["CUPY_CACHE_DIR"] = CACHE
import hashlib
import shutil
import threading
import numpy as np
import cupy as cp
import cupyx
from cupy.cuda import runtime, texture

NAME, TOTAL, N, G = "cupy_plasma_pools", hashlib.sha256(), 100_000, 128
CODE = r'''
struct Params { float dt, drag, strength, wind; };
__constant__ Params par;
__device__ unsigned long long steps;

extern "C" __global__ void deposit(const float2* pos, long long* rho, int n, int g) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = pos[i];
    int x = (int)p.x, y = (int)p.y, fx = (int)((p.x - x) * 256), fy = (int)((p.y - y) * 256);
    for (int k = 0; k < 4; ++k) {
        int a = (x + (k & 1)) % g, b = (y + (k >> 1)) % g;
        long long w = (long long)((k & 1) ? fx : 256 - fx) * ((k >> 1) ? fy : 256 - fy);
        atomicAdd((unsigned long long*)&rho[b * g + a], (unsigned long long)w);
    }
}

template <typename T, int CLAMP>
__global__ void push(float2* pos, float2* vel, const T* charge, cudaTextureObject_t fx, cudaTextureObject_t fy, int n, int g) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) ++steps;
    if (i >= n) return;
    float2 p = pos[i], v = vel[i];
    float u = (p.x + 0.5f) / g, w = (p.y + 0.5f) / g;
    float c = (float)charge[i] * par.strength;
    v.x = (v.x + par.dt * (c * tex2D<float>(fx, u, w) + par.wind)) * par.drag;
    v.y = (v.y + par.dt * c * tex2D<float>(fy, u, w)) * par.drag;
    if (CLAMP) { v.x = fminf(fmaxf(v.x, -4.f), 4.f); v.y = fminf(fmaxf(v.y, -4.f), 4.f); }
    p.x += par.dt * v.x; p.y += par.dt * v.y;
    p.x -= g * floorf(p.x / g); p.y -= g * floorf(p.y / g);
    if (!(p.x < g)) p.x = 0; if (!(p.y < g)) p.y = 0;
    pos[i] = p; vel[i] = v;
}

extern "C" __global__ void paint(cudaSurfaceObject_t s, const long long* rho, int g) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < g) surf2Dwrite((unsigned int)(rho[y * g + x] >> 8), s, x * 4, y);
}

extern "C" __global__ void near(const float2* pos, const int* order, const int* start, int* count, int g) {
    int cell = blockIdx.x, a = start[cell], b = start[cell + 1];
    for (int i = a + threadIdx.x; i < b; i += blockDim.x) {
        int c = 0;
        float2 p = pos[order[i]];
        for (int j = a; j < b; ++j) {
            float2 q = pos[order[j]];
            c += (p.x - q.x) * (p.x - q.x) + (p.y - q.y) * (p.y - q.y) < 0.04f;
        }
        count[order[i]] = c;
    }
}
'''


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        raw = np.ascontiguousarray(cp.asnumpy(a)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


class Plasma:
    def __init__(self, kind="float", seed=1, tag=0):
        push = "push<%s, 1>" % kind
        self.mod = cp.RawModule(code=CODE + "// %d" % tag, options=("-std=c++17",), name_expressions=[push])
        self.push, self.deposit, self.paint, self.near = map(self.mod.get_function, (push, "deposit", "paint", "near"))
        rng = np.random.default_rng(seed)
        self.pos = cp.asarray(rng.random((N, 2), dtype=np.float32) * G)
        self.vel = cp.asarray(rng.standard_normal((N, 2), dtype=np.float32))
        self.charge = cp.asarray(rng.integers(0, 2, N) * 2 - 1).astype({"float": cp.float32, "int": cp.int32, "short": cp.int16}[kind])
        self.rho, self.field = cp.zeros((G, G), cp.int64), cp.zeros((2, G, G), cp.float32)
        one = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
        self.arrays = [texture.CUDAarray(one, G, G) for _ in range(2)]
        wrap = (runtime.cudaAddressModeWrap,) * 2
        smooth = texture.TextureDescriptor(wrap, runtime.cudaFilterModeLinear, runtime.cudaReadModeElementType, normalizedCoords=1)
        self.tex = [texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=a), smooth) for a in self.arrays]
        word = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindUnsigned)
        self.canvas = texture.CUDAarray(word, G, G, 0, runtime.cudaArraySurfaceLoadStore)
        self.surface = texture.SurfaceObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=self.canvas))
        k = cp.fft.fftfreq(G) * 2 * np.pi
        k2 = k[:, None] ** 2 + k ** 2
        k2[0, 0] = 1
        self.kx, self.ky, self.k2 = 1j * k[None, :], 1j * k[:, None], k2

    def set_params(self, *values):
        par = cp.ndarray(4, cp.float32, self.mod.get_global("par"))
        par.set(np.asarray(values, np.float32))

    def solve(self):
        blocks = ((N + 255) // 256,)
        self.rho.fill(0)
        self.deposit(blocks, (256,), (self.pos, self.rho, np.int32(N), np.int32(G)))
        phi = cp.fft.fft2(self.rho / 65536.0) / self.k2
        self.field[0], self.field[1] = cp.fft.ifft2(-self.kx * phi).real, cp.fft.ifft2(-self.ky * phi).real

    def move(self):
        self.push(((N + 255) // 256,), (256,), (self.pos, self.vel, self.charge, self.tex[0], self.tex[1], np.int32(N), np.int32(G)))

    def step(self):
        self.solve()
        for a, f in zip(self.arrays, self.field):
            a.copy_from(f)
        self.move()

    def look(self):
        """Particles sorted into cells, neighbours counted, the picture by the surface."""
        cell = self.pos[:, 1].astype(cp.int32) * G + self.pos[:, 0].astype(cp.int32)
        order = cp.argsort(cell).astype(cp.int32)
        start = cp.searchsorted(cell[order], cp.arange(G * G + 1, dtype=cp.int32)).astype(cp.int32)
        count = cp.zeros(N, cp.int32)
        self.near((G * G,), (32,), (self.pos, order, start, count, np.int32(G)))
        self.paint((1, G), (G,), (self.surface, self.rho, np.int32(G)))
        picture = np.zeros((G, G), np.uint32)
        cp.cuda.get_current_stream().synchronize()
        self.canvas.copy_to(picture)
        steps = cp.ndarray(1, cp.uint64, self.mod.get_global("steps"))
        return count, picture, steps, self.pos, self.vel


def pools():
    mempool = cp.get_default_memory_pool()
    kinds = {"default": lambda: mempool.malloc, "stream-ordered": lambda: cp.cuda.MemoryAsyncPool().malloc,
             "managed": lambda: cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc, "none": lambda: None,
             "own": lambda: cp.cuda.MemoryPool().malloc}
    for name, make in kinds.items():
        try:
            cp.cuda.set_allocator(make())
            p = Plasma("float")
            for i in range(12):
                p.set_params(0.1, 0.99 + 0.001 * (i % 3), 0.02, 0.05 * (i - 6))
                p.step()
            if name == "managed":  # the CPU writes into it
                cp.cuda.Device().synchronize()
                host = np.frombuffer((ctypes.c_float * (2 * N)).from_address(p.vel.data.ptr), np.float32)
                host[:1000] = host[1000:2000] * 0.5
            p.step()
            print("pool", name, digest(*p.look()))
            del p
        except Exception as e:
            print("skipped: pool %s: %s" % (name, type(e).__name__))
        finally:
            cp.cuda.Device().synchronize()
            cp.cuda.set_allocator(mempool.malloc)
            mempool.free_all_blocks()


def graph():
    """The step without its plans and copies is a graph; parameters are in pinned memory and copied by the graph itself."""
    p, stream = Plasma("int", 2), cp.cuda.Stream(non_blocking=True)
    params, par = cupyx.zeros_pinned(4, np.float32), p.mod.get_global("par")
    params[:] = 0.1, 0.995, 0.03, 0
    p.set_params(*params)
    p.step()
    cp.cuda.Device().synchronize()
    blocks, n, g = ((N + 255) // 256,), np.int32(N), np.int32(G)
    with stream:
        stream.begin_capture()
        runtime.memcpyAsync(par.ptr, params.ctypes.data, 16, runtime.memcpyHostToDevice, stream.ptr)
        p.push(blocks, (256,), (p.pos, p.vel, p.charge, p.tex[0], p.tex[1], n, g))
        runtime.memsetAsync(p.rho.data.ptr, 0, p.rho.nbytes, stream.ptr)
        p.deposit(blocks, (256,), (p.pos, p.rho, n, g))
        p.paint((1, G), (G,), (p.surface, p.rho, g))
        made = stream.end_capture()
        for i in range(30):
            stream.synchronize()  # only then may the parameters change
            params[3] = 0.1 * (i % 5 - 2)
            made.launch(stream)
            if i % 10 == 9:
                stream.synchronize()
                cp.maximum(p.charge, -1, out=p.charge)
                p.field *= np.float32(0.5)
                for a, f in zip(p.arrays, p.field):
                    a.copy_from(f, stream)
        stream.synchronize()
        print("graph", digest(*p.look()))


def in_threads():
    results, errors = {}, []

    def work(i):
        try:
            with cp.cuda.Device(0), cp.cuda.Stream(non_blocking=True) as s:
                p = Plasma(("float", "int", "short")[i % 3], 10 + i, 1 + i)
                p.set_params(0.1, 0.99, 0.01 * (i + 1), 0)
                for _ in range(8):
                    p.solve()
                    for a, f in zip(p.arrays, p.field):
                        a.copy_from(f, s)
                    p.move()
                s.synchronize()
                results[i] = [cp.asnumpy(a, stream=s) for a in (p.pos, p.vel, p.rho)]
        except Exception as e:
            errors.append(type(e).__name__)

    for group in range(2):  # each has a module of its own: code that differs in a comment, other constants
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for e in sorted(set(errors)):
        print("skipped: threads: %s" % e)
    print("threads", digest(*(a for i in sorted(results) for a in results[i])))


def with_torch():
    import torch
    p = Plasma("short", 5)
    p.set_params(0.1, 0.99, 0.02, 0)
    v = torch.from_dlpack(p.vel)
    for i in range(6):
        p.step()
        cp.cuda.Device().synchronize()
        v.mul_(0.9).add_(torch.from_dlpack(p.pos).sin(), alpha=0.1)
        torch.cuda.synchronize()
    back = cp.from_dlpack((v @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]], device="cuda")).contiguous())
    print("with torch", digest(*p.look()), digest(back))


try:
    for f in (pools, graph, in_threads, with_torch):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
finally:
    shutil.rmtree(CACHE, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
