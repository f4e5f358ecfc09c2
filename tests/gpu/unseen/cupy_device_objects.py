# CuPy: data structures that live on the device and are full of addresses: objects with virtual functions, nodes from the
# device's heap, function pointers fetched by the host and passed back as arguments, pointers packed, xored and halved,
# structures passed by value, arrays of texture handles, managed variables, clusters, grid-wide steps, kernels by kernels.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_device_objects")
import ctypes
import hashlib
import numpy as np
import cupy as cp
from cupy.cuda import runtime, texture


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape):
    return cp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


SHAPES = r"""
typedef unsigned long long u64;
struct Shape {
    float x, y;
    __device__ Shape(float x, float y) : x(x), y(y) {}
    __device__ virtual float distance(float px, float py) const = 0;
    __device__ virtual void grow(float k) = 0;
    static __device__ void* operator new(size_t, void* p) { return p; }
    static __device__ void operator delete(void*, void*) {}
    static __device__ void operator delete(void*) {}
};
struct Circle : Shape {
    float r;
    __device__ Circle(float x, float y, float r) : Shape(x, y), r(r) {}
    __device__ float distance(float px, float py) const override { return sqrtf((px - x) * (px - x) + (py - y) * (py - y)) - r; }
    __device__ void grow(float k) override { r *= k; }
};
struct Box : Shape {
    float w, h;
    __device__ Box(float x, float y, float w, float h) : Shape(x, y), w(w), h(h) {}
    __device__ float distance(float px, float py) const override { return fmaxf(fabsf(px - x) - w, fabsf(py - y) - h); }
    __device__ void grow(float k) override { w *= k; h /= k; }
};
extern "C" {
__device__ Shape* scene[64];
__constant__ u64 segments[32];
__managed__ int control[16];
struct Node { Node* next; int key; int value; };

__global__ void build(char* arena, const float* p, int n, int on_heap) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    void* place = on_heap ? malloc(64) : arena + 64 * i;
    if (i % 2) scene[i] = new (place) Circle(p[4 * i], p[4 * i + 1], fabsf(p[4 * i + 2]));
    else scene[i] = new (place) Box(p[4 * i], p[4 * i + 1], fabsf(p[4 * i + 2]), fabsf(p[4 * i + 3]));
}
__global__ void render(float* out, int w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * w) return;
    float x = (i % w) * 6.f / w - 3.f, y = (i / w) * 6.f / w - 3.f, best = 1e9f;
    for (int k = 0; k < n; k++) best = fminf(best, scene[k]->distance(x, y));
    out[i] = best;
}
__global__ void grow(int n) { int i = threadIdx.x; if (i < n) scene[i]->grow(1.f + 0.01f * (i + control[0])); if (i == 0) control[1] += control[0]; }
__global__ void tear_down(int n) { int i = threadIdx.x; if (i < n) { free(scene[i]); scene[i] = nullptr; } }

/* a chained hash table; the owner of a bucket inserts, so that the order is always the same */
__global__ void insert(Node** table, int buckets, Node* pool, int* used, const int* keys, const int* values, int n) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= buckets) return;
    for (int i = 0; i < n; i++) {
        if (keys[i] % buckets != b) continue;
        Node* at = table[b];
        while (at && at->key != keys[i]) at = at->next;
        if (!at) { at = pool + b * 64 + used[b]++; at->next = table[b]; at->key = keys[i]; at->value = 0; table[b] = at; }
        at->value = at->value * 7 + values[i];
    }
}
__global__ void dump(Node** table, int buckets, int* out) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= buckets) return;
    int h = 17;
    for (Node* at = table[b]; at; at = at->next) h = h * 31 + at->key * 5 + at->value;
    out[b] = h;
}
/* a list in both directions by the xor of the neighbours' addresses, and the same as halves */
struct Twin { u64 link; unsigned lo, hi; int value, pad; };
__global__ void tie(Twin* t, const int* order, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 a = i ? (u64)(t + order[i - 1]) : 0, b = i + 1 < n ? (u64)(t + order[i + 1]) : 0;
    Twin& me = t[order[i]];
    me.link = a ^ b; me.lo = (unsigned)(b >> 32) ^ 0x5a5a5a5au; me.hi = (unsigned)b ^ 0xa5a5a5a5u; me.value = i * i % 1009;
}
__global__ void walk(Twin* t, const int* order, int n, int* out) {
    u64 before = 0, at = (u64)(t + order[0]);
    int h = 1, k = 0;
    while (at) { Twin* p = (Twin*)at; u64 next = p->link ^ before; h = h * 33 + p->value; before = at; at = next; k++; }
    out[0] = h; out[1] = k;
    h = 1; k = 0;
    for (Twin* p = t + order[0]; p; k++) { h = h * 37 + p->value; p = (Twin*)(((u64)(p->lo ^ 0x5a5a5a5au) << 32) | (p->hi ^ 0xa5a5a5a5u)); }
    out[2] = h; out[3] = k;
}
__global__ void gather(float* out, int each, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < each * n) { u64 s = segments[i / each]; out[i] = ((const float*)(s & 0xffffffffffffull))[i % each] * (float)(s >> 48); }
}
struct View { float* base; int rows, cols, stride, flip; };
struct Job { View in[2], out; float k; };
__global__ void job(Job j) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= j.out.rows * j.out.cols) return;
    int r = i / j.out.cols, c = i % j.out.cols;
    float s = 0;
    for (int q = 0; q < 2; q++) s += j.in[q].base[(j.in[q].flip ? j.in[q].rows - 1 - r : r) * j.in[q].stride + c] * (q ? j.k : 1.f);
    j.out.base[r * j.out.stride + c] = s;
}
typedef float (*Op)(float, float);
__device__ float op_add(float a, float b) { return a + b; }
__device__ float op_mul(float a, float b) { return a * b; }
__device__ float op_mix(float a, float b) { return fminf(a, b) * 0.75f + 0.25f * fmaxf(a, b); }
__device__ Op p_add = op_add, p_mul = op_mul, p_mix = op_mix;
__device__ Op chain[8];
__global__ void apply(Op f, float* x, const float* y, int n, int whole) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (whole) for (int k = 0; k < 8; k++) v = chain[k](v, y[(i + k) % n]);
    else v = f(v, y[i]);
    x[i] = v / (1.f + fabsf(v) * 0.1f);
}
__global__ void look(const cudaTextureObject_t* handles, int n, float* out, int w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * w) return;
    float s = 0;
    for (int k = 0; k < n; k++) s = s * 0.9f + tex2D<float>(handles[k], i % w + 0.3f * k + 0.5f, i / w + 0.5f);
    out[i] = s;
}
}
"""


