# JAX: a language model in shard_map over a mesh of one device, from a prefetching thread to text: layers in a scan with remat, bf16
# with a loss scale under lax.cond, hand-written AdamW, a custom_vjp cross entropy, a Pallas kernel, metrics by io_callback, a checkpoint
# read back, a compilation cache in a directory of its own that is used again after clear_caches, an exported function, decoding in a loop.
import os
import tempfile
CACHE = tempfile.mkdtemp(prefix="jax_lm_mesh_")
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.08"
import hashlib
import queue
import shutil
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_compilation_cache_dir", CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
NAME, TOTAL = "jax_lm_mesh", hashlib.sha256()
V, D, H, LAYERS, T, BATCH = 128, 128, 4, 4, 64, 32
MESH = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("dp", "tp"))


def digest(*trees):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(trees):
        raw = np.ascontiguousarray(np.asarray(leaf)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def init(key):
    ks = random.split(key, 6)
    normal = lambda k, *s: random.normal(k, s) / s[-2] ** 0.5
    return {"emb": random.normal(ks[0], (V, D)) * 0.1, "pos": random.normal(ks[1], (T, D)) * 0.1,
            "layers": {"qkv": normal(ks[2], LAYERS, D, 3 * D), "out": normal(ks[3], LAYERS, D, D), "up": normal(ks[4], LAYERS, D, 4 * D),
                       "down": normal(ks[5], LAYERS, 4 * D, D), "g": jnp.ones((LAYERS, 2, D))}}


def norm(x, g):
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * g).astype(x.dtype)


def attend(q, k, v, mask):
    s = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) / (D // H) ** 0.5
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask, s, -1e9), -1).astype(v.dtype), v)


