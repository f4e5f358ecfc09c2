# JAX for pictures: an autoencoder that quantises with a straight-through gradient, a convolutional U-Net trained to denoise (bf16, remat,
# donated state, averaged weights, rates from a schedule, batches put on the device by a thread), sampled by DDIM with guidance, inpainting and
# a host that may stop it; a diffusion transformer by flow matching under scan; a sampler that is exported, written to a file and read back.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.06"
import hashlib
import queue
import shutil
import tempfile
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random
from jax import export
from jax.experimental import io_callback

NAME, TOTAL = "jax_diffusion", hashlib.sha256()
S, C, KINDS, STEPS, BATCH = 32, 48, 5, 100, 32
FOLDER, STATE = tempfile.mkdtemp(prefix="jax_diffusion_"), {}
tmap = jax.tree_util.tree_map


def digest(*trees):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(trees):
        raw = np.ascontiguousarray(np.asarray(leaf)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def pictures(seed, n):
    rng, (y, x) = np.random.default_rng(seed), np.mgrid[:S, :S] / S
    kind, out = rng.integers(0, KINDS, n), np.empty((n, S, S, 3), np.float32)
    for i, k in enumerate(kind):
        a, b = rng.uniform(0.3, 0.7, 2)
        m = (np.hypot(x - a, y - b) < 0.25, abs(x - a) < 0.15, abs(y - b) < 0.15, (x * 6 + y * 2) % 1 < 0.5, abs(x - a) + abs(y - b) < 0.3)[k]
        out[i] = m[..., None] * rng.uniform(0.4, 1, 3) * 2 - 1
    return out, kind.astype(np.int32)


def feed(first, count):
    q = queue.Queue(4)

    def work():
        for i in range(count):
            q.put(jax.device_put(pictures(first + i, BATCH)))

    t = threading.Thread(target=work)
    t.start()
    for _ in range(count):
        yield q.get()
    t.join()


def weights(key, shapes):
    keys = random.split(key, len(shapes))
    return {n: random.normal(k, s) * (2 / max(1, np.prod(s[:-1]))) ** 0.5 if len(s) > 1 else jnp.zeros(s)
            for k, (n, s) in zip(keys, sorted(shapes.items()))}


def conv(x, w, stride=1, wide=1):
    layout = ("NHWC", "HWIO", "NHWC")
    if wide > 1:
        return lax.conv_transpose(x, w.astype(x.dtype), (wide, wide), "SAME", dimension_numbers=layout)
    return lax.conv_general_dilated(x, w.astype(x.dtype), (stride, stride), "SAME", dimension_numbers=layout)


def group_norm(x, g, groups=8):
    b, h, w, c = x.shape
    y = x.astype(jnp.float32).reshape(b, h * w, groups, c // groups)
    y = (y - y.mean((1, 3), keepdims=True)) * lax.rsqrt(y.var((1, 3), keepdims=True) + 1e-5)
    return (y.reshape(x.shape) * (1 + g)).astype(x.dtype)


def res_shapes(n, i, o):
    return {n + "a": (3, 3, i, o), n + "b": (3, 3, o, o), n + "t": (2 * C, o), n + "g": (i,), n + "h": (o,), n + "s": (1, 1, i, o)}


def res(w, n, x, t):
    y = conv(jax.nn.silu(group_norm(x, w[n + "g"])), w[n + "a"])
    y = y + (t @ w[n + "t"].astype(t.dtype))[:, None, None]
    return conv(x, w[n + "s"]) + conv(jax.nn.silu(group_norm(y, w[n + "h"])), w[n + "b"])


UNET = {"in": (3, 3, 3, C), "out": (3, 3, C, 3), "down1": (3, 3, C, C), "down2": (3, 3, C, C), "up2": (4, 4, 2 * C, C), "up1": (4, 4, C, C),
        "kind": (KINDS + 1, 2 * C), "qkv": (2 * C, 6 * C), "proj": (2 * C, 2 * C), **res_shapes("r1", C, C), **res_shapes("r2", C, C),
        **res_shapes("m", C, 2 * C), **res_shapes("u2", 2 * C, C), **res_shapes("u1", 2 * C, C)}


def sinus(t):
    f = jnp.exp(-jnp.arange(C) / C * 7.0)
    return jnp.concatenate((jnp.sin(t[:, None] * f), jnp.cos(t[:, None] * f)), -1)


def unet(w, x, t, kind, dtype=jnp.bfloat16):
    block = jax.checkpoint(res, static_argnums=1)
    x = x.astype(dtype)
    e = (sinus(t.astype(jnp.float32)) + jax.nn.one_hot(kind, KINDS + 1) @ w["kind"]).astype(dtype)
    a = block(w, "r1", conv(x, w["in"]), e)
    b = block(w, "r2", conv(a, w["down1"], 2), e)
    m = block(w, "m", conv(b, w["down2"], 2), e)
    n, h, _, c = m.shape
    q, k, v = jnp.split(m.reshape(n, h * h, c) @ w["qkv"].astype(dtype), 3, -1)
    s = jax.nn.softmax(jnp.einsum("ntc,nsc->nts", q, k).astype(jnp.float32) * c ** -0.5)
    m = m + (jnp.einsum("nts,nsc->ntc", s.astype(dtype), v) @ w["proj"].astype(dtype)).reshape(m.shape)
    y = block(w, "u2", jnp.concatenate((conv(m, w["up2"], wide=2), b), -1), e)
    y = block(w, "u1", jnp.concatenate((conv(y, w["up1"], wide=2), a), -1), e)
    return conv(y, w["out"]).astype(jnp.float32)


KEEP = jnp.cumprod(1 - jnp.linspace(1e-4, 0.06, STEPS))


def adam(state, g, rate, decay=0.99):
    n = state["n"] + 1
    size = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree_util.tree_leaves(g)))
    g = tmap(lambda x: x * jnp.minimum(1.0, 1.0 / (size + 1e-6)), g)
    m, v = tmap(lambda a, b: 0.9 * a + 0.1 * b, state["m"], g), tmap(lambda a, b: 0.999 * a + 0.001 * b * b, state["v"], g)
    w = tmap(lambda p, a, b: p - rate * (a / (1 - 0.9 ** n)) / (jnp.sqrt(b / (1 - 0.999 ** n)) + 1e-8), state["w"], m, v)
    return {"w": w, "m": m, "v": v, "n": n, "ema": tmap(lambda a, b: decay * a + (1 - decay) * b, state["ema"], w)}


