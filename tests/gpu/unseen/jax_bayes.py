# JAX in double precision for statistics: Hamiltonian Monte Carlo on many chains, a particle filter that resamples, Gibbs sampling of an
# Ising lattice, Stein variational descent, random numbers of many distributions (rejection loops) from two kinds of generators, an ODE
# solver with its adjoint, BFGS, splines and interpolation, Gaussian processes; results leave by pure_callback and by early async copies.
import os
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import hashlib
from functools import partial
import numpy as np
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
from jax import lax, random
from jax.experimental import io_callback

NAME, TOTAL = "jax_bayes", hashlib.sha256()


def digest(*trees):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(trees):
        raw = np.ascontiguousarray(np.asarray(leaf)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def hamiltonian():
    """Logistic regression; every chain takes a number of steps of its own, so that the loop under vmap runs until the last has done."""
    x = random.normal(random.key(1), (400, 5))
    y = (x @ jnp.array([1.0, -2.0, 0.5, 0.0, 1.5]) + random.logistic(random.key(2), (400,)) > 0).astype(jnp.float64)

    def energy(q):
        z = x @ q
        return jnp.sum(jax.nn.softplus(z) - y * z) + 0.5 * q @ q / 9

    def chain_step(q, key):
        k1, k2, k3 = random.split(key, 3)
        p, steps = random.normal(k1, q.shape), random.randint(k2, (), 5, 20)
        size = 0.05

        def leap(c):
            i, q, p = c
            p = p - 0.5 * size * jax.grad(energy)(q)
            q = q + size * p
            return i + 1, q, p - 0.5 * size * jax.grad(energy)(q)

        _, new, mom = lax.while_loop(lambda c: c[0] < steps, leap, (0, q, p))
        change = energy(q) + 0.5 * p @ p - energy(new) - 0.5 * mom @ mom
        ok = jnp.log(random.uniform(k3)) < change
        return jnp.where(ok, new, q), (jnp.where(ok, new, q), ok)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0))
    def run(q, key):
        return lax.scan(chain_step, q, random.split(key, 60))

    q, (trace, ok) = run(random.normal(random.key(3), (128, 5)), random.split(random.key(4), 128))
    trace.copy_to_host_async()
    rate = float(ok.mean())
    print("hamiltonian", rate > 0.5, digest(trace, ok), bool(jnp.abs(trace[:, 30:].mean((0, 1))[1] + 2) < 1))


def particles():
    """The host sees, and may veto, every resampling."""
    seen = []

    def veto(size):
        seen.append(float(size))
        return np.float64(0.0 if len(seen) % 11 == 0 else 1.0)

    def step(carry, inp):
        x, logw = carry
        y, key = inp
        k1, k2 = random.split(key)
        x = 0.5 * x + 25 * x / (1 + x * x) + 3 * random.normal(k1, x.shape)
        logw = logw - 0.5 * (y - x * x / 20) ** 2
        w = jax.nn.softmax(logw)
        size = 1 / jnp.sum(w * w)
        say = io_callback(veto, jax.ShapeDtypeStruct((), jnp.float64), size, ordered=True)

        def resample(_):
            whole = jnp.cumsum(jnp.round(w * 2.0 ** 40).astype(jnp.int64))  # whole numbers: sums are exact
            at = (jnp.arange(x.shape[0]) + random.uniform(k2)) / x.shape[0] * whole[-1]
            return x[jnp.searchsorted(whole, at.astype(jnp.int64), side="right")], jnp.zeros_like(logw)

        x, logw = lax.cond((size < x.shape[0] / 2) & (say > 0), resample, lambda _: (x, logw), None)
        return (x, logw), (jnp.sum(w * x), size)

    y = random.normal(random.key(5), (50,)) + jnp.linspace(0, 15, 50)
    start = (random.normal(random.key(6), (20_000,)), jnp.zeros(20_000))
    end, path = jax.jit(lambda s, i: lax.scan(step, s, i))(start, (y, random.split(random.key(7), 50)))
    jax.effects_barrier()
    print("particles", len(seen), np.asarray(seen).tobytes() == np.asarray(path[1]).tobytes(), digest(end, path))


def ising():
    board = ((jnp.arange(256)[:, None] + jnp.arange(256)) % 2).astype(bool)

    def half(s, key, colour, beta):
        n = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
        up = random.uniform(key, s.shape, jnp.float32) < jax.nn.sigmoid(2 * beta * n).astype(jnp.float32)
        return jnp.where(colour, jnp.where(up, 1, -1).astype(s.dtype), s)

    @partial(jax.jit, donate_argnums=0, static_argnums=3)
    def sweeps(s, key, beta, n):
        def one(i, s):
            a, b = random.split(random.fold_in(key, i))
            return half(half(s, a, board, beta), b, ~board, beta)
        s = lax.fori_loop(0, n, one, s)
        return s, s.sum(dtype=jnp.int32)

    out = []
    for kind in ("threefry2x32", "rbg", "unsafe_rbg"):
        s = jnp.ones((256, 256), jnp.int8)
        for i in range(10):
            s, m = sweeps(s, random.key(i, impl=kind), jnp.float32(0.3 + 0.03 * i), 20)
            out.append(m)
        out.append(s)
    print("ising", digest(out))


