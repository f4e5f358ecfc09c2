# JAX with operations of the program's own (foreign functions, C++ compiled on the spot) that use the driver on XLA's stream: data goes
# down into a pinned ring, is worked on by a function of the host, and goes up again; a kernel from PTX with scratch memory of both
# sorts; an operation with state on the device; a source that fills pinned memory late. In scans, loops, branches, threads, in place.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.03"
import ctypes
import hashlib
import subprocess
import tempfile
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax

SOURCE = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
typedef void *stream_t;
typedef unsigned long long addr;
typedef ffi::Buffer<ffi::S32> Ints;
typedef ffi::ResultBuffer<ffi::S32> Out;

static void *find(const char *name) {
    static void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    return lib ? dlsym(lib, name) : nullptr;
}
#define TRY(name, types, args) if (int code = ((int (*) types)find(#name)) args) \
    return ffi::Error(ffi::ErrorCode::kInternal, #name " failed: " + std::to_string(code))

static const size_t SLOT = 1 << 18;
struct Ring { char *mem; int next; };
struct Work { int32_t *mem; size_t n; int32_t k; uint32_t seed; };
static std::mutex lock;  // held while the parts of one operation are put on the stream, so that those of two do not mix
static std::map<stream_t, Ring> rings;

static ffi::Error slot(stream_t s, size_t bytes, int32_t **mem) {
    if (bytes > SLOT) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "too large");
    Ring &r = rings[s];
    if (!r.mem) { TRY(cuMemHostAlloc, (void **, size_t, unsigned), ((void **)&r.mem, 4 * SLOT, 1)); }
    *mem = (int32_t *)(r.mem + SLOT * (r.next++ % 4));
    return ffi::Error::Success();
}

static void transform(void *p) {
    Work *w = (Work *)p;
    uint32_t s = w->k;
    for (size_t i = 0; i < w->n; i++) {
        s = s * 1664525u + 1013904223u + (uint32_t)w->mem[i];
        w->mem[i] = (int32_t)((s >> 8) ^ ((uint32_t)w->mem[i] << 3)) & 0xfffff;
    }
    delete w;
}
static void fill(void *p) {
    Work *w = (Work *)p;
    uint32_t s = w->seed;
    for (size_t i = 0; i < w->n; i++) { s = s * 22695477u + 1u; w->mem[i] = (int32_t)(s >> 12) + w->k; }
    delete w;
}

static ffi::Error Stage(stream_t s, Ints x, Out y, int32_t k) {
    std::lock_guard<std::mutex> hold(lock);
    int32_t *mem;
    size_t n = x.element_count();
    if (ffi::Error e = slot(s, 4 * n, &mem); e.failure()) return e;
    TRY(cuMemcpyDtoHAsync_v2, (void *, addr, size_t, stream_t), (mem, (addr)x.typed_data(), 4 * n, s));
    TRY(cuLaunchHostFunc, (stream_t, void (*)(void *), void *), (s, transform, new Work{mem, n, k, 0}));
    TRY(cuMemcpyHtoDAsync_v2, (addr, const void *, size_t, stream_t), ((addr)y->typed_data(), mem, 4 * n, s));
    return ffi::Error::Success();
}

static ffi::Error Source(stream_t s, Out y, int32_t seed) {
    static std::map<int32_t, uint32_t> turns;
    std::lock_guard<std::mutex> hold(lock);
    int32_t *mem;
    size_t n = y->element_count();
    if (ffi::Error e = slot(s, 4 * n, &mem); e.failure()) return e;
    uint32_t turn = turns[seed]++;
    TRY(cuLaunchHostFunc, (stream_t, void (*)(void *), void *), (s, fill, new Work{mem, n, (int32_t)turn, seed * 2654435761u + turn}));
    TRY(cuMemcpyHtoDAsync_v2, (addr, const void *, size_t, stream_t), ((addr)y->typed_data(), mem, 4 * n, s));
    return ffi::Error::Success();
}

static const char *PTX = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry mix(.param .u64 px, .param .u64 py, .param .u32 pn, .param .u32 pk) {
    .reg .pred %p; .reg .b32 %r<11>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py]; ld.param.u32 %r3, [pn]; ld.param.u32 %r2, [pk];
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;
    mad.lo.s32 %r1, %r4, %r5, %r6;
    setp.ge.s32 %p, %r1, %r3;
    @%p bra DONE;
    cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;
    ld.global.u32 %r7, [%rd5];
    shr.s32 %r8, %r7, 3; add.s32 %r9, %r8, %r2; mad.lo.s32 %r10, %r7, 5, %r9;
    cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;
    st.global.u32 [%rd7], %r10;