def block(x, w):
    b, t, _ = x.shape
    q, k, v = jnp.split((norm(x, w["g"][0]) @ w["qkv"]).reshape(b, t, 3 * H, D // H), 3, 2)
    y = attend(q, k, v, jnp.tril(jnp.ones((t, t), bool))).reshape(b, t, D)
    x = x + lax.psum(y @ w["out"], "tp")
    return x + lax.psum(jax.nn.gelu(norm(x, w["g"][1]) @ w["up"]) @ w["down"], "tp"), None


@jax.custom_vjp
def entropy(logits, want):
    return entropy_fwd(logits, want)[0]


def entropy_fwd(logits, want):
    p = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(p, want[..., None], -1).mean(), (p, want)


def entropy_bwd(res, g):
    p, want = res
    return (jnp.exp(p) - jax.nn.one_hot(want, V)) * (g / want.size), None


entropy.defvjp(entropy_fwd, entropy_bwd)


def local_loss(params, ids, scale):
    w = jax.tree_util.tree_map(lambda a: a.astype(jnp.bfloat16), params)
    x = w["emb"][ids[:, :-1]] + w["pos"][:ids.shape[1] - 1]
    x, _ = lax.scan(jax.checkpoint(block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable), x, w["layers"])
    return entropy((x @ w["emb"].T).astype(jnp.float32), ids[:, 1:]) * scale


def local_step(state, ids):
    scaled, g = jax.value_and_grad(local_loss)(state["p"], ids, state["scale"])
    g = jax.tree_util.tree_map(lambda a: lax.pmean(a, ("dp", "tp")) / state["scale"], g)
    size = jnp.sqrt(sum(jnp.sum(a * a) for a in jax.tree_util.tree_leaves(g)))
    n = state["n"] + 1

    def apply(_):
        lr, clip = 3e-3 * jnp.minimum(1.0, n / 10), jnp.minimum(1.0, 1.0 / (size + 1e-6))
        m = jax.tree_util.tree_map(lambda a, b: 0.9 * a + 0.1 * b * clip, state["m"], g)
        v = jax.tree_util.tree_map(lambda a, b: 0.99 * a + 0.01 * (b * clip) ** 2, state["v"], g)
        move = lambda p, a, b: p * (1 - lr * 0.05) - lr * (a / (1 - 0.9 ** n)) / (jnp.sqrt(b / (1 - 0.99 ** n)) + 1e-8)
        return {"p": jax.tree_util.tree_map(move, state["p"], m, v), "m": m, "v": v, "n": n, "scale": state["scale"] * 1.01}

    def skip(_):
        return {**state, "scale": state["scale"] * 0.25}

    return lax.cond(jnp.isfinite(size) & (n % 17 != 5), apply, skip, None), scaled / state["scale"]


LOG = []
sharded = jax.shard_map(local_step, mesh=MESH, in_specs=(P(), P("dp", None)), out_specs=(P(), P()), check_vma=False)


def logged(state, ids):
    state, loss = sharded(state, ids)
    io_callback(lambda n, x: LOG.append((int(n), float(x))), None, state["n"], loss, ordered=True)
    return state, loss


def feeder(out, count, seed):
    rng, where = np.random.default_rng(seed), NamedSharding(MESH, P("dp", None))
    buffer = np.empty((BATCH, T + 1), np.int32)  # used again and again: what is put is a copy
    for _ in range(count):
        a, b = rng.integers(0, V, (2, BATCH, 1))
        buffer[:] = (a + (b % 7 + 1) * np.arange(T + 1) + np.arange(T + 1) ** 2 % 5) % V
        out.put(jax.device_put(buffer.copy(), where))
    out.put(None)


def train(step, state, count, seed):
    ahead, losses = queue.Queue(3), []
    thread = threading.Thread(target=feeder, args=(ahead, count, seed))
    thread.start()
    while (ids := ahead.get()) is not None:
        state, loss = step(state, ids)
        losses.append(loss)
    thread.join()
    return state, jnp.stack(losses)


def fresh():
    p = init(random.key(3))
    zeros = lambda: jax.tree_util.tree_map(jnp.zeros_like, p)
    state = {"p": p, "m": zeros(), "v": zeros(), "n": jnp.zeros((), jnp.int32), "scale": jnp.float32(1024)}
    return jax.device_put(state, NamedSharding(MESH, P()))


def training():
    step = jax.jit(logged, donate_argnums=0)
    state, first = train(step, fresh(), 30, 1)
    flat, tree = jax.tree_util.tree_flatten(state)
    path = os.path.join(CACHE, "middle.npz")
    np.savez(path, *[np.asarray(a) for a in flat])
    state, second = train(step, state, 20, 2)
    jax.effects_barrier()
    print("losses %.3f %.3f %.3f" % (first[0], first[-1], second[-1]), digest(first, second, state), "logged", len(LOG))
    entries = len([f for f in os.listdir(CACHE) if "cache" in f])
    jax.clear_caches()  # compiled once more: out of the directory
    with np.load(path) as f:
        again = jax.device_put(jax.tree_util.tree_unflatten(tree, [f["arr_%d" % i] for i in range(len(flat))]), NamedSharding(MESH, P()))
    again, third = train(jax.jit(logged, donate_argnums=0), again, 20, 2)
    jax.effects_barrier()
    print("again", bool((np.asarray(second) == np.asarray(third)).all()), digest(again), "cached", entries > 0, LOG[-20:] == LOG[30:50])
    return again["p"]


def decode(params):
    @partial(jax.jit, donate_argnums=1)
    def generate(w, cache, start, key, steps):
        def one(carry):
            i, ids, out, cache, key = carry
            x = w["emb"][ids] + w["pos"][i]

            def layer(x, lw_c):
                lw, c = lw_c
                q, k, v = jnp.split((norm(x, lw["g"][0]) @ lw["qkv"]).reshape(-1, 1, 3 * H, D // H), 3, 2)
                c = lax.dynamic_update_slice(c, jnp.stack((k, v)), (0, 0, i, 0, 0))
                y = attend(q, c[0], c[1], jnp.arange(T) <= i).reshape(-1, D)
                x = x + y @ lw["out"]
                return x + jax.nn.gelu(norm(x, lw["g"][1]) @ lw["up"]) @ lw["down"], c

            x, cache = lax.scan(layer, x, (w["layers"], cache))
            key, sub = random.split(key)
            ids = random.categorical(sub, (x @ w["emb"].T) / 0.7)
            return i + 1, ids, out.at[:, i].set(ids), cache, key

        go_on = lambda c: (c[0] < steps) & ~jnp.all(c[1] == 0)
        return lax.while_loop(go_on, one, (0, start, jnp.zeros((start.shape[0], T), start.dtype), cache, key))

    texts = []
    for i, n in enumerate((8, 8, 3)):
        cache = jnp.zeros((LAYERS, 2, n, T, H, D // H))
        done, _, out, cache, _ = generate(params, cache, jnp.arange(1, n + 1), random.key(i), 40 + i)
        texts += [out, cache[0, 0, 0, :done]]
    print("decoded", int(done), digest(texts))


def exported(params):
    from jax import export
    x = random.normal(random.key(9), (6, 10, D))
    f = jax.jit(lambda p, x: norm(jnp.tanh(x @ p["layers"]["qkv"][0])[..., :D], p["layers"]["g"][1, 0]))
    back = export.export(f)(params, x)
    try:
        back = export.deserialize(back.serialize())
    except ImportError:
        pass  # flatbuffers is not always there
    print("exported", digest(jax.jit(back.call)(params, x), jax.grad(lambda x: f(params, x).sum())(x)))


def pallas():
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plt

    def kernel(x_ref, g_ref, o_ref, n_ref):
        x = x_ref[...]
        r = lax.rsqrt((x * x).sum(1) / D + 1e-6)

        def polish(i, y):
            return y * (1.5 - 0.5 * y * y * ((x * x).sum(1) / D + 1e-6))

        r = lax.fori_loop(0, 3, polish, r)
        o_ref[...] = x * r[:, None] * g_ref[...][None, :]
        n_ref[...] = r

    rows = pl.BlockSpec((16, D), lambda i: (i, 0))
    ins, outs = [rows, pl.BlockSpec((D,), lambda i: (0,))], [rows, pl.BlockSpec((16,), lambda i: (i,))]
    f = pl.pallas_call(kernel, grid=(20,), in_specs=ins, out_specs=outs, compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
                       out_shape=[jax.ShapeDtypeStruct((320, D), jnp.float32), jax.ShapeDtypeStruct((320,), jnp.float32)])
    x, g = random.normal(random.key(12), (320, D)), random.uniform(random.key(13), (D,))
    y, r = jax.jit(f)(x, g)
    print("pallas", bool(jnp.allclose(y, norm(x, g), atol=1e-4)), digest(y, r))


def part(f, *a):
    try:
        return f(*a)
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))


try:
    trained = part(training) or init(random.key(3))
    for f in (decode, exported):
        part(f, trained)
    part(pallas)
finally:
    shutil.rmtree(CACHE, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
