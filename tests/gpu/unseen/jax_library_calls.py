# JAX where the work is done by libraries with workspaces and plans of their own: attention and recurrent nets by cuDNN with their
# gradients, grouped, transposed and three-dimensional convolutions, products in fp8, bf16 and int8 with epilogues, factorisations and
# sparse products, Fourier transforms of many shapes; in loops, mapped, differentiated, several at once from threads, in double precision too.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.02"
import hashlib
import threading
from functools import partial
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, random


def digest(tree):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        h.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(dtype)


def whole(seed, low, high, *shape):
    return np.random.default_rng(seed).integers(low, high, shape)


def attention():
    """A layer of attention trained, with cuDNN's kernels where they take it, else with XLA's."""
    for kind in ("xla", "cudnn"):
        try:
            def layer(w, x):
                q, k, v = jnp.split((x @ w["qkv"]).reshape(*x.shape[:2], 12, 64), 3, 2)
                y = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=kind)
                return x + y.reshape(*x.shape[:2], 256) @ w["o"]

            @partial(jax.jit, donate_argnums=0)
            def step(w, x):
                v, g = jax.value_and_grad(lambda w: jnp.square(layer(w, x).astype(jnp.float32) - jnp.roll(x, 1, 1)).mean())(w)
                return jax.tree_util.tree_map(lambda a, b: a - (0.5 * b).astype(a.dtype), w, g), v

            w, seen = {"qkv": jnp.asarray(data(1, 256, 768) / 16, jnp.bfloat16), "o": jnp.asarray(data(2, 256, 256) / 16, jnp.bfloat16)}, []
            for i in range(6):
                w, v = step(w, jnp.asarray(data(10 + i, 2, 128, 256), jnp.bfloat16))
                seen.append(v)
            print("attention", kind, digest(seen), digest(jax.tree_util.tree_map(lambda a: a.astype(jnp.float32), w)))
        except Exception as e:
            print("skipped: attention", kind, type(e).__name__)


def recurrent():
    """cuDNN's LSTM, forwards and backwards, weights in one vector."""
    from jax.experimental import rnn
    sizes = dict(input_size=24, hidden_size=40, num_layers=2, bidirectional=True)
    n = rnn.get_num_params_in_lstm(**sizes)
    w, x = jnp.asarray(data(3, n) / 8), data(4, 6, 30, 24)
    lengths, zero = jnp.asarray([30, 12, 7, 30, 21, 3], jnp.int32), jnp.zeros((4, 6, 40))

    @jax.jit
    def step(w, h, c):
        def loss(w):
            y, hn, cn = rnn.lstm(x, h, c, w, lengths, dropout=0.0, **sizes)
            return jnp.square(y - 0.1).mean(), (hn, cn)
        (v, (h, c)), g = jax.value_and_grad(loss, has_aux=True)(w)
        return w - 0.3 * g, h * 0.5, c * 0.5, v

    h, c, seen = zero, zero, []
    for _ in range(6):
        w, h, c, v = step(w, h, c)
        seen.append(v)
    print("recurrent", digest((seen, h, c, w)))


def convolutions():
    cases = [("NHWC", "HWIO", "NHWC", (4, 20, 24, 16), (3, 3, 4, 32), dict(window_strides=(1, 2), padding="SAME", feature_group_count=4)),
             ("NCHW", "OIHW", "NCHW", (3, 8, 17, 19), (8, 1, 5, 5), dict(window_strides=(1, 1), padding="VALID", feature_group_count=8)),
             ("NHWC", "HWIO", "NHWC", (2, 12, 12, 8), (4, 4, 8, 6), dict(window_strides=(1, 1), padding=((2, 2), (2, 2)), lhs_dilation=(2, 2))),
             ("NHWC", "HWIO", "NHWC", (2, 18, 18, 8), (3, 3, 8, 8), dict(window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 3))),
             ("NCDHW", "OIDHW", "NCDHW", (2, 4, 8, 10, 12), (6, 4, 3, 3, 3), dict(window_strides=(1, 2, 2), padding="SAME"))]
    for i, (a, b, c, xs, ks, options) in enumerate(cases):
        for dtype in ((jnp.float32, jnp.bfloat16)[i % 2 :: 2] if i else (jnp.float32, jnp.bfloat16)):
            @jax.jit
            def step(x, k):
                f = lambda x, k: jnp.square(jax.nn.silu(lax.conv_general_dilated(x, k, dimension_numbers=(a, b, c), **options).astype(jnp.float32))).mean()
                v, (gx, gk) = jax.value_and_grad(f, (0, 1))(x, k)
                return x - 5 * gx, k - 5 * gk, v

            x, k, seen = jnp.asarray(data(20 + i, *xs), dtype), jnp.asarray(data(30 + i, *ks) / 5, dtype), []
            try:
                for _ in range(3):
                    x, k, v = step(x, k)
                    seen.append(v)
                print("convolution", i, np.dtype(dtype).name, digest((seen, x.astype(jnp.float32), k.astype(jnp.float32))))
            except Exception as e:
                print("skipped: convolution", i, np.dtype(dtype).name, type(e).__name__)