def fresh(w):
    return {"w": w, "m": tmap(jnp.zeros_like, w), "v": tmap(jnp.zeros_like, w), "n": jnp.zeros((), jnp.int32), "ema": tmap(jnp.copy, w)}


def denoiser():
    @partial(jax.jit, donate_argnums=0)
    def step(state, x, kind, key):
        k1, k2, k3 = random.split(random.fold_in(key, state["n"]), 3)
        t, noise = random.randint(k1, (BATCH,), 0, STEPS), random.normal(k2, x.shape)
        kind = jnp.where(random.uniform(k3, (BATCH,)) < 0.15, KINDS, kind)
        keep = (jax.nn.one_hot(t, STEPS) @ KEEP)[:, None, None, None]

        def loss(w):
            return jnp.mean((unet(w, jnp.sqrt(keep) * x + jnp.sqrt(1 - keep) * noise, t, kind) - noise) ** 2)

        value, g = jax.value_and_grad(loss)(state["w"])
        rate = 2e-3 * jnp.minimum(1.0, (state["n"] + 1) / 10) * (0.5 + 0.5 * jnp.cos(jnp.pi * state["n"] / 60))
        return adam(state, g, rate, 0.95), value

    state, losses = fresh(weights(random.key(1), UNET)), []
    for x, kind in feed(100, 50):
        state, value = step(state, x, kind, random.key(2))
        losses.append(value)
    losses = np.asarray(jnp.stack(losses))
    np.savez(os.path.join(FOLDER, "ema.npz"), **{k: np.asarray(v) for k, v in state["ema"].items()})
    with np.load(os.path.join(FOLDER, "ema.npz")) as f:
        STATE["ema"] = {k: jax.device_put(f[k]) for k in f.files}
    print("denoiser", bool(losses[-5:].mean() < losses[:5].mean()), digest(losses, state))


