# CuPy: records of several threads in one page of pinned memory. Each thread writes its own, has the device work on it (in place, by
# copies, by a graph), waits and reads the answer, while kernels, copies, functions of the host and other threads are at work on the
# records beside it; memory that is write-combined; little pinned arrays that are freed and come again at the same address.
import os
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_shared_page")
import ctypes
import gc
import hashlib
import queue
import threading
import numpy as np
import cupy as cp
import cupyx
from cupy.cuda import runtime

CODE = r"""
extern "C" __global__ void mix(const int* in, int* state, int* out, int n, int k) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int s = state[i] * 31 + in[i] + k;
        state[i] = s;
        out[i] = s ^ (s >> 9);
    }
}
/* takes a while before it reads: what is beside its record changes meanwhile */
extern "C" __global__ void slow_mix(const int* in, int* state, int* out, int n, int cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int s = state[i] * 33 + in[i];
        state[i] = s;
        out[i] = s ^ (s >> 7);
    }
}
/* walks a list whose links are offsets, in host memory */
extern "C" __global__ void walk(const int* nodes, int first, int steps, int* sum) {
    int at = first, s = 0;
    for (int i = 0; i < steps && at >= 0; i++) { s = s * 7 + nodes[2 * at + 1]; at = nodes[2 * at]; }
    *sum = s;
}
"""
mod = cp.RawModule(code=CODE)
mix, slow_mix, walk = (mod.get_function(n) for n in ("mix", "slow_mix", "walk"))
H2D, D2H = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost
THREADS, N = 6, 32


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def at(a):
    return np.uint64(a.ctypes.data)


def in_threads(run, count=THREADS):
    results = [None] * count

    def guarded(k):
        try:
            results[k] = run(k)
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return results


def records(kind):
    """One page: a line of 128 bytes for what goes in and one for what comes out, for each thread."""
    page = cupyx.zeros_pinned((THREADS, 2, N), np.int32)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(THREADS)]
    state, dev, out = (cp.zeros((THREADS, N), cp.int32) for _ in range(3))
    done, graphs = [cp.cuda.Event(block=k % 2 == 1, disable_timing=True) for k in range(THREADS)], [None] * THREADS

    def ask(k, i):
        s = streams[k]
        with s:
            if kind in ("copies", "graphs"):
                runtime.memcpyAsync(dev[k].data.ptr, page[k, 0].ctypes.data, 4 * N, H2D, s.ptr)
                mix((1,), (N,), (dev[k], state[k], out[k], np.int32(N), np.int32(i)))
                runtime.memcpyAsync(page[k, 1].ctypes.data, out[k].data.ptr, 4 * N, D2H, s.ptr)
            elif kind == "slow":
                slow_mix((1,), (N,), (at(page[k, 0]), state[k], at(page[k, 1]), np.int32(N), np.int32(20_000 + 7000 * k)))
            else:
                mix((1,), (N,), (at(page[k, 0]), state[k], at(page[k, 1]), np.int32(N), np.int32(i)))

    cp.cuda.Device().synchronize()
    for k in range(THREADS):
        ask(k, 0)
        streams[k].synchronize()
        if kind in ("graphs", "graphs in place"):
            streams[k].begin_capture()
            ask(k, k)
            ask(k, k + 10)
            graphs[k] = streams[k].end_capture()
    cp.cuda.Device().synchronize()
    page[...], state[...] = 0, 0
    cp.cuda.Device().synchronize()

    def run(k):
        rng, seen, s = np.random.default_rng(k), hashlib.sha256(), streams[k]
        for i in range(70):
            page[k, 0] = rng.integers(0, 1 << 20, N) ^ page[k, 1]
            if graphs[k]:
                graphs[k].launch(s)
            else:
                ask(k, i)
            done[k].record(s)
            done[k].synchronize()
            seen.update(page[k, 1].tobytes())
            if i % 10 == k:
                page[k, 1, ::3] = -i
        return seen.hexdigest()[:12]

    print(kind, *in_threads(run), digest(state, page))