def products():
    """Products with all that may be fused behind them; int8 and fp8 of whole numbers, which are exact."""
    @jax.jit
    def bf16(x, w, b):
        def body(x, _):
            x = jax.nn.gelu(x @ w + b)
            return jax.nn.relu(x @ w.T + b) * jnp.bfloat16(0.5) + x, x.sum(dtype=jnp.float32)
        return lax.scan(body, x, None, length=6)

    x, sums = bf16(jnp.asarray(data(40, 64, 128), jnp.bfloat16), jnp.asarray(data(41, 128, 128) / 12, jnp.bfloat16), jnp.asarray(data(42, 128), jnp.bfloat16))
    print("bf16", digest((x.astype(jnp.float32), sums)))
    a, b = whole(43, -8, 9, 96, 128).astype(np.int8), whole(44, -8, 9, 128, 160).astype(np.int8)
    print("int8", digest(jax.jit(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32))(a, b)))
    try:
        e4 = jax.jit(lambda a, b: lax.dot(a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e4m3fn), preferred_element_type=jnp.float32))
        print("fp8", digest(e4(a.astype(np.float32), b.astype(np.float32))))
    except Exception as e:
        print("skipped: fp8", type(e).__name__)
    batched = jax.jit(lambda a, b: jnp.einsum("bij,bkj->bik", a, b, precision="highest") + jnp.einsum("bij,bjk->bik", a, b.transpose(0, 2, 1)))
    print("batched", digest(batched(data(45, 9, 30, 50), data(46, 9, 40, 50))))
    mixed = jax.vmap(lambda m, v: jnp.linalg.multi_dot([m, m.T, m, v]))
    print("chained", digest(jax.jit(mixed)(data(47, 5, 33, 33) / 6, data(48, 5, 33, 7))))


def factorisations():
    spd = lambda a: a @ jnp.swapaxes(a, -1, -2) / a.shape[-1] + jnp.eye(a.shape[-1])
    steps = {
        "qr": lambda a: jnp.linalg.qr(a),
        "lu": lambda a: lax.linalg.lu(a),
        "cholesky": lambda a: jax.grad(lambda a: jnp.log(jnp.diagonal(jnp.linalg.cholesky(spd(a)), 0, -2, -1)).sum())(a),
        "solve": lambda a: jnp.linalg.solve(a + 9 * jnp.eye(a.shape[-1]), a[..., :3]),
        "eigh": lambda a: jnp.linalg.eigh(spd(a)),
        "svd": lambda a: jnp.linalg.svd(a, full_matrices=False),
        "expm": lambda a: jax.scipy.linalg.expm(a / 8),
        "slogdet": lambda a: jax.value_and_grad(lambda a: jnp.linalg.slogdet(a + 9 * jnp.eye(a.shape[-1]))[1].sum())(a),
        "tridiagonal": lambda a: lax.linalg.tridiagonal_solve(a[..., 0], a[..., 1] + 5, a[..., 2], a[..., :4]),
    }
    for name, f in steps.items():
        try:
            g = jax.jit(f)
            print(name, digest(g(data(50, 60, 60) if name in ("expm", "svd", "tridiagonal") else data(51, 12, 24, 24))))
        except Exception as e:
            print("skipped:", name, type(e).__name__)


def transforms():
    @jax.jit
    def heat(u, steps):
        """Loops of transforms, of which the middle one is of another shape each time round the outer loop."""
        k = jnp.fft.fftfreq(48)[:, None] ** 2 + jnp.fft.rfftfreq(40)[None] ** 2
        return lax.fori_loop(0, steps, lambda i, u: jnp.fft.irfft2(jnp.fft.rfft2(u) * jnp.exp(-k), s=(48, 40)) + 0.01 * jnp.sin(u * i), u)

    u, out = jnp.asarray(data(60, 3, 48, 40)), []
    for i in range(4):
        u = heat(u, 3 + i)
        out.append(u)
    for n in (31, 100, 243):
        z = jax.jit(lambda z: jnp.fft.ifft(jnp.fft.fft(z) * jnp.exp(-1j * jnp.arange(z.shape[-1]))))(data(61, 5, n) + 1j * data(62, 5, n))
        out.append(z)
    out.append(jax.jit(lambda x: jax.grad(lambda x: jnp.abs(jnp.fft.rfftn(x)).sum())(x))(data(63, 8, 12, 20)))
    print("transforms", digest(out))


def sparse():
    from jax.experimental import sparse as js
    dense = whole(70, -3, 4, 200, 150) * (whole(71, 0, 8, 200, 150) == 0)
    m, v = js.BCOO.fromdense(jnp.asarray(dense, jnp.float32)), jnp.asarray(whole(72, -4, 5, 150, 20), jnp.float32)
    f = jax.jit(lambda m, v: m @ v)
    g = jax.jit(jax.grad(lambda v: (jnp.abs(m @ v) % 7).sum()))
    c = js.BCSR.from_bcoo(m)
    print("sparse", digest(f(m, v)), digest(g(v)), digest(jax.jit(lambda c, v: c @ v)(c, v)), digest((m.T @ (m @ v)) + 0.0))


def threads():
    """Library calls of several kinds at the same time, each with handles and workspaces from the same pools."""
    jobs = [lambda x: jnp.linalg.eigh(x @ x.T)[0], lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 0.9, s=x.shape), lambda x: jnp.linalg.qr(x)[1],
            lambda x: lax.conv_general_dilated(x[None, None], jnp.ones((1, 1, 5, 5)) / 25, (1, 1), "SAME")[0, 0], lambda x: jnp.sort(x @ x / 8, 1)]
    fs, results = [jax.jit(f) for f in jobs], {}

    def run(k):
        try:
            seen = []
            for i in range(8):
                y = fs[(k + i) % len(fs)](data(100 * k + i, 64, 64))
                seen.append(y)
            results[k] = digest(seen)
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *[results[k] for k in sorted(results)])


def double():
    with jax.enable_x64(True):
        a = np.random.default_rng(80).standard_normal((70, 70))
        f = jax.jit(lambda a: (jnp.linalg.solve(a @ a.T + jnp.eye(70), a), jnp.linalg.eigh(a + a.T), jnp.fft.fft(a * 1j).real))
        print("double", digest(f(a)))


for part in (attention, recurrent, convolutions, products, factorisations, transforms, sparse, threads, double):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
