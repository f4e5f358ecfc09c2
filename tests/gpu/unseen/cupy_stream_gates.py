# CuPy: what a copy reads is decided late. Functions of the host, queued on streams and in graphs, fill the pinned memory that
# copies after them send; kernels wait at gates that the CPU or another stream opens; registered arrays and files are read in
# place; per-thread default streams; handles of streams, events and pools that are given out again; strided copies.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_stream_gates")
import ctypes
import hashlib
import mmap
import tempfile
import threading
import numpy as np
import cupy as cp
import cupyx
from cupy.cuda import runtime

CODE = r"""
extern "C" __global__ void mix(const int* in, int* state, int* out, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = state[i] * 31 + in[i] + k;
    state[i] = s;
    out[i] = s ^ (s >> 9);
}
/* waits for a flag, in host or device memory; gives up after two billion cycles and says so */
extern "C" __global__ void gate(volatile int* flag, int value, int* late) {
    long long begin = clock64();
    while (*flag < value) if (clock64() - begin > 2000000000ll) { atomicAdd(late, 1); break; }
    __threadfence_system();
}
extern "C" __global__ void tell(volatile int* flag, int value) { __threadfence_system(); *flag = value; }
extern "C" __global__ void rows(const unsigned char* file, int* sums, int width, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int s = 7;
    for (int k = 0; k < width; k++) s = s * 33 + file[i * width + k];
    sums[i] = s;
}
"""
mod = cp.RawModule(code=CODE)
mix, gate, tell, rows = (mod.get_function(n) for n in ("mix", "gate", "tell", "rows"))
H2D, D2H, D2D = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost, runtime.memcpyDeviceToDevice


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def blocks(n):
    return ((n + 255) // 256,), (256,)


class Loop:
    """The CPU is a stage of the stream: what it reads was copied down just before, what it writes is copied up just after."""

    def __init__(self, seed, n):
        self.rng, self.n, self.hash, self.count = np.random.default_rng(seed), n, hashlib.sha256(), 0
        self.src, self.dst = cupyx.empty_pinned((n,), np.int32), cupyx.zeros_pinned((n,), np.int32)
        self.dev, self.state, self.out = (cp.zeros(n, cp.int32) for _ in range(3))

    def fill(self, k):
        self.src[...] = self.rng.integers(0, 1 << 20, self.n)
        self.src[::3] += self.dst[::3]  # what came back the turn before
        self.count += 1

    def take(self, k):
        self.hash.update(self.dst.tobytes())

    def enqueue(self, s, k):
        s.launch_host_func(self.fill, k)
        runtime.memcpyAsync(self.dev.data.ptr, self.src.ctypes.data, self.dev.nbytes, H2D, s.ptr)
        with s:
            mix(*blocks(self.n), (self.dev, self.state, self.out, np.int32(self.n), np.int32(k)))
        runtime.memcpyAsync(self.dst.ctypes.data, self.out.data.ptr, self.out.nbytes, D2H, s.ptr)
        s.launch_host_func(self.take, k)


def host_stages():
    loops = [(Loop(i, 5000 + 777 * i), cp.cuda.Stream(non_blocking=True)) for i in range(3)]
    cp.cuda.Device().synchronize()
    for k in range(40):  # all queued in one go, nothing is waited for
        for loop, s in loops:
            loop.enqueue(s, k)
    for _, s in loops:
        s.synchronize()
    print("host stages", [l.count for l, _ in loops], *[l.hash.hexdigest()[:12] for l, _ in loops])


def host_stages_in_a_graph():
    loop, s, other = Loop(9, 4000), cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    fork, join, copy = cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True), cp.zeros(4000, cp.int32)
    cp.cuda.Device().synchronize()
    s.begin_capture()
    for k in range(2):
        loop.enqueue(s, k)
    fork.record(s)
    other.wait_event(fork)
    runtime.memcpyAsync(copy.data.ptr, loop.state.data.ptr, copy.nbytes, D2D, other.ptr)
    join.record(other)
    s.wait_event(join)
    g = s.end_capture()
    for i in range(8):
        g.launch(s)
        if i == 4:  # one turn outside of the graph
            loop.enqueue(s, 100)
    s.synchronize()
    print("in a graph", loop.count, loop.hash.hexdigest()[:16], digest(copy))


