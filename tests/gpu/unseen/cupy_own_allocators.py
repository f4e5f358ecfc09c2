# CuPy on memory that the program provides: allocators written in Python (pieces of a slab, stream-ordered, host memory, memory that is
# created and mapped by the driver), a ring whose two halves are one memory mapped twice, staging buffers that are cut from one pinned
# slab, hooks that see every allocation, managed memory with advice; graphs and threads over all of it.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_own_allocators")
import ctypes
import gc
import hashlib
import threading
import numpy as np
import cupy as cp
import cupyx
from cupy.cuda import runtime

gc.disable()  # only when it is told to: a collection in the midst of an allocator would call it again
cuda = ctypes.CDLL("libcuda.so.1")
UNIT = 2 << 20
STEP = cp.ElementwiseKernel("int32 x, int32 k", "int32 y", "int v = x * 31 + k + (int)i; y = v ^ (v >> 9)", "own_step")
MIX = cp.RawKernel(r"""
extern "C" __global__ void mix(const int* in, int* state, int* out, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = state[i] * 31 + in[i] + k;
    state[i] = s;
    out[i] = s ^ (s >> 9);
}
""", "mix")


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def sync():
    cp.cuda.Device().synchronize()


def grid(n):
    return ((n + 255) // 256,), (256,)


def on_the_cpu(a):
    """The same memory for the CPU; of arrays in host or managed memory only."""
    return np.ctypeslib.as_array((ctypes.c_int32 * a.size).from_address(a.data.ptr)).reshape(a.shape)


def ok(code):
    if code:
        raise RuntimeError(f"driver error {code}")


class Slab:
    """Pieces of one allocation, the first that fits; every piece is aligned to 512 bytes."""

    def __init__(self, size=64 << 20):
        self.base, self.free_, self.taken, self.lock = runtime.malloc(size), [(0, size)], {}, threading.Lock()

    def malloc(self, size, device):
        size = max(512, (size + 511) // 512 * 512)
        with self.lock:
            for i, (at, room) in enumerate(self.free_):
                if room >= size:
                    self.free_[i : i + 1] = [(at + size, room - size)] if room > size else []
                    self.taken[self.base + at] = size
                    return self.base + at
        raise MemoryError

    def free(self, ptr, device):
        runtime.deviceSynchronize()  # what was under way may be using it
        with self.lock:
            self.free_ = sorted(self.free_ + [(ptr - self.base, self.taken.pop(ptr))])
            joined = [self.free_[0]]
            for at, room in self.free_[1:]:
                if sum(joined[-1]) == at:
                    joined[-1] = (joined[-1][0], joined[-1][1] + room)
                else:
                    joined.append((at, room))
            self.free_ = joined


class Ordered:
    def malloc(self, size, device):
        return runtime.mallocAsync(max(size, 1), cp.cuda.get_current_stream().ptr)

    def free(self, ptr, device):
        runtime.deviceSynchronize()
        runtime.freeAsync(ptr, cp.cuda.Stream.null.ptr)


class Host:
    """Device arrays that are in pinned memory of the host."""

    def malloc(self, size, device):
        return runtime.hostAlloc(max(size, 1), runtime.hostAllocMapped)

    def free(self, ptr, device):
        runtime.deviceSynchronize()
        runtime.freeHost(ptr)


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", Location), ("win", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("where", Location), ("flags", ctypes.c_int)]


u64, size_t = ctypes.c_ulonglong, ctypes.c_size_t


def create(size):
    handle, prop = u64(), Prop(1, 0, Location(1, 0), None)
    ok(cuda.cuMemCreate(ctypes.byref(handle), size_t(size), ctypes.byref(prop), u64(0)))
    return handle


def reserve(size):
    address = u64()
    ok(cuda.cuMemAddressReserve(ctypes.byref(address), size_t(size), size_t(0), u64(0), u64(0)))
    return address.value


def map_at(address, size, handle):
    ok(cuda.cuMemMap(u64(address), size_t(size), size_t(0), handle, u64(0)))
    ok(cuda.cuMemSetAccess(u64(address), size_t(size), ctypes.byref(Access(Location(1, 0), 3)), size_t(1)))


class Mapped:
    def __init__(self):
        self.sizes, self.spare = {}, []

    def malloc(self, size, device):
        size = (max(size, 1) + UNIT - 1) // UNIT * UNIT
        handle = self.spare.pop() if size == UNIT and self.spare else create(size)  # the same memory at another address
        address = reserve(size)
        map_at(address, size, handle)
        self.sizes[address] = (size, handle)
        return address

    def free(self, ptr, device):
        size, handle = self.sizes.pop(ptr)
        runtime.deviceSynchronize()
        ok(cuda.cuMemUnmap(u64(ptr), size_t(size)))
        ok(cuda.cuMemAddressFree(u64(ptr), size_t(size)))
        if size == UNIT:
            self.spare.append(handle)
        else:
            ok(cuda.cuMemRelease(handle))


def array(ptr, n, dtype=np.int32, owner=None):
    memory = cp.cuda.UnownedMemory(ptr, n * np.dtype(dtype).itemsize, owner, 0)
    return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(memory, 0))


def work(seed):
    """Arrays of many sizes that come and go, some in rings of references that only the collector frees."""
    live, out = [], []
    for i in range(30):
        n = 1 + (i * 7919 + seed * 31) % 50_000
        a = cp.arange(n, dtype=cp.int32)
        b = STEP(a, i)
        live.append((a, b, b[::-1] + a))
        if len(live) > 4:
            x, y, z = live.pop((i * 3) % 5)
            out.append(int((x.sum() + (y ^ z).astype(cp.int64).sum()) % 1_000_003))
            if i % 4 == 0:
                ring = [x, y]
                ring.append(ring)
                del ring
            del x, y, z
        if i % 10 == 9:
            gc.collect()
    out.append(digest(*[t for item in live for t in item[2:]]))
    return hashlib.sha256(repr(out).encode()).hexdigest()[:16]


def allocators():
    for name, owner in (("slab", Slab), ("ordered", Ordered), ("host", Host), ("mapped", Mapped)):
        try:
            make = owner()
            allocator = cp.cuda.PythonFunctionAllocator(make.malloc, make.free)
            with cp.cuda.using_allocator(allocator.malloc):
                plain = work(1)
            pool = cp.cuda.MemoryPool(allocator.malloc)  # CuPy's pool on top of it
            with cp.cuda.using_allocator(pool.malloc):
                pooled = [work(2), work(3)]
            gc.collect()
            pool.free_all_blocks()
            sync()
            print(name, plain, *pooled)
        except Exception as e:
            print("skipped:", name, type(e).__name__, str(e).splitlines()[:1])


def in_threads():
    """Threads that allocate from one slab, with streams of their own."""
    make, results = Slab(), [None] * 4
    allocator = cp.cuda.PythonFunctionAllocator(make.malloc, make.free)

    def run(k):
        try:
            with cp.cuda.using_allocator(allocator.malloc), cp.cuda.Stream(non_blocking=True) as s:
                results[k] = work(10 + k)
                s.synchronize()
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("in threads", *results)


def host_graph():
    """A graph over device arrays that are host memory: the CPU writes and reads them between launches, no copy is ever called."""
    make, n, s, seen = Host(), 5000, cp.cuda.Stream(non_blocking=True), hashlib.sha256()
    allocator = cp.cuda.PythonFunctionAllocator(make.malloc, make.free)
    with cp.cuda.using_allocator(allocator.malloc):
        x, y = cp.zeros((2, n), cp.int32), cp.zeros((2, n), cp.int32)
    state, a, b = cp.zeros(n, cp.int32), on_the_cpu(x), on_the_cpu(y)
    with s:
        MIX(*grid(n), (x[0], state, y[0], np.int32(0), np.int32(0)))
    sync()
    graphs, done = [], [cp.cuda.Event(disable_timing=True) for _ in range(2)]
    for half in range(2):
        with s:
            s.begin_capture()
            for k in range(4):
                MIX(*grid(n), (x[half], state, y[half], np.int32(n), np.int32(k)))
            graphs.append(s.end_capture())
    rng = np.random.default_rng(5)
    for i in range(42):
        half = i % 2
        done[half].synchronize()  # the launch on the other half goes on
        if i >= 2:
            seen.update(b[half].tobytes())
        if i < 40:
            a[half] = rng.integers(0, 1 << 20, n)
            a[half, ::3] ^= b[half, ::3]
            graphs[half].launch(s)
            done[half].record(s)
    sync()
    print("host graph", seen.hexdigest()[:16], digest(state))


def ring_mapped_twice():
    """A ring of samples: windows that run over its end are read through the second mapping. It is moved to another address midway."""
    n, window, hop, out = UNIT // 4, 30_000, 77_777, []
    handle = create(UNIT)

    def place():
        base = reserve(2 * UNIT)
        map_at(base, UNIT, handle)
        map_at(base + UNIT, UNIT, handle)
        return base

    def leave(base):
        for half in (base, base + UNIT):
            ok(cuda.cuMemUnmap(u64(half), size_t(UNIT)))
        ok(cuda.cuMemAddressFree(u64(base), size_t(2 * UNIT)))

    base = place()
    write, s = 0, cp.cuda.Stream(non_blocking=True)
    host, taps = cupyx.empty_pinned((window,), np.int32), cp.arange(16, dtype=cp.int32)
    state, mixed = cp.zeros(window, cp.int32), cp.zeros(window, cp.int32)
    array(base, n).fill(0)
    sync()
    for i in range(40):
        if i == 20:  # nothing is copied: the samples stay where they are
            s.synchronize()
            sync()
            old, base = base, place()
            leave(old)
        both = array(base, 2 * n)
        host[...] = (np.arange(window) * (i + 1)) % 65_521
        with s:
            both[write : write + window].set(host, stream=s)
            MIX(*grid(window), (both[(write + n // 2) % n :], state, mixed, np.int32(window), np.int32(i)))
            out.append((both[write : write + window : 16] * taps[i % 16] + mixed[::16]).sum())
        s.synchronize()
        write = (write + hop) % n
    total = digest(cp.stack(out), array(base, n))
    sync()
    leave(base)
    ok(cuda.cuMemRelease(handle))
    print("ring mapped twice", total)


def staging():
    """All of CuPy's own staging buffers are pieces of one pinned slab, one after the other, never twice."""
    slab, begin, lock = cp.cuda.pinned_memory.PinnedMemory(48 << 20), [0], threading.Lock()

    def take(size):
        with lock:
            at = begin[0]
            begin[0] += max(64, (size + 63) // 64 * 64)
            if begin[0] > 48 << 20:
                raise MemoryError
        return cp.cuda.PinnedMemoryPointer(slab, at)

    cp.cuda.set_pinned_memory_allocator(take)
    try:
        results = [None] * 3

        def run(k):
            try:
                with cp.cuda.Stream(non_blocking=True) as s:
                    state, seen = cp.zeros(4000, cp.int32), []
                    for i in range(40):
                        n = 1 + (i * 97 + k) % 4000
                        x = cp.asarray(np.arange(n, dtype=np.int32) * (i + k))
                        y = cp.array([[i, k], [k, i]], dtype=np.int32)  # little things go the same way
                        MIX(*grid(n), (x, state, x, np.int32(n), np.int32(i)))
                        seen.append(int(y.sum()) + int(x[n // 2]))
                    s.synchronize()
                    results[k] = hashlib.sha256(repr(seen).encode()).hexdigest()[:12] + " " + digest(state)
            except Exception as e:
                results[k] = type(e).__name__

        ts = [threading.Thread(target=run, args=(k,)) for k in range(3)]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        sync()
        print("staging", *results)
    finally:
        cp.cuda.set_pinned_memory_allocator(cp.get_default_pinned_memory_pool().malloc)


class Painter(cp.cuda.MemoryHook):
    """Paints each block before it is given out, so that what was there before can play no part."""

    name = "Painter"

    def __init__(self):
        self.given = self.back = 0

    def malloc_postprocess(self, **kw):
        self.given += 1
        runtime.memsetAsync(kw["mem_ptr"], 0xA5, kw["mem_size"], cp.cuda.get_current_stream().ptr)

    def free_postprocess(self, **kw):
        self.back += 1


def hooks():
    hook, pool = Painter(), cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc), hook:
        r = work(20)
        gc.collect()
        painted = [cp.empty(1000 + k, cp.uint8) for k in range(3)]
        r2 = digest(*painted)
    print("hooks", r, r2, hook.given == hook.back + 3)


def managed():
    """Managed memory with advice, fetched to and fro; the CPU writes only when the device has nothing to do."""
    pool, n = cp.cuda.MemoryPool(cp.cuda.malloc_managed), 60_000
    s, seen = cp.cuda.Stream(non_blocking=True), hashlib.sha256()
    with cp.cuda.using_allocator(pool.malloc):
        x, y = cp.zeros(n, cp.int32), cp.zeros(n, cp.int32)
    state, a, b = cp.zeros(n, cp.int32), on_the_cpu(x), on_the_cpu(y)
    with s:
        MIX(*grid(n), (x, state, y, np.int32(0), np.int32(0)))
    sync()
    with s:
        s.begin_capture()
        MIX(*grid(n), (x, state, y, np.int32(n), np.int32(1)))
        MIX(*grid(n), (y, state, y, np.int32(n), np.int32(2)))
        g = s.end_capture()
    for name, advice in (("read mostly", 1), ("not any more", 2), ("preferred", 3)):
        try:
            runtime.memAdvise(x.data.ptr, x.nbytes, advice, 0)
        except Exception as e:
            print("skipped:", name, type(e).__name__)
        for i in range(6):
            a[i::7] += np.int32(i + advice)
            a[: 100 * i] ^= b[: 100 * i]
            if i % 3 == 1:
                try:
                    runtime.memPrefetchAsync(y.data.ptr, y.nbytes, 0, s.ptr)
                except Exception as e:
                    print("skipped: prefetch", type(e).__name__)
            g.launch(s)
            s.synchronize()
            seen.update(b.tobytes())
            b[::1001] = i
    print("managed", seen.hexdigest()[:16], digest(state))


for part in (allocators, in_threads, host_graph, ring_mapped_twice, staging, hooks, managed):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
sync()
