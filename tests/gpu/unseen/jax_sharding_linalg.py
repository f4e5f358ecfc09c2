# JAX's way to spell things for many devices, on one: a mesh, named shardings, shard_map with collectives, pmap; then
# a pallas kernel, Fourier transforms, factorisations, sparse matrices and low-precision arithmetic.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.10"
import hashlib
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def digest(tree):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        h.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return h.hexdigest()[:16]


def shard_map_of():
    if hasattr(jax, "shard_map"):
        return jax.shard_map
    from jax.experimental.shard_map import shard_map
    return shard_map


MESH = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))


def sharded_training():
    on = lambda *spec: NamedSharding(MESH, P(*spec))
    ks = random.split(random.key(0), 3)
    w = {"a": jax.device_put(random.normal(ks[0], (48, 256)) / 7, on(None, "model")),
         "b": jax.device_put(random.normal(ks[1], (256, 10)) / 16, on("model", None))}

    @partial(jax.jit, donate_argnums=0, out_shardings=({"a": on(None, "model"), "b": on("model", None)}, on()))
    def step(w, x, y):
        def loss(w):
            h = lax.with_sharding_constraint(jnp.tanh(x @ w["a"]), on("data", "model"))
            return -jnp.take_along_axis(jax.nn.log_softmax(h @ w["b"]), y[:, None], 1).mean()

        value, g = jax.value_and_grad(loss)(w)
        return jax.tree_util.tree_map(lambda a, b: a - 0.3 * b, w, g), value

    rng, losses = np.random.default_rng(1), []
    for i in range(25):
        y = rng.integers(0, 10, 128).astype(np.int32)
        x = rng.standard_normal((128, 48), dtype=np.float32) + np.eye(10, 48, dtype=np.float32)[y] * 3
        x, y = jax.device_put(x, on("data")), jax.device_put(y, on("data"))
        w, value = step(w, x, y)
        losses.append(value)
    print("sharded training %.4f -> %.4f" % (losses[0], losses[-1]), digest(losses), digest(w), w["a"].sharding.spec)


def mapped():
    shard_map = shard_map_of()

    def local(x, w):
        part = lax.psum(x @ w, "model")
        shifted = lax.ppermute(part, "data", [(0, 0)])
        return part + lax.all_gather(shifted, "data", axis=0, tiled=True) * (lax.axis_index("data") + 1)

    f = jax.jit(shard_map(local, mesh=MESH, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None)))
    x, w = random.normal(random.key(2), (64, 80)), random.normal(random.key(3), (80, 24))
    print("shard_map", digest(f(x, w)))


def pmapped():
    f = jax.pmap(lambda x, k: lax.pmean(jnp.sin(x) + random.normal(k, x.shape), "i"), axis_name="i")
    x = jnp.arange(600.0).reshape(1, 20, 30)
    nested = jax.vmap(jax.vmap(lambda a, b: jnp.dot(a, b), (0, None)), (None, 0))(x[0], x[0, :5] * 0.01)
    print("pmap", digest(f(x, random.split(random.key(4), 1))), "vmap", digest(nested))