def host_writers():
    """Functions of the host on one stream write records that kernels of another one read in place, after an event; the main
    thread writes the records between them meanwhile, and a kernel of a third stream reads those."""
    rows = 24
    page, a, b, c = cupyx.zeros_pinned((rows, 2, N), np.int32), *(cp.cuda.Stream(non_blocking=True) for _ in range(3))
    state, log = cp.zeros((rows, N), cp.int32), []

    def write(arg):
        row, i = arg
        page[row, 0] = (np.arange(N) * (i + 3) + row) % 10007
        log.append((row, int(page[row, 0].sum())))

    with b:
        mix((1,), (N,), (at(page[0, 0]), state[0], at(page[0, 1]), np.int32(0), np.int32(0)))
    cp.cuda.Device().synchronize()
    read = [cp.cuda.Event(disable_timing=True) for _ in range(rows)]
    seen, done = hashlib.sha256(), cp.cuda.Event(disable_timing=True)
    for i in range(30):
        for row in range(0, rows, 2):
            a.wait_event(read[row])  # the kernel that read this record the turn before
            a.launch_host_func(write, (row, i))
            b.wait_event(a.record())
            with b:
                mix((1,), (N,), (at(page[row, 0]), state[row], at(page[row, 1]), np.int32(N), np.int32(i)))
            read[row].record(b)
            mine = row + 1
            page[mine, 0] = np.arange(N) * i + mine + page[mine, 1]
            with c:
                mix((1,), (N,), (at(page[mine, 0]), state[mine], at(page[mine, 1]), np.int32(N), np.int32(-i)))
            if row % 8 == 6:  # the fourth of these waits for the three before it, too
                done.record(c)
                done.synchronize()
        c.synchronize()
        seen.update(page[1::2].tobytes())
    cp.cuda.Device().synchronize()
    print("host writers", len(log), sum(s for _, s in log), seen.hexdigest()[:16], digest(state, page))


def combined():
    """Write-combined and portable memory, written by the CPU in order, read by kernels where it is; freed and allocated again."""
    n, seen, s = 5000, [], cp.cuda.Stream(non_blocking=True)
    state, out = cp.zeros(n, cp.int32), cp.zeros(n, cp.int32)
    cp.cuda.Device().synchronize()
    for turn, flags in enumerate((4, 1, 2, 4 | 1 | 2, 0)):
        address = runtime.hostAlloc(4 * n, flags)
        host = np.ctypeslib.as_array((ctypes.c_int32 * n).from_address(address))
        there = runtime.pointerGetAttributes(address).devicePointer  # not the same where writes are combined
        for i in range(5):
            host[:] = (np.arange(n, dtype=np.int32) * (turn + 2)) ^ i
            if i % 2:
                host[i * 100 : i * 100 + 50] = 7
            with s:
                mix((8,), (128,), (np.uint64(there), state, out, np.int32(n), np.int32(i)))
            s.synchronize()
        seen.append(digest(out))
        del host
        runtime.freeHost(address)
    print("combined", *seen, digest(state))


def come_and_go():
    """Little pinned arrays, not from a pool: freed, and allocated at the same place with other contents and another length."""
    cp.cuda.set_pinned_memory_allocator(None)
    try:
        s, seen, kept = cp.cuda.Stream(non_blocking=True), hashlib.sha256(), []
        state, dev, out = (cp.zeros(600, cp.int32) for _ in range(3))
        cp.cuda.Device().synchronize()
        for i in range(60):
            n = 16 + (i * 37) % 500
            src, dst = cupyx.empty_pinned((n,), np.int32), cupyx.zeros_pinned((n,), np.int32)
            src[...] = np.arange(n) * i + 1
            with s:
                if i % 2:
                    runtime.memcpyAsync(dev.data.ptr, src.ctypes.data, 4 * n, H2D, s.ptr)
                    mix((2,), (64,), (dev, state, at(dst), np.int32(n), np.int32(i)))
                else:
                    mix((2,), (64,), (at(src), state, out, np.int32(n), np.int32(i)))
                    runtime.memcpyAsync(dst.ctypes.data, out.data.ptr, 4 * n, D2H, s.ptr)
            s.synchronize()
            seen.update(dst.tobytes())
            kept.append(src if i % 3 else dst)
            if len(kept) > 5:
                kept.pop(i % 5)
            del src, dst
            if i % 16 == 15:
                gc.collect()
        print("come and go", seen.hexdigest()[:16], digest(state, *kept))
    finally:
        cp.cuda.set_pinned_memory_allocator(cp.get_default_pinned_memory_pool().malloc)