def gates():
    """Copies and kernels are queued behind a gate, and what they read is written while they wait there."""
    n, s, t = 6000, cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    flag, src, dst = cupyx.zeros_pinned((16,), np.int32), cupyx.zeros_pinned((n,), np.int32), cupyx.zeros_pinned((n,), np.int32)
    dev, state, out, late, mark = (cp.zeros(k, cp.int32) for k in (n, n, n, 1, 1))
    where = np.uint64(flag.ctypes.data)
    with s:  # everything is loaded before anything waits
        gate((1,), (1,), (where, np.int32(0), late))
        tell((1,), (1,), (mark, np.int32(0)))
        mix(*blocks(n), (dev, state, out, np.int32(0), np.int32(0)))
    cp.cuda.Device().synchronize()
    rng, seen = np.random.default_rng(3), hashlib.sha256()
    for i in range(1, 9):
        with s:
            gate((1,), (1,), (where, np.int32(i), late))
            runtime.memcpyAsync(dev.data.ptr, src.ctypes.data, dev.nbytes, H2D, s.ptr)
            mix(*blocks(n), (dev, state, out, np.int32(n), np.int32(i)))
            runtime.memcpyAsync(dst.ctypes.data, out.data.ptr, out.nbytes, D2H, s.ptr)
        src[...] = rng.integers(0, 1 << 20, n)  # after the copy was called for, before it is let through
        flag[0] = i
        s.synchronize()
        seen.update(dst.tobytes())
    for i in range(1, 9):  # and a gate of one stream that another one opens
        with s:
            gate((1,), (1,), (mark, np.int32(i), late))
            mix(*blocks(n), (out, state, dev, np.int32(n), np.int32(i)))
        with t:
            runtime.memcpyAsync(out.data.ptr, src.ctypes.data, out.nbytes, H2D, t.ptr)
            tell((1,), (1,), (mark, np.int32(i)))
        t.synchronize()
        src[...] = np.roll(src, i) ^ i
        s.synchronize()
    print("gates", "late" if int(late[0]) else "in time", seen.hexdigest()[:16], digest(state, dev))


def registered():
    n, seen = 10_000, []
    anonymous = mmap.mmap(-1, n * 4 + 4096)
    a = np.frombuffer(anonymous, np.int32, n)
    state, out, s = cp.zeros(n, cp.int32), cp.zeros(n, cp.int32), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    for turn in range(3):  # registered, read in place, unregistered, and again
        runtime.hostRegister(a.ctypes.data, n * 4, 1 | 2)
        for i in range(5):
            a[...] = np.arange(n) * (turn + 2) ^ i
            with s:
                mix(*blocks(n), (np.uint64(a.ctypes.data), state, out, np.int32(n), np.int32(i)))
                runtime.memcpyAsync(a.ctypes.data, out.data.ptr, n * 2, D2H, s.ptr)
            s.synchronize()
            seen.append(hashlib.sha256(a.tobytes()).hexdigest())
        runtime.hostUnregister(a.ctypes.data)
    print("registered", hashlib.sha256("".join(seen).encode()).hexdigest()[:16])
    with tempfile.TemporaryFile() as f:
        f.write(np.random.default_rng(4).integers(0, 256, 64 * 1024, dtype=np.uint8).tobytes())
        f.flush()
        m = mmap.mmap(f.fileno(), 64 * 1024)
        b = np.frombuffer(m, np.uint8)
        sums = cp.zeros(1024, cp.int32)
        try:
            runtime.hostRegister(b.ctypes.data, b.nbytes, 2)
            parts = []
            for i in range(4):
                rows(*blocks(1024), (np.uint64(b.ctypes.data), sums, np.int32(64), np.int32(1024)))
                parts.append(sums.get())
                f.seek(1000 * i)
                f.write(b"changed through the file, not the mapping" * 50)
                f.flush()
            runtime.hostUnregister(b.ctypes.data)
            print("a file", digest(*parts))
        except Exception as e:
            print("skipped: a file", type(e).__name__)
        del b