DONE:
    ret;
}
)";
static ffi::Error launch(stream_t s, addr x, addr y, int n, int k) {
    static void *mod, *fn;
    if (!fn) {
        TRY(cuModuleLoadData, (void **, const void *), (&mod, PTX));
        TRY(cuModuleGetFunction, (void **, void *, const char *), (&fn, mod, "mix"));
    }
    void *args[] = {&x, &y, &n, &k};
    TRY(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream_t, void **, void **),
        (fn, (n + 255) / 256, 1, 1, 256, 1, 1, 0, s, args, nullptr));
    return ffi::Error::Success();
}

/* Three rounds of the kernel by way of scratch memory: the driver's, in stream order, or XLA's. */
static ffi::Error Rounds(stream_t s, ffi::ScratchAllocator scratch, Ints x, Out y, int32_t k) {
    std::lock_guard<std::mutex> hold(lock);
    int n = (int)x.element_count();
    addr a = 0, b = (addr)y->typed_data();
    if (k % 2) {
        TRY(cuMemAllocAsync, (addr *, size_t, stream_t), (&a, 4 * (size_t)n, s));
    } else {
        auto got = scratch.Allocate(4 * (size_t)n);
        if (!got) return ffi::Error(ffi::ErrorCode::kInternal, "no scratch memory");
        a = (addr)*got;
    }
    if (ffi::Error e = launch(s, (addr)x.typed_data(), a, n, k); e.failure()) return e;
    if (ffi::Error e = launch(s, a, a, n, k + 1); e.failure()) return e;
    if (ffi::Error e = launch(s, a, b, n, k + 2); e.failure()) return e;
    if (k % 2) { TRY(cuMemFreeAsync, (addr, stream_t), (a, s)); }
    return ffi::Error::Success();
}

/* What came before is kept in memory of the operation's own; the answer is what was kept `back` calls ago. */
static ffi::Error Remember(stream_t s, Ints x, Out y, int32_t back) {
    static addr kept;
    static int turn;
    std::lock_guard<std::mutex> hold(lock);
    size_t bytes = 4 * x.element_count();
    if (bytes > 1 << 16) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "too large");
    if (!kept) {
        TRY(cuMemAlloc_v2, (addr *, size_t), (&kept, 8 << 16));
        TRY(cuMemsetD8Async, (addr, unsigned char, size_t, stream_t), (kept, 1, 8 << 16, s));
    }
    TRY(cuMemcpyDtoDAsync_v2, (addr, addr, size_t, stream_t), ((addr)y->typed_data(), kept + ((addr)((turn + 8 - back) % 8) << 16), bytes, s));
    TRY(cuMemcpyDtoDAsync_v2, (addr, addr, size_t, stream_t), (kept + ((addr)(turn % 8) << 16), (addr)x.typed_data(), bytes, s));
    turn++;
    return ffi::Error::Success();
}