def scene(mod):
    out, n, w = cp.zeros((96, 96), cp.float32), 48, 96
    build, render, grow, tear = (mod.get_function(k) for k in ("build", "render", "grow", "tear_down"))
    managed = np.frombuffer((ctypes.c_int * 16).from_address(mod.get_global("control").ptr), np.int32)
    where = cp.ndarray(64, cp.uint64, mod.get_global("scene"))
    runtime.deviceSynchronize()
    managed[:] = 0
    seen = []
    for turn in range(6):
        arena = cp.zeros(64 * n, cp.uint8)
        build((2,), (32,), (arena, data(turn, n, 4), np.int32(n), np.int32(turn % 2)))
        for k in range(3):
            runtime.deviceSynchronize()
            managed[0] = turn + k  # written by the CPU, read by the kernel
            grow((1,), (64,), (np.int32(n),))
            render((72,), (128,), (out, np.int32(w), np.int32(n)))
            seen.append(out.copy())
        if turn % 2:
            tear((1,), (64,), (np.int32(n),))
        else:  # the arena and the table of objects go to the host, their place is wiped, and they come back
            kept, table = arena.get(), where.get()
            arena.fill(255)
            where.fill(0)
            arena.set(kept)
            where.set(np.concatenate([np.roll(table[:n], 7), table[n:]]))
            render((72,), (128,), (out, np.int32(w), np.int32(n)))
            seen.append(out.copy())
    runtime.deviceSynchronize()
    print("scene", digest(*seen), managed[:2].tolist())