def threads():
    """Each thread has the default stream of its own; one uses the legacy default stream as well."""
    results = [None] * 4

    def run(k):
        try:
            s = cp.cuda.Stream.ptds
            with s:
                n = 3000 + 500 * k
                src, dev, state, out, h = cupyx.empty_pinned((n,), np.int32), *(cp.zeros(n, cp.int32) for _ in range(3)), hashlib.sha256()
                for i in range(30):
                    src[...] = np.arange(n) * (i + 3) % 10007 + k
                    dev.set(src, stream=s)
                    mix(*blocks(n), (dev, state, out, np.int32(n), np.int32(i)))
                    if k == 3 and i % 7 == 0:
                        s.synchronize()
                        with cp.cuda.Stream.null:
                            out += 1
                            cp.cuda.Stream.null.synchronize()
                    h.update(out.get(stream=s).tobytes())
                    s.synchronize()
            results[k] = h.hexdigest()[:12]
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *results)


def reused_handles():
    """Streams, events and pools come and go; the driver gives the same handles out again. Memory in stream order."""
    props = runtime.MemPoolProps(1, 0, 1, 0)  # pinned on the device, not to be exported, on device 0
    sums = []
    for turn in range(8):
        pool = runtime.memPoolCreate(props)
        runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, (turn % 2) << 30)
        with cp.cuda.using_allocator(cp.cuda.MemoryAsyncPool(pool).malloc):
            streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
            a = None
            for i, s in enumerate(streams * 3):
                with s:
                    if a is None:
                        a = cp.arange(20_000 + turn, dtype=cp.int64)
                    else:
                        s.wait_event(event)
                        b = cp.empty(a.size + 100 * i, cp.int64)
                        b[: a.size] = a[::-1] * 3 + turn
                        b[a.size :] = i
                        last.wait_event(s.record())  # freed on the stream that it came from, which waits for this one
                        with last:
                            del a
                        a = b
                        del b
                    event, last = s.record(), s
            with last:
                sums.append(int((a % 1000003).sum()))
                last.synchronize()
                del a
            for s in streams:
                s.synchronize()
        runtime.deviceSynchronize()
        del streams, s, last, event
        runtime.memPoolDestroy(pool)
    print("reused handles", sums)


def strided():
    host, pitch = cupyx.zeros_pinned((40, 100), np.int32), 512
    dev = cp.zeros((40, pitch // 4), cp.int32)
    s, seen = cp.cuda.Stream(non_blocking=True), hashlib.sha256()
    cp.cuda.Device().synchronize()
    for i in range(10):
        host[...] = np.arange(4000).reshape(40, 100) * (i + 1)
        runtime.memcpy2DAsync(dev.data.ptr + 16 * i, pitch, host.ctypes.data + 4 * i, 400, 200, 40 - i, H2D, s.ptr)
        with s:
            dev *= 3
        s.synchronize()
        host[...] = -1
        runtime.memcpy2DAsync(host.ctypes.data + 40, 400, dev.data.ptr, pitch, 360, 40, D2H, s.ptr)
        runtime.memsetAsync(dev.data.ptr + 64 * i, i, 700, s.ptr)
        s.synchronize()
        seen.update(host.tobytes())
    print("strided", seen.hexdigest()[:16], digest(dev))


for part in (host_stages, host_stages_in_a_graph, registered, threads, reused_handles, strided, gates):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