#define ON_STREAM ffi::Ffi::Bind().Ctx<ffi::PlatformStream<stream_t>>()
XLA_FFI_DEFINE_HANDLER_SYMBOL(StageOp, Stage, ON_STREAM.Arg<Ints>().Ret<Ints>().Attr<int32_t>("k"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(SourceOp, Source, ON_STREAM.Ret<Ints>().Attr<int32_t>("seed"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(RoundsOp, Rounds, ON_STREAM.Ctx<ffi::ScratchAllocator>().Arg<Ints>().Ret<Ints>().Attr<int32_t>("k"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(RememberOp, Remember, ON_STREAM.Arg<Ints>().Ret<Ints>().Attr<int32_t>("back"));
"""


def digest(tree):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        h.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return h.hexdigest()[:16]


def build():
    folder = tempfile.mkdtemp()
    with open(folder + "/ops.cc", "w") as f:
        f.write(SOURCE)
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-I", jax.ffi.include_dir(), "-o", folder + "/ops.so", folder + "/ops.cc", "-ldl"], check=True)
    lib = ctypes.CDLL(folder + "/ops.so")
    for name in ("Stage", "Source", "Rounds", "Remember"):
        jax.ffi.register_ffi_target("trial_" + name.lower(), jax.ffi.pycapsule(getattr(lib, name + "Op")), platform="CUDA")


def op(name, like, *args, **options):
    attrs = {k: np.int32(options.pop(k)) for k in ("k", "seed", "back") if k in options}
    return jax.ffi.ffi_call("trial_" + name, jax.ShapeDtypeStruct(like.shape, jnp.int32), **options)(*args, **attrs)


stage = lambda x, k: op("stage", x, x, k=k, vmap_method="sequential")
rounds = lambda x, k: op("rounds", x, x, k=k, vmap_method="sequential")
remember = lambda x, back: op("remember", x, x, back=back, has_side_effect=True)
source = lambda x, seed: op("source", x, seed=seed, has_side_effect=True)


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(0, 1 << 20, shape).astype(np.int32)


@jax.jit
def chain(x):
    """The host takes part five times a turn, while the device goes on with what does not depend on it."""
    def body(x, i):
        a = stage(x * 3 + i, 1)
        b = jnp.sort(x) ^ (x >> 4)
        a = rounds(a, 2) & 0xFFFFF
        c = stage(a + b, 2)
        return (c ^ rounds(b, 3)) & 0xFFFFF, jnp.sum(c % 1009)

    return lax.scan(body, x, jnp.arange(8))


def chains():
    out, x = [], numbers(1, 5000)
    for i in range(5):
        x, sums = chain(x)
        out.append(sums)
        if i == 2:
            x = np.asarray(x)[::-1].copy()
    print("chain", digest((x, out)))


def control():
    """In loops that the device ends, in branches, and mapped over rows."""
    def body(s):
        x, n = s
        x = lax.switch(n % 3, [lambda x: stage(x, 5), lambda x: rounds(x, 6) & 0xFFFFF, lambda x: rounds(stage(x, 7), 8) & 0xFFFFF], x)
        return x, n + 1

    loop = jax.jit(lambda x, limit: lax.while_loop(lambda s: (s[1] < 40) & (jnp.sum(s[0] % 64) % limit != 0), body, (x, 0)))
    out = [loop(jnp.asarray(numbers(10 + i, 300 + i)), 7 + i) for i in range(4)]
    print("loops", [int(n) for _, n in out], digest([x for x, _ in out]))
    rows = jax.jit(jax.vmap(lambda x: stage(rounds(x, 1) & 0xFFFF, 3) + x.sum() % 11))
    print("rows", digest(rows(numbers(20, 6, 700))))


def state():
    """Operations that keep something: the order of calls matters, and is that of the program."""
    f = jax.jit(lambda x: remember(x * 7 + 1, 3) + x)
    g = jax.jit(lambda x: (source(x, 4) & 0xFFFF) + remember(x, 1), donate_argnums=0)
    x, seen = jnp.asarray(numbers(30, 4000)), []
    for i in range(25):
        x = (f(x) if i % 3 else g(x)) & 0xFFFFF
        if i % 4 == 0:
            seen.append(x.sum())
    more = jax.jit(lambda x: lax.fori_loop(0, 6, lambda i, x: (x + source(x, 9)) & 0xFFFFF, x))
    print("state", digest((x, seen)), digest(more(jnp.zeros(3000, jnp.int32))))


def in_place():
    """The result is where the operand was; donated, so that nothing is copied before."""
    @partial(jax.jit, donate_argnums=0)
    def f(x, y):
        x = op("rounds", x, x, k=4, input_output_aliases={0: 0}) & 0xFFFFF
        return op("stage", x, x + y, k=9, input_output_aliases={0: 0}), x.max()

    x, y, tops = jnp.asarray(numbers(40, 20_000)), jnp.asarray(numbers(41, 20_000)), []
    for _ in range(20):
        x, top = f(x, y)
        tops.append(top)
    print("in place", digest((x, tops)))


def threads():
    """Several threads put such operations on the one stream; each checks on its own numbers only now and then."""
    results = {}

    def run(k):
        try:
            f = jax.jit(lambda x: stage(rounds(stage(x, 10 + k), k) & 0xFFFFF, 20 + k) ^ x)
            x, seen = jnp.asarray(numbers(50 + k, 1000 + 333 * k)), []
            for i in range(25):
                x = f(x)
                if i % 6 == k:
                    seen.append(np.asarray(x))
            results[k] = digest((x, seen))
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *[results[k] for k in sorted(results)])


try:
    build()
    parts = (chains, control, state, in_place, threads)
except Exception as e:
    parts = ()
    print("skipped: build", type(e).__name__)
for part in parts:
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