def lists():
    """Linked lists in pinned memory: the CPU puts nodes in and takes them out; kernels walk other lists in the same pages."""
    lists_, nodes = 5, cupyx.zeros_pinned((400, 2), np.int32)
    sums, streams = cupyx.zeros_pinned((lists_, 16), np.int32), [cp.cuda.Stream(non_blocking=True) for _ in range(lists_)]
    members = [list(range(k, 400, lists_))[:40] for k in range(lists_)]
    spare = [list(range(k, 400, lists_))[40:] for k in range(lists_)]
    walk((1,), (1,), (at(nodes), np.int32(0), np.int32(0), at(sums)))
    cp.cuda.Device().synchronize()

    def run(k):
        rng, seen, mine = np.random.default_rng(40 + k), [], members[k]
        for i in range(40):
            for _ in range(3):
                if spare[k] and rng.random() < 0.5:
                    mine.insert(int(rng.integers(0, len(mine))), spare[k].pop())
                else:
                    spare[k].insert(0, mine.pop(int(rng.integers(0, len(mine)))))
            for x, y in zip(mine, mine[1:] + [-1]):
                nodes[x, 0] = y
                nodes[x, 1] = (x * 17 + i) % 1000
            with streams[k]:
                walk((1,), (1,), (at(nodes), np.int32(mine[0]), np.int32(1000), at(sums[k])))
            streams[k].synchronize()
            seen.append(int(sums[k, 0]))
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]

    print("lists", *in_threads(run, lists_))


def relay():
    """Tokens go round: each thread adds a note from pinned memory and hands a device array on with an event, no one waits for it."""
    hops, n, boxes = 12, 3000, [queue.Queue() for _ in range(4)]
    notes = cupyx.zeros_pinned((4, hops, N), np.int32)
    streams, scratch = [cp.cuda.Stream(non_blocking=True) for _ in range(4)], cp.zeros((4, hops, N), cp.int32)
    tokens, end = [cp.arange(n, dtype=cp.int32) * (t + 1) for t in range(3)], [None] * 3
    states = [cp.zeros(n, cp.int32) for _ in range(3)]
    bump = cp.ElementwiseKernel("raw int32 note, int32 k, int32 x", "int32 y", "y = x * 5 + note[i % 32] + k", "bump")
    cp.cuda.Device().synchronize()
    with streams[0]:
        bump(scratch[0, 0], 0, states[0], states[0])
    cp.cuda.Device().synchronize()

    def run(k):
        s, used = streams[k], 0
        for _ in range(hops):
            t, lap, event = boxes[k].get(timeout=60)
            notes[k, used] = np.arange(N) * (k + 1) + t * 100 + lap  # depends on the token alone, as does what follows
            if event is not None:
                s.wait_event(event)
            with s:
                runtime.memcpyAsync(scratch[k, used].data.ptr, notes[k, used].ctypes.data, 4 * N, H2D, s.ptr)
                bump(scratch[k, used], k, tokens[t], tokens[t])
                mix((8,), (128,), (tokens[t], states[t], tokens[t], np.int32(n), np.int32(lap)))
            event, used = s.record(), used + 1
            boxes[(k + 1) % 4].put((t, lap + 1, event))
        return used

    for t in range(3):
        boxes[0].put((t, 0, None))
    used = in_threads(run, 4)
    cp.cuda.Device().synchronize()
    print("relay", used, *[digest(t) for t in tokens], digest(*states))


parts = [(records, kind) for kind in ("in place", "copies", "slow", "graphs", "graphs in place")]
for part, *args in parts + [(host_writers,), (combined,), (come_and_go,), (lists,), (relay,)]:
    try:
        part(*args)
    except Exception as e:
        print("skipped:", part.__name__, *args, type(e).__name__, str(e).splitlines()[:1])
cp.cuda.Device().synchronize()