def structures(mod):
    insert, dump, tie, walk = (mod.get_function(k) for k in ("insert", "dump", "tie", "walk"))
    rng, buckets, hashes = np.random.default_rng(5), 211, []
    table, pool, used, out = cp.zeros(buckets, cp.uint64), cp.zeros((buckets * 64, 2), cp.uint64), cp.zeros(buckets, cp.int32), cp.zeros(buckets, cp.int32)
    for i in range(5):
        keys, values = (cp.asarray(rng.integers(0, 3000, 900).astype(np.int32)) for _ in range(2))
        insert((7,), (32,), (table, np.int32(buckets), pool, used, keys, values, np.int32(900)))
        dump((7,), (32,), (table, np.int32(buckets), out))
        hashes.append(out.copy())
        if i == 2:  # saved, lost, and put back to the same place
            saved = [a.get() for a in (table, pool, used)]
            for a in (table, pool, used):
                a.fill(0)
            for a, s in zip((table, pool, used), saved):
                a.set(s)
    t, lists = cp.zeros((1000, 4), cp.uint64), []
    for i in range(4):
        order, r = cp.asarray(rng.permutation(1000).astype(np.int32)), cp.zeros(4, cp.int32)
        tie((8,), (128,), (t, order, np.int32(1000)))
        walk((1,), (1,), (t, order, np.int32(1000), r))
        lists.append(r)
    print("structures", digest(*hashes), digest(*lists), lists[-1][1::2].tolist())


def by_value(mod):
    gather, job = mod.get_function("gather"), mod.get_function("job")
    constants, blocks, seen = cp.ndarray(32, cp.uint64, mod.get_global("segments")), [data(20 + i, 100) for i in range(12)], []
    for i in range(5):
        constants[:12].set(np.array([b.data.ptr | (1 + (i + k) % 5) << 48 for k, b in enumerate(blocks)], np.uint64))
        out = cp.empty(1200, cp.float32)
        gather((10,), (128,), (out, np.int32(100), np.int32(12)))
        seen.append(out)
        blocks[i] = out[i * 7 : i * 7 + 100]  # some point into others
    view = np.dtype([("base", np.uint64), ("rows", np.int32), ("cols", np.int32), ("stride", np.int32), ("flip", np.int32)])
    kind = np.dtype([("in", view, 2), ("out", view), ("k", np.float32), ("pad", np.int32)])
    big = data(40, 70, 128)
    for i in range(8):
        j = np.zeros((), kind)
        for q, (r, c) in enumerate(((i, 3), (20, i * 2))):
            j["in"][q] = (big.data.ptr + (r * 128 + c) * 4, 30, 50, 128, (i + q) % 2)
        out = cp.zeros((30, 50), cp.float32)
        j["out"], j["k"] = (out.data.ptr, 30, 50, 50, 0), 0.5 + i
        job((12,), (128,), (j,))
        seen.append(out)
    print("by value", digest(*seen))


def functions(mod):
    """The host asks for the functions' addresses, as is usual, and passes them on."""
    names, apply = ("p_add", "p_mul", "p_mix"), mod.get_function("apply")
    ptr = [int(cp.ndarray(1, cp.uint64, mod.get_global(n)).get()[0]) for n in names]
    chain = cp.ndarray(8, cp.uint64, mod.get_global("chain"))
    x, y, rng = data(50, 5000), data(51, 5000), np.random.default_rng(6)
    for i in range(12):
        apply((40,), (128,), (np.uint64(ptr[i % 3]), x, y, np.int32(5000), np.int32(0)))
        chain.set(np.array([ptr[k] for k in rng.integers(0, 3, 8)], np.uint64))
        apply((40,), (128,), (np.uint64(0), x, y, np.int32(5000), np.int32(1)))
    print("functions", digest(x))


