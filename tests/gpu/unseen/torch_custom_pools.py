# Memory pools of PyTorch over allocators of the program's own (compiled C behind MemPool): device tensors that really lie in pinned or
# managed host memory and are written by the CPU without any call, one slab cut into pieces, stream-ordered and mapped memory; graphs
# over such tensors; expandable segments switched on half-way, memory history, raw allocations, and pinned memory that is registered.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "pinned_use_cuda_host_register:True,pinned_num_register_threads:4"
import ctypes
import hashlib
import math
import subprocess
import tempfile
import numpy as np
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
DEV = "cuda"
SOURCE = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
typedef unsigned long long addr;
static void *find(const char *name) {
    static void *lib;
    if (!lib) lib = dlopen("libcuda.so.1", RTLD_NOW);
    return lib ? dlsym(lib, name) : 0;
}
#define CALL(name, types, args) (((int (*) types)find(#name)) args)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long taken[5], given[5];

void *take_host(ssize_t n, int dev, void *s) {
    void *p = 0;
    if (CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&p, n, 3))) return 0;
    memset(p, 0, n);
    taken[0]++;
    return p;
}
void give_host(void *p, ssize_t n, int dev, void *s) { CALL(cuMemFreeHost, (void *), (p)); given[0]++; }

void *take_managed(ssize_t n, int dev, void *s) {
    addr p = 0;
    if (CALL(cuMemAllocManaged, (addr *, size_t, unsigned), (&p, n, 1))) return 0;
    taken[1]++;
    return (void *)p;
}
void give_managed(void *p, ssize_t n, int dev, void *s) { CALL(cuMemFree_v2, (addr), ((addr)p)); given[1]++; }

