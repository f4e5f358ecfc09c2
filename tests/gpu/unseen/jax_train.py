# JAX: a jitted training step (grad, vmap, scan, remat, donated buffers, bf16, dropout by PRNG keys), with batches
# put on the device from several Python threads while steps are dispatched asynchronously.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import hashlib
import queue
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random

D, H, LAYERS, CLASSES, B = 64, 4, 4, 12, 32


def digest(tree):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        h.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return h.hexdigest()[:16]


def init(key):
    ks = random.split(key, 6)
    n = lambda k, *s: random.normal(k, s, jnp.float32) / np.sqrt(s[-2] if len(s) > 1 else 1.0)
    return {
        "inp": n(ks[0], 16, D),
        "layers": {  # stacked, for scan
            "qkv": n(ks[1], LAYERS, D, 3 * D), "out": n(ks[2], LAYERS, D, D),
            "up": n(ks[3], LAYERS, D, 2 * D), "down": n(ks[4], LAYERS, 2 * D, D), "g": jnp.ones((LAYERS, 2, D)),
        },
        "head": n(ks[5], D, CLASSES) * 0.1,
    }


def norm(x, g):
    x32 = x.astype(jnp.float32)
    return (x32 * lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6) * g).astype(x.dtype)


def attend(q, k, v):  # one head of one sample: t d
    s = jnp.einsum("td,sd->ts", q, k, preferred_element_type=jnp.float32) / np.sqrt(q.shape[-1])
    t = s.shape[0]
    s = jnp.where(jnp.tril(jnp.ones((t, t), bool)), s, -1e9)
    return jax.nn.softmax(s, axis=-1).astype(v.dtype) @ v


heads = jax.vmap(jax.vmap(attend))  # batch, heads


def forward(params, x, key):
    p16 = jax.tree_util.tree_map(lambda a: a.astype(jnp.bfloat16), params)
    h = x.astype(jnp.bfloat16) @ p16["inp"]

    @jax.checkpoint
    def layer(carry, lp):
        h, key = carry
        key, sub = random.split(key)
        b, t, _ = h.shape
        q, k, v = jnp.moveaxis((norm(h, lp["g"][0]) @ lp["qkv"]).reshape(b, t, 3, H, D // H), (2, 3), (0, 2))
        h = h + jnp.swapaxes(heads(q, k, v), 1, 2).reshape(b, t, D) @ lp["out"]
        u = jax.nn.gelu(norm(h, lp["g"][1]) @ lp["up"])
        u = jnp.where(random.bernoulli(sub, 0.9, u.shape), u / 0.9, 0).astype(u.dtype)
        return (h + u @ lp["down"], key), jnp.abs(h).max()

    (h, _), peaks = lax.scan(layer, (h, key), p16["layers"])
    return h.mean(1).astype(jnp.float32) @ params["head"], peaks


def loss_fn(params, x, y, key):
    logits, peaks = forward(params, x, key)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean(), peaks.max()


@partial(jax.jit, donate_argnums=(0, 1, 2))
def step(params, m, v, i, x, y, key):
    (loss, peak), g = jax.value_and_grad(loss_fn, has_aux=True)(params, x, y, random.fold_in(key, i))
    total = jnp.sqrt(sum(jnp.sum(a * a) for a in jax.tree_util.tree_leaves(g)))
    g = jax.tree_util.tree_map(lambda a: a * jnp.minimum(1.0, 1.0 / (total + 1e-6)), g)
    m = jax.tree_util.tree_map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree_util.tree_map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
    c1, c2 = 1 - 0.9 ** (i + 1.0), 1 - 0.99 ** (i + 1.0)
    params = jax.tree_util.tree_map(lambda p, a, b: p - 3e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), params, m, v)
    return params, m, v, (loss, peak, total)


def make_batch(i):
    r = np.random.default_rng(1000 + i)
    y = r.integers(0, CLASSES, B)
    x = r.standard_normal((B, 24, 16), dtype=np.float32) + (y[:, None, None] % 5) * 0.3
    return x, y.astype(np.int32)


def feeder(k, count, q):
    """Every third batch; the numpy arrays are dropped as soon as they were handed over."""
    for i in range(k, count, 3):
        q.put(jax.device_put(make_batch(i)))


def main():
    key = random.key(0)
    params = jax.jit(init)(key)
    m = jax.tree_util.tree_map(jnp.zeros_like, params)
    v = jax.tree_util.tree_map(jnp.zeros_like, params)
    steps = 36
    qs = [queue.Queue(maxsize=2) for _ in range(3)]
    ts = [threading.Thread(target=feeder, args=(k, steps, q), daemon=True) for k, q in enumerate(qs)]
    for t in ts:
        t.start()
    hist = []
    for i in range(steps):
        x, y = qs[i % 3].get()
        params, m, v, stats = step(params, m, v, jnp.int32(i), x, y, key)
        hist.append(stats)  # not looked at until the end: dispatch runs ahead
    for t in ts:
        t.join()
    hist = jax.device_get(hist)
    print("loss %.4f -> %.4f" % (hist[0][0], hist[-1][0]), "stats", digest(hist), "params", digest(params), "moments", digest((m, v)))

    ev = jax.jit(lambda p, x: forward(p, x, random.key(1))[0].argmax(-1))
    xs = [jax.device_put(make_batch(i)[0]) for i in range(500, 504)]
    print("eval", digest([ev(params, x) for x in xs]))

    # per-sample gradients, a Jacobian and a Hessian-vector product of a small function
    f = lambda w, x: jnp.tanh(x @ w).sum()
    w = random.normal(random.key(5), (16, 8))
    x = xs[0][:, 0]
    per = jax.jit(jax.vmap(jax.grad(f), (None, 0)))(w, x)
    jac = jax.jit(jax.jacfwd(lambda w: jnp.sin(x[:4] @ w)))(w)
    hvp = jax.jit(lambda w, t: jax.jvp(jax.grad(lambda w: f(w, x)), (w,), (t,))[1])(w, jnp.ones_like(w))
    print("derivatives", digest(per), digest(jac), digest(hvp))
    u = jax.jit(lambda k: (random.uniform(k, (100,)), random.permutation(k, 50), random.categorical(k, jnp.zeros((20, 7))),
                           random.truncated_normal(k, -1, 1, (33,), jnp.bfloat16)))(random.key(9))
    print("random", digest(u))


main()
