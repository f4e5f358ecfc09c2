# JAX from many threads: each trains its own network with donated buffers, dispatching ahead; what it reports is fetched
# by other threads; inputs are numpy arrays that are changed as soon as a copy was put on the device. One thread saves
# and restores, one uses a function compiled ahead, one holds many small arrays.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.10"
import hashlib
import queue
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random

THREADS, STEPS, B = 5, 40, 64
SIZES = [(24, 96, 5), (40, 64, 8), (24, 96, 5), (17, 130, 3), (64, 48, 12)]  # two are the same, and share a compilation


def digest(tree):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        h.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return h.hexdigest()[:12]


@partial(jax.jit, static_argnums=1)
def init(key, size):
    i, h, o = size
    ks = random.split(key, 3)
    n = lambda k, a, b: random.normal(k, (a, b)) / np.sqrt(a)
    p = {"a": n(ks[0], i, h), "b": n(ks[1], h, h), "c": n(ks[2], h, o), "ba": jnp.zeros(h), "bb": jnp.zeros(h)}
    return p, jax.tree_util.tree_map(jnp.zeros_like, p)


def forward(p, x):
    h = jax.nn.silu(x @ p["a"] + p["ba"])
    return (h + jnp.sin(h @ p["b"] + p["bb"])) @ p["c"]


@partial(jax.jit, donate_argnums=(0, 1))
def step(p, m, x, y, rate):
    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(forward(p, x)), y[:, None], 1).mean()

    value, g = jax.value_and_grad(loss)(p)
    m = jax.tree_util.tree_map(lambda a, b: 0.9 * a + b, m, g)
    p = jax.tree_util.tree_map(lambda a, b: a - rate * b, p, m)
    report = {"loss": value, "norm": jnp.sqrt(sum(jnp.sum(v * v) for v in jax.tree_util.tree_leaves(g))), "row": p["c"].mean(0) * 2}
    return p, m, report


class Fetcher(threading.Thread):
    """Takes device arrays and brings them to the host, while the trainer has long gone on."""

    def __init__(self):
        super().__init__(daemon=True)
        self.q, self.seen = queue.Queue(), {}
        self.start()

    def run(self):
        while (item := self.q.get()) is not None:
            who, i, tree = item
            try:
                self.seen[who, i] = jax.tree_util.tree_map(np.asarray, tree)
            except Exception as e:
                self.seen[who, i] = np.frombuffer(type(e).__name__.encode(), np.uint8)


def trainer(k, fetchers, results):
    try:
        rng, size = np.random.default_rng(k), SIZES[k]
        p, m = init(random.key(k), size)
        x, y = np.zeros((B, size[0]), np.float32), np.zeros(B, np.int32)
        centre = rng.standard_normal((size[2], size[0]), dtype=np.float32)
        run = step
        if k == 3:  # ahead of time, with the shapes alone
            shaped = lambda t: jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), t)
            run = step.lower(shaped(p), shaped(m), shaped(x), shaped(y), jax.ShapeDtypeStruct((), np.float32)).compile()
        saved = None
        for i in range(STEPS):
            y[:] = rng.integers(0, size[2], B)
            x[:] = centre[y] + rng.standard_normal((B, size[0]), dtype=np.float32)
            dx, dy = jax.device_put((x.copy(), y.copy()))  # x and y are overwritten in the next turn
            p, m, report = run(p, m, dx, dy, np.float32(0.05 * (1 - i / STEPS)))
            fetchers[(k + i) % len(fetchers)].q.put((k, i, report))
            if k == 1 and i == 15:
                saved = jax.device_get((p, m))
                saved = jax.tree_util.tree_map(np.array, saved)
            if k == 1 and i == 25:
                p, m = jax.device_put(saved)  # back to where it was
        hold = jnp.asarray(centre)
        results[k] = digest((p, m)) + " " + digest(jax.jit(lambda p, c: forward(p, c).argmax(-1))(p, hold))
    except Exception as e:
        results[k] = type(e).__name__


def small_arrays(results):
    """Hundreds of little arrays alive, dropped in a mixed order; some explicitly deleted."""
    try:
        f = jax.jit(lambda a, b: a * 3 + jnp.roll(b, 1))
        live = [jnp.full(1 + i % 12, i, jnp.int32) for i in range(200)]
        for i in range(300):
            j = (i * 67) % len(live)
            a = live.pop(j)
            b = f(a, a)
            live.append(f(b, a))
            if i % 5 == 0:
                b.delete()
        results["small"] = digest(live)
    except Exception as e:
        results["small"] = type(e).__name__


def ring(results):
    """Four threads hand device arrays on in a circle; each adds its own part to what it gets."""
    qs = [queue.Queue() for _ in range(4)]
    bump = jax.jit(lambda a, k: lax.fori_loop(0, 10, lambda i, a: (a * 5 + k + i) % 65521, a), donate_argnums=0)

    def member(k):
        try:
            for _ in range(8):
                a = qs[k].get()
                qs[(k + 1) % 4].put(bump(a, k))
        except Exception as e:
            qs[(k + 1) % 4].put(type(e).__name__)

    ts = [threading.Thread(target=member, args=(k,), daemon=True) for k in range(4)]
    for n in range(2):  # two tokens go round
        qs[0].put(jnp.arange(5000, dtype=jnp.int32) + n)
    for t in ts:
        t.start()
    for t in ts:
        t.join(timeout=60)
    last = [qs[0].get(timeout=5) for _ in range(2)]
    results["ring"] = digest([a if isinstance(a, jax.Array) else np.frombuffer(a.encode(), np.uint8) for a in last])


def main():
    fetchers, results = [Fetcher() for _ in range(3)], {}
    ts = [threading.Thread(target=trainer, args=(k, fetchers, results)) for k in range(THREADS)]
    ts.append(threading.Thread(target=small_arrays, args=(results,)))
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    for f in fetchers:
        f.q.put(None)
    for f in fetchers:
        f.join()
    seen = {key: v for f in fetchers for key, v in f.seen.items()}
    for k in range(THREADS):
        print("trainer", k, results[k], "reports", digest([seen[k, i] for i in range(STEPS) if (k, i) in seen]))
    print("small arrays", results["small"])
    ring(results)
    print("ring", results["ring"])


main()