#define UNIT (2ul << 20)
#define UNITS 96
static addr slab;
static char used[UNITS];
void *take_slab(ssize_t n, int dev, void *s) {
    void *p = 0;
    int want = (int)((n + UNIT - 1) / UNIT), run = 0;
    pthread_mutex_lock(&lock);
    if (!slab && CALL(cuMemAlloc_v2, (addr *, size_t), (&slab, UNIT * UNITS))) slab = 0;
    for (int i = 0; slab && i < UNITS; i++) {
        run = used[i] ? 0 : run + 1;
        if (run == want) {
            memset(used + i + 1 - want, 1, want);
            p = (void *)(slab + UNIT * (i + 1 - want));
            taken[2]++;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return p;
}
void give_slab(void *p, ssize_t n, int dev, void *s) {
    CALL(cuCtxSynchronize, (void), ());
    pthread_mutex_lock(&lock);
    memset(used + ((addr)p - slab) / UNIT, 0, (n + UNIT - 1) / UNIT);
    given[2]++;
    pthread_mutex_unlock(&lock);
}

void *take_ordered(ssize_t n, int dev, void *s) {
    addr p = 0;
    if (CALL(cuMemAllocAsync, (addr *, size_t, void *), (&p, n, s))) return 0;
    taken[3]++;
    return (void *)p;
}
void give_ordered(void *p, ssize_t n, int dev, void *s) { CALL(cuMemFreeAsync, (addr, void *), ((addr)p, s)); given[3]++; }

struct location { int type, id; };
struct prop { int type, handles; struct location where; void *win; unsigned char flags[8]; };
struct access { struct location where; int flags; };
void *take_mapped(ssize_t n, int dev, void *s) {
    struct prop prop = {1, 0, {1, dev}, 0, {0}};
    struct access access = {{1, dev}, 3};
    addr p = 0, h = 0;
    n = (n + UNIT - 1) / UNIT * UNIT;
    if (CALL(cuMemAddressReserve, (addr *, size_t, size_t, addr, addr), (&p, n, 0, 0, 0))) return 0;
    if (CALL(cuMemCreate, (addr *, size_t, struct prop *, addr), (&h, n, &prop, 0))) return 0;
    if (CALL(cuMemMap, (addr, size_t, size_t, addr, addr), (p, n, 0, h, 0))) return 0;
    CALL(cuMemRelease, (addr), (h)); /* lives as long as it is mapped */
    if (CALL(cuMemSetAccess, (addr, size_t, struct access *, size_t), (p, n, &access, 1))) return 0;
    taken[4]++;
    return (void *)p;
}
void give_mapped(void *p, ssize_t n, int dev, void *s) {
    n = (n + UNIT - 1) / UNIT * UNIT;
    CALL(cuCtxSynchronize, (void), ());
    CALL(cuMemUnmap, (addr, size_t), ((addr)p, n));
    CALL(cuMemAddressFree, (addr, size_t), ((addr)p, n));
    given[4]++;
}
"""
KINDS = ("host", "managed", "slab", "ordered", "mapped")


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def build():
    folder = tempfile.mkdtemp()
    with open(folder + "/pools.c", "w") as f:
        f.write(SOURCE)
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-o", folder + "/pools.so", folder + "/pools.c", "-ldl", "-lpthread"], check=True)
    return folder + "/pools.so"


def make_pool(so, kind):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(so, "take_" + kind, "give_" + kind)
    return allocator, torch.cuda.MemPool(allocator.allocator())


def on_the_cpu(t):
    """The same memory for the CPU; for tensors that lie in host memory only."""
    return np.ctypeslib.as_array((ctypes.c_int32 * t.numel()).from_address(t.data_ptr()))


def data(seed, *shape):
    return torch.randint(0, 1 << 20, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def mixed_sizes(pool):
    """Tensors come and go in the pool, on two streams, while others are outside of it."""
    live, out, side = [], [], torch.cuda.Stream()
    for i in range(60):
        with torch.cuda.use_mem_pool(pool):
            t = torch.full((1 + (i * 7919) % 90_000,), i, dtype=torch.int32, device=DEV)
            t += torch.arange(t.numel(), dtype=torch.int32, device=DEV) * 3
        live.append((t, t.flip(0)))
        if len(live) > 7:
            a, b = live.pop((i * 5) % 7)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                out.append(((a ^ b) * 31 + (a >> 3)).sum(dtype=torch.int64))
            a.record_stream(side)
            b.record_stream(side)
            del a, b
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    return digest(*out, *[t for pair in live for t in pair])


def training(pool):
    torch.manual_seed(3)
    with torch.cuda.use_mem_pool(pool):
        net = torch.nn.Sequential(torch.nn.Linear(70, 200), torch.nn.SiLU(), torch.nn.Linear(200, 9)).to(DEV)
        opt = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=True)
        for i in range(8):
            x = torch.randn(50, 70, generator=torch.Generator().manual_seed(i)).to(DEV)
            loss = F.cross_entropy(net(x), (x[:, :9] * 2).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
    torch.cuda.synchronize()
    return digest(*net.parameters())


def without_calls(pool):
    """Device tensors in host memory: the CPU writes what kernels and graphs read, and reads what they wrote. No copy is called for."""
    n, s, seen = 6000, torch.cuda.Stream(), hashlib.sha256()
    with torch.cuda.use_mem_pool(pool):
        x, y = (torch.zeros(2, n, dtype=torch.int32, device=DEV) for _ in range(2))
    state, a, b = torch.zeros(n, dtype=torch.int32, device=DEV), on_the_cpu(x).reshape(2, n), on_the_cpu(y).reshape(2, n)

    def body(half):
        state.mul_(31).add_(x[half])
        y[half].copy_(state ^ (state >> 9))

    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        body(0), body(1)
    torch.cuda.synchronize()
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    for half, g in enumerate(graphs):
        with torch.cuda.graph(g, stream=s):
            body(half)
    torch.cuda.synchronize()
    state.zero_()
    torch.cuda.synchronize()
    rng = np.random.default_rng(5)
    for i in range(30):
        half = i % 2
        a[half] = rng.integers(0, 1 << 20, n)
        a[half, ::5] ^= b[half, ::5]
        with torch.cuda.stream(s):
            graphs[half].replay() if i % 5 != 4 else body(half)
        s.synchronize()
        seen.update(b[half].tobytes())
        b[half, i::100] = -i
    return seen.hexdigest()[:16], digest(state)


def two_halves(pool):
    """The CPU fills one half of a pinned tensor while a graph reads the other; both are ends of the same page here and there."""
    n, s, seen = 1500, torch.cuda.Stream(), hashlib.sha256()
    with torch.cuda.use_mem_pool(pool):
        x, y = (torch.zeros(2, n, dtype=torch.int32, device=DEV) for _ in range(2))
    state, a, b = torch.zeros(n, dtype=torch.int32, device=DEV), on_the_cpu(x).reshape(2, n), on_the_cpu(y).reshape(2, n)
    graphs, done, rng = [torch.cuda.CUDAGraph() for _ in range(2)], [torch.cuda.Event() for _ in range(2)], np.random.default_rng(6)
    torch.cuda.synchronize()
    for half, g in enumerate(graphs):
        with torch.cuda.graph(g, stream=s):
            for k in range(6):
                state.mul_(33).add_(x[half]).bitwise_xor_(k)
            y[half].copy_(state)
    torch.cuda.synchronize()
    for i in range(40):
        half = i % 2
        done[half].synchronize()  # the graph on this half; the one on the other half goes on
        if i >= 2:
            seen.update(b[half].tobytes())
        a[half] = rng.integers(0, 1 << 20, n) + i
        with torch.cuda.stream(s):
            graphs[half].replay()
            done[half].record(s)
    torch.cuda.synchronize()
    return seen.hexdigest()[:16], digest(state, y)


def pools(so):
    counts = ctypes.CDLL(so)
    for k, kind in enumerate(KINDS):
        try:
            allocator, pool = make_pool(so, kind)
            parts = [mixed_sizes, training] + ([without_calls] if k < 2 else []) + ([two_halves] if k == 0 else [])
            for part in parts:
                print(kind, part.__name__, part(pool))
            torch.cuda.synchronize()
            print(kind, "used", (ctypes.c_long * 5).in_dll(counts, "taken")[k] > 0)
            del pool
            torch.cuda.empty_cache()
        except Exception as e:
            print("skipped:", kind, type(e).__name__, str(e).splitlines()[:1])


def plain_pool():
    """A pool of PyTorch's own, filled, emptied, filled again; a graph captured into it; history and snapshots of all that."""
    torch.cuda.memory._record_memory_history(max_entries=20_000, stacks="python")
    pool, out = torch.cuda.MemPool(), []
    for turn in range(3):
        out.append(mixed_sizes(pool))
    with torch.cuda.use_mem_pool(pool):
        x = torch.arange(40_000, dtype=torch.int32, device=DEV)
    g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        (x * 5 + x.flip(0)).sort()
    torch.cuda.synchronize()
    with torch.cuda.graph(g, pool=pool.id, stream=s):
        y = (x * 5 + x.flip(0)).sort().values
    for i in range(5):
        with torch.cuda.stream(s):
            g.replay()
            x.copy_(y ^ (i * 77))
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    print("plain pool", *out, digest(x), len(snapshot["segments"]) > 0, sum(len(t) for t in snapshot["device_traces"]) > 100)


def expandable():
    """The allocator's settings change while tensors are alive."""
    out, live, settings = [], [], getattr(torch._C, "_accelerator_setAllocatorSettings", None) or torch.cuda.memory._set_allocator_settings
    for turn, on in enumerate((False, True, False, True)):
        settings(f"expandable_segments:{on}")
        for i in range(20):
            live.append(torch.full((50_000 * (1 + (i * 7) % 13),), i + turn, dtype=torch.int32, device=DEV))
            if i % 3 == 2:
                a = live.pop((i * 11) % len(live))
                out.append((a * 17 + live[0][: a.numel()].sum()).sum())
                del a
        torch.cuda.empty_cache()
        del live[::2]
    settings("expandable_segments:False")
    print("expandable", digest(*out), digest(*live))


class Raw:
    def __init__(self, address, n):
        self.__cuda_array_interface__ = {"shape": (n,), "typestr": "<i4", "data": (address, False), "version": 2}


def raw():
    """Memory taken from the caching allocator as addresses, looked at as tensors."""
    held, out = [], []
    for i in range(12):
        n = 3000 + 5000 * (i % 5)
        held.append((torch.cuda.caching_allocator_alloc(4 * n), n))
        t = torch.as_tensor(Raw(*held[-1]), device=DEV)
        t.copy_(data(i, n))
        out.append((t * 7 ^ (t >> 2)).sum())
        if i % 3 == 2:
            torch.cuda.synchronize()
            torch.cuda.caching_allocator_delete(held.pop(i % 2)[0])
    torch.cuda.synchronize()
    rest = [digest(torch.as_tensor(Raw(*h), device=DEV)) for h in held]
    for address, _ in held:
        torch.cuda.caching_allocator_delete(address)
    print("raw", digest(*out), *rest[:3])


def pinned_churn():
    """Pinned tensors that are dropped as soon as their copy was called for; the allocator hands them out again when it was made."""
    streams, acc = [torch.cuda.Stream() for _ in range(3)], [torch.zeros(20_000, dtype=torch.int32, device=DEV) for _ in range(3)]
    torch.cuda.synchronize()
    for i in range(150):
        n = 1 + (i * 4999) % 20_000
        t = torch.empty(n, dtype=torch.int32, pin_memory=True)
        t.copy_(torch.arange(n, dtype=torch.int32) * (i + 1))
        with torch.cuda.stream(streams[i % 3]):
            d = t.to(DEV, non_blocking=True)
            acc[i % 3].mul_(5)[:n].add_(d)
        del t, d
    torch.cuda.synchronize()
    back = [torch.empty(20_000, dtype=torch.int32, pin_memory=True) for _ in range(3)]
    for s, a, b in zip(streams, acc, back):
        with torch.cuda.stream(s):
            b.copy_(a, non_blocking=True)
    torch.cuda.synchronize()
    print("pinned churn", digest(*back))


for part in (pinned_churn, plain_pool, raw, expandable):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
try:
    torch.zeros(1, device=DEV)
    pools(build())
except Exception as e:
    print("skipped: pools", type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