def predict(w, x, t, kind, guide):
    two = unet(w, jnp.concatenate((x, x)), jnp.full((2 * len(x),), t), jnp.concatenate((kind, jnp.full_like(kind, KINDS))))
    with_kind, without = jnp.split(two, 2)
    return without + guide * (with_kind - without)


def ddim(w, x, kind, guide):
    def body(i, x):
        t = STEPS - 1 - 5 * i
        now, then = KEEP[t], jnp.where(t >= 5, KEEP[jnp.maximum(t - 5, 0)], 1.0)
        e = predict(w, x, t, kind, guide)
        clean = jnp.clip((x - jnp.sqrt(1 - now) * e) / jnp.sqrt(now), -1, 1)
        return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * e
    return lax.fori_loop(0, STEPS // 5, body, x)


def sampling():
    w, kind = STATE["ema"], jnp.arange(10) % KINDS
    start = random.normal(random.key(3), (10, S, S, 3))
    out = jax.jit(ddim)(w, start, kind, 2.0)
    # ancestral sampling with a known left half, watched by the host
    known, _ = map(jnp.asarray, pictures(999, 10))
    left = (jnp.arange(S) < S // 2)[None, None, :, None]
    seen = []

    def watch(t, spread):
        seen.append((int(t), float(spread)))
        return np.bool_(t > 10)

    @jax.jit
    def inpaint(w, x, key):
        def body(c):
            t, x, _ = c
            k1, k2 = random.split(random.fold_in(key, t))
            keep, before = KEEP[t], KEEP[t - 1]
            x = jnp.where(left, jnp.sqrt(keep) * known + jnp.sqrt(1 - keep) * random.normal(k1, x.shape), x)
            e = predict(w, x, t, kind, 1.5)
            a = keep / before
            x = (x - (1 - a) / jnp.sqrt(1 - keep) * e) / jnp.sqrt(a) + jnp.sqrt(1 - a) * random.normal(k2, x.shape)
            go = lax.cond(t % 10 == 0, lambda: io_callback(watch, jax.ShapeDtypeStruct((), jnp.bool_), t, x.std(), ordered=True),
                          lambda: jnp.bool_(True))
            return t - 1, x, go
        return lax.while_loop(lambda c: (c[0] > 0) & c[2], body, (jnp.int32(60), x, jnp.bool_(True)))[:2]

    t, painted = inpaint(w, start, random.key(4))
    jax.effects_barrier()
    print("sampling", int(t), len(seen), digest(out, painted, np.array([s[1] for s in seen])))


def exported():
    w, kind = STATE["ema"], jnp.arange(10) % KINDS
    args = (w, jnp.zeros((10, S, S, 3)), kind, jnp.float32(1.0))
    made = export.export(jax.jit(ddim))(*args)
    try:
        path = os.path.join(FOLDER, "sampler.bin")
        with open(path, "wb") as f:
            f.write(made.serialize())
        with open(path, "rb") as f:
            call = export.deserialize(bytearray(f.read())).call
    except ImportError:  # flatbuffers is not there
        call = made.call
    ready, results = jax.jit(call).lower(*args).compile(), [None] * 3
    inputs = [random.normal(random.key(20 + i), (10, S, S, 3)) for i in range(3)]

    def work(i):
        results[i] = np.asarray(ready(w, inputs[i], kind, jnp.float32(1 + i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("exported", digest(results))


def codebook():
    shapes = {"e1": (4, 4, 3, 32), "e2": (4, 4, 32, 16), "d1": (4, 4, 16, 32), "d2": (4, 4, 32, 3), "book": (64, 16)}

    def loss(w, x):
        z = conv(jax.nn.gelu(conv(x, w["e1"], 2)), w["e2"], 2)
        d = jnp.sum((z[..., None, :] - w["book"]) ** 2, -1)
        one = jax.nn.one_hot(jnp.argmin(d, -1), 64)
        q = one @ w["book"]
        commit = jnp.mean((lax.stop_gradient(q) - z) ** 2) * 0.25 + jnp.mean((q - lax.stop_gradient(z)) ** 2)
        y = conv(jax.nn.gelu(conv(z + lax.stop_gradient(q - z), w["d1"], wide=2)), w["d2"], wide=2)
        return jnp.mean((y - x) ** 2) + commit, one.sum((0, 1, 2))

    @partial(jax.jit, donate_argnums=0)
    def step(state, x):
        (value, use), g = jax.value_and_grad(loss, has_aux=True)(state["w"], x)
        return adam(state, g, 3e-3), value, use

    state, path = fresh(weights(random.key(5), shapes)), []
    for x, _ in feed(5000, 30):
        state, value, use = step(state, x)
        path.append((value, use))
        if len(path) % 10 == 0:  # the host revives words that nobody uses
            dead = np.flatnonzero(np.asarray(use) == 0)[:8]
            state["w"]["book"] = state["w"]["book"].at[dead].set(random.normal(random.key(len(path)), (len(dead), 16)) * 0.3)
    print("codebook", bool(path[-1][0] < path[0][0]), digest(path, state["w"]))


def flow_transformer():
    d, layers, n = 96, 4, 64
    w = {"inp": (48, d), "out": (d, 48), "pos": (n, d), "kind": (KINDS + 1, d), "time": (2 * C, d), "qkv": (layers, d, 3 * d),
         "proj": (layers, d, d), "up": (layers, d, 4 * d), "down": (layers, 4 * d, d), "mod": (layers, d, 6 * d)}
    w = {k: v if k not in ("qkv", "proj", "up", "down", "mod") else v * 0.5 for k, v in weights(random.key(6), w).items()}
    layer_names = ("qkv", "proj", "up", "down", "mod")
    cut = lambda x: x.reshape(-1, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, n, 48)
    plain = lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)

    def field(w, x, t, kind):
        c = jax.nn.silu(sinus(t * 100) @ w["time"] + jax.nn.one_hot(kind, KINDS + 1) @ w["kind"])

        def layer(x, l):
            a, b, g, a2, b2, g2 = (v[:, None] for v in jnp.split(c @ l["mod"], 6, -1))
            q, k, v = jnp.split((plain(x) * (1 + a) + b) @ l["qkv"], 3, -1)
            heads = lambda z: z.reshape(*z.shape[:2], 4, -1)
            y = jax.nn.dot_product_attention(heads(q), heads(k), heads(v)).reshape(x.shape)
            x = x + g * (y @ l["proj"])
            return x + g2 * (jax.nn.gelu((plain(x) * (1 + a2) + b2) @ l["up"]) @ l["down"]), None

        x, _ = lax.scan(jax.checkpoint(layer), x @ w["inp"] + w["pos"], {k: w[k] for k in layer_names})
        return plain(x) @ w["out"]

    @partial(jax.jit, donate_argnums=0)
    def steps(state, xs, kinds, key):  # several batches by one call
        def one(state, inp):
            x, kind, k = inp
            k1, k2 = random.split(k)
            t, noise = random.uniform(k1, (BATCH,)), random.normal(k2, (BATCH, n, 48))
            x = cut(x)
            mixed = t[:, None, None] * x + (1 - t[:, None, None]) * noise
            value, g = jax.value_and_grad(lambda w: jnp.mean((field(w, mixed, t, kind) - (x - noise)) ** 2))(state["w"])
            return adam(state, g, 1e-3), value
        return lax.scan(one, state, (xs, kinds, random.split(key, len(xs))))

    state, values = fresh(w), []
    for i in range(5):
        x, k = zip(*(pictures(9000 + 8 * i + j, BATCH) for j in range(8)))
        state, v = steps(state, np.stack(x), np.stack(k), random.key(30 + i))
        values.append(v)

    @jax.jit
    def heun(w, x, kind):
        def go(x, t):
            a = field(w, x, jnp.full(len(x), t), kind)
            b = field(w, x + a / 16, jnp.full(len(x), t + 1 / 16), kind)
            return x + (a + b) / 32, x.std()
        return lax.scan(go, x, jnp.arange(16) / 16)

    print("flow", bool(values[-1].mean() < values[0].mean()), digest(values, heun(state["ema"], random.normal(random.key(7), (8, n, 48)), jnp.arange(8) % KINDS)))


try:
    for f in (denoiser, sampling, exported, codebook, flow_transformer):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
    STATE.clear()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