def pallas():
    from jax.experimental import pallas as pl
    kw = {}
    try:
        from jax.experimental.pallas import triton as plt
        params = getattr(plt, "CompilerParams", None) or plt.TritonCompilerParams
        kw["compiler_params"] = params(num_warps=4, num_stages=1)
    except (ImportError, AttributeError):
        pass

    def kernel(x, y, o):
        a, b = x[...], y[...]
        o[...] = jnp.maximum(a, b) * 2.0 + a * b - jnp.where(a > 0.5, b, a)

    def softmax(x, o):
        v = x[...]
        e = jnp.exp(v - v.max(axis=1, keepdims=True))
        o[...] = e / e.sum(axis=1, keepdims=True)

    x, y = random.uniform(random.key(5), (256, 128)), random.uniform(random.key(6), (256, 128))
    block = pl.BlockSpec((32, 64), lambda i, j: (i, j))
    rows = pl.BlockSpec((16, 128), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    f = jax.jit(lambda x, y: pl.pallas_call(kernel, out_shape=shape, grid=(8, 2), in_specs=[block, block], out_specs=block, **kw)(x, y))
    s = jax.jit(lambda x: pl.pallas_call(softmax, out_shape=shape, grid=(16,), in_specs=[rows], out_specs=rows, **kw)(x * 9))
    print("pallas", digest(f(x, y)), digest(s(x)), "close", bool(jnp.allclose(s(x), jax.nn.softmax(x * 9, axis=1), atol=1e-5)))


def fourier():
    x = random.normal(random.key(7), (12, 100, 96))
    f = jax.jit(lambda x: (jnp.fft.rfft(x), jnp.fft.fft2(x), jnp.fft.irfft(jnp.fft.rfft(x, axis=1), axis=1), jnp.fft.fftn(x)))
    out = f(x)
    k = jnp.fft.fftfreq(96) * 96

    @jax.jit
    def heat(u):  # spectral steps
        return lax.fori_loop(0, 30, lambda i, u: jnp.fft.ifft(jnp.fft.fft(u) * jnp.exp(-0.001 * k * k)).real + 0.001 * u * (1 - u), u)

    print("fourier", digest(out), digest(heat(x[0])), "round trip", bool(jnp.allclose(out[2], x, atol=1e-4)))


def factorisations():
    a = random.normal(random.key(8), (6, 40, 40))
    spd = a @ jnp.swapaxes(a, 1, 2) / 40 + jnp.eye(40)
    chol = jax.jit(jnp.linalg.cholesky)(spd)
    q, r = jax.jit(jnp.linalg.qr)(a)
    u, s, vt = jax.jit(partial(jnp.linalg.svd, full_matrices=False))(a[:, :, :25])
    e, v = jax.jit(jnp.linalg.eigh)(spd)
    x = jax.jit(jnp.linalg.solve)(a, a[:, :, :3])
    ld = jax.jit(jax.grad(lambda m: jnp.linalg.slogdet(m)[1].sum()))(spd)
    tri = jax.jit(lambda c, b: jax.scipy.linalg.solve_triangular(c, b, lower=True))(chol[0], a[0])
    good = [jnp.allclose(q @ r, a, atol=1e-2), jnp.allclose((u * s[:, None]) @ vt, a[:, :, :25], atol=1e-2),
            jnp.allclose((v * e[:, None]) @ jnp.swapaxes(v, 1, 2), spd, atol=1e-2), jnp.allclose(x[0], jnp.eye(40)[:, :3], atol=5e-2)]
    print("factorisations", digest(chol), digest((q, r)), digest(s), digest(e), digest((x, ld, tri)), [bool(g) for g in good])


def sparse():
    from jax.experimental import sparse as sp
    rng = np.random.default_rng(9)
    dense = np.zeros((60, 50), np.float32)
    dense[rng.integers(0, 60, 300), rng.integers(0, 50, 300)] = rng.integers(-8, 9, 300)
    m, b = sp.BCOO.fromdense(jnp.asarray(dense)), jnp.asarray(rng.integers(-5, 6, (50, 7)).astype(np.float32))
    y = jax.jit(lambda m, b: m @ b)(m, b)
    g = jax.jit(jax.grad(lambda d, b: ((sp.BCOO((d, m.indices), shape=m.shape) @ b) ** 2).sum()))(m.data, b)
    f = jax.jit(sp.sparsify(lambda m, b: (m * 2.0) @ b + (m.T @ jnp.ones((60, 7))).sum()))(m, b)
    print("sparse", m.nse, digest(y), digest((g, f)), bool((np.asarray(y) == dense @ np.asarray(b)).all()))


def precision():
    out = []
    for t in (jnp.bfloat16, jnp.float16, jnp.float32):
        a, b = (random.normal(random.key(k), (96, 96)).astype(t) for k in (10, 11))
        f = jax.jit(lambda a, b: (jnp.matmul(a, b, preferred_element_type=jnp.float32), (a @ b).sum(0), jnp.exp(a) - b,
                                  jnp.matmul(a, b, precision=lax.Precision.HIGHEST)))
        out.append(digest([v.astype(jnp.float32) for v in f(a, b)]))
    i8 = jax.jit(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32))
    a = random.randint(random.key(12), (64, 64), -100, 100, jnp.int8)
    print("precision", *out, digest(i8(a, a.T)))


for part in (sharded_training, mapped, pmapped, pallas, fourier, factorisations, sparse, precision):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