def distributions():
    k = lambda i: random.key(100 + i)
    draw = jax.jit(lambda: (
        random.gamma(k(0), jnp.linspace(0.1, 9, 5000)), random.beta(k(1), 0.4, 3.0, (5000,)),
        random.poisson(k(2), jnp.linspace(0.5, 60, 5000)),
        random.dirichlet(k(3), jnp.array([0.2, 1.0, 5.0]), (999,)), random.t(k(4), 3.0, (4000,)), random.cauchy(k(5), (4000,)),
        random.binomial(k(6), 40, 0.3, (3000,)), random.truncated_normal(k(7), -1, 2.5, (4000,)), random.laplace(k(8), (4000,)),
        random.multivariate_normal(k(9), jnp.zeros(4), jnp.eye(4) + 0.3, (500,)),
        random.permutation(k(10), 5000), random.orthogonal(k(11), 12),
        random.choice(k(12), 1000, (200,), replace=False), random.bits(k(13), (999,), jnp.uint8), random.rademacher(k(14), (777,)),
        random.gumbel(k(15), (3000,)), random.chisquare(k(16), 4.0, shape=(2000,)), random.geometric(k(17), 0.2, (2000,)),
        random.maxwell(k(18), (999,))))
    out = draw()
    print("distributions", len(out), digest(out))


def stein():
    target = lambda x: jax.nn.logsumexp(jnp.stack([-0.5 * jnp.sum((x - 2) ** 2), -0.5 * jnp.sum((x + 2) ** 2) + 0.5]))

    @jax.jit
    def go(x):
        def one(i, x):
            d = jnp.sum((x[:, None] - x[None]) ** 2, -1)
            h = jnp.sort(d.ravel())[d.size // 2] / jnp.log(x.shape[0]) + 1e-6
            k = jnp.exp(-d / h)
            push = (k @ jax.vmap(jax.grad(target))(x) + 2 / h * (x * k.sum(1, keepdims=True) - k @ x)) / x.shape[0]
            return x + 0.3 * push
        return lax.fori_loop(0, 40, one, x)

    print("stein", digest(go(random.normal(random.key(20), (200, 2)))))


def odes():
    from jax.experimental.ode import odeint
    t = jnp.linspace(0.0, 8.0, 40)
    field = lambda y, t, a: jnp.stack([a[0] * y[0] - a[1] * y[0] * y[1], a[2] * y[0] * y[1] - a[3] * y[1]])
    solve = jax.jit(lambda a, y0: odeint(field, y0, t, a, rtol=1e-6, atol=1e-8))
    truth = jnp.array([1.1, 0.4, 0.1, 0.4])
    seen = solve(truth, jnp.array([10.0, 5.0]))
    loss = lambda a: jnp.mean((solve(a, jnp.array([10.0, 5.0])) - seen) ** 2)
    step, a = jax.jit(jax.value_and_grad(loss)), truth * 1.05
    for _ in range(8):
        value, g = step(a)
        a = a - 1e-4 * jnp.clip(g, -10, 10)
    many = jax.jit(jax.vmap(lambda s: odeint(field, jnp.array([10.0, 5.0]) * s, t, truth)))(jnp.linspace(0.5, 1.5, 16))
    print("odes", digest(seen, a, value, many))


def optimise_and_interpolate():
    from jax.scipy.optimize import minimize
    rosen = lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    best = jax.jit(lambda x: minimize(rosen, x, method="BFGS", tol=1e-6).x)(jnp.full(6, -0.7))
    image = random.uniform(random.key(30), (64, 80))
    yy, xx = jnp.meshgrid(jnp.linspace(0, 63, 90), jnp.linspace(0, 79, 70), indexing="ij")
    warped = jax.scipy.ndimage.map_coordinates(image, [yy + jnp.sin(xx), xx], order=1, mode="nearest")
    resized = jax.image.resize(image, (100, 37), "lanczos3")
    line = jnp.interp(jnp.linspace(-1, 65, 500), jnp.arange(64.0), image[:, 0])
    fir = jax.scipy.signal.fftconvolve(image, image[:9, :9], mode="same")
    stft = jax.scipy.signal.stft(image.ravel(), nperseg=128)[2]
    print("optimised", digest(best), "interpolated", digest(warped, resized, line), digest(fir, stft))


def process():
    x, y = jnp.sort(random.uniform(random.key(40), (300,)) * 6), random.normal(random.key(41), (300,)) * 0.1
    y = y + jnp.sin(x * 2)

    def evidence(th):
        k = jnp.exp(th[0] - 0.5 * ((x[:, None] - x) / jnp.exp(th[1])) ** 2) + (jnp.exp(th[2]) + 1e-6) * jnp.eye(300)
        c = jax.scipy.linalg.cho_factor(k, lower=True)
        return 0.5 * y @ jax.scipy.linalg.cho_solve(c, y) + jnp.sum(jnp.log(jnp.diag(c[0])))

    f, th = jax.jit(jax.vmap(jax.value_and_grad(evidence))), jnp.array([[0.0, 0.0, -3.0], [1.0, -1.0, -2.0], [0.5, -0.5, -4.0]])
    for _ in range(10):
        value, g = f(th)
        th = th - 0.02 * jnp.clip(g, -5, 5)
    h = jax.jit(jax.hessian(evidence))(th[0])
    cpu = jax.pure_callback(lambda a: np.linalg.eigvalsh(a).round(3), jax.ShapeDtypeStruct((3,), h.dtype), h)
    e = jnp.linalg.eigvalsh(h)
    print("process", digest(th, value, h, e), bool(jnp.allclose(cpu, e, atol=1e-2)))


for f in (hamiltonian, particles, ising, distributions, stein, odes, optimise_and_interpolate, process):
    try:
        f()
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