def handles(mod):
    look, w, seen = mod.get_function("look"), 64, []
    ch = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    alive = []

    def make(k):
        tex = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModeLinear if k % 2 else runtime.cudaFilterModePoint, runtime.cudaReadModeElementType)
        if k % 3 == 0:
            pitched = data(60 + k, w, 64)
            res = texture.ResourceDescriptor(runtime.cudaResourceTypePitch2D, arr=pitched, chDesc=ch, width=w, height=w, pitchInBytes=256)
            return texture.TextureObject(res, tex), pitched, None
        arr = texture.CUDAarray(ch, w, w)
        arr.copy_from(data(60 + k, w, w))
        return texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=arr), tex), None, arr

    for i in range(14):
        alive.append(make(i))
        if len(alive) > 5:
            runtime.deviceSynchronize()
            del alive[i % 3]  # handles are given out again
        table = cp.asarray(np.array([a[0].ptr for a in alive][::-1], np.uint64))
        out = cp.empty((w, w), cp.float32)
        look((32,), (128,), (table, np.int32(len(alive)), out, np.int32(w)))
        seen.append(out)
        if alive[-1][1] is not None:
            alive[-1][1][...] *= np.float32(1.5)  # under the texture
    print("handles", digest(*seen))


COOPERATIVE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void relax(float* a, float* b, int n, int rounds) {
    cg::grid_group g = cg::this_grid();
    for (int r = 0; r < rounds; r++) {
        for (int i = g.thread_rank(); i < n; i += g.size()) b[i] = 0.5f * a[i] + 0.25f * (a[(i + 1) % n] + a[(i + n - 1) % n]);
        g.sync();
        float* t = a; a = b; b = t;
    }
}
"""
CLUSTER = COOPERATIVE.split("extern")[0] + r"""
extern "C" __global__ void __cluster_dims__(4, 1, 1) turn(const int* in, int* out) {
    __shared__ int mine[256];
    cg::cluster_group c = cg::this_cluster();
    mine[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    c.sync();
    int* other = c.map_shared_rank(mine, (c.block_rank() + 1) % 4);
    out[blockIdx.x * 256 + threadIdx.x] = other[255 - threadIdx.x] * 3 + mine[threadIdx.x];
    c.sync();
}
"""
CCCL = os.path.join(cp.cuda.get_cuda_path() or "/usr/local/cuda", "include", "cccl")  # where newer toolkits keep <nv/target>
HEADERS = ("-I" + CCCL,) if os.path.isdir(CCCL) else ()
NESTED = r"""
extern "C" __global__ void child(int* x, int n, int k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * 5 + k; }
extern "C" __global__ void parent(int* x, int n) { for (int k = 0; k < 3; k++) child<<<(n + 127) / 128, 128>>>(x, n, k); }
"""


def cooperative(_):
    f = cp.RawModule(code=COOPERATIVE, options=HEADERS, enable_cooperative_groups=True).get_function("relax")
    a, b = data(70, 20_000), cp.zeros(20_000, cp.float32)
    for r in (7, 20, 33):
        f((64,), (128,), (a, b, np.int32(20_000), np.int32(r)))
    print("grid", digest(a, b))


def clusters(_):
    f = cp.RawModule(code=CLUSTER, options=HEADERS).get_function("turn")
    x, y = cp.arange(16 * 256, dtype=cp.int32), cp.zeros(16 * 256, cp.int32)
    for _ in range(10):
        f((16,), (256,), (x, y))
        x, y = y, x
    print("clusters", digest(x))


def nested(_):
    f = cp.RawModule(code=NESTED, options=("-rdc=true",)).get_function("parent")
    x = cp.arange(3000, dtype=cp.int32)
    for _ in range(4):
        f((1,), (1,), (x, np.int32(3000)))
    print("kernels by kernels", digest(x))


runtime.deviceSetLimit(runtime.cudaLimitMallocHeapSize, 32 << 20)
mod = cp.RawModule(code=SHAPES)
for part in (scene, structures, by_value, functions, handles, cooperative, clusters, nested):
    try:
        part(mod)
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
