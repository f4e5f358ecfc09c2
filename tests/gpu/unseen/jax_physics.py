# JAX for simulation that is differentiated: a lattice-Boltzmann wind tunnel with a moving obstacle, molecules with neighbour lists that the
# host enlarges when they overflow, cloth under implicit steps (conjugate gradients inside custom_linear_solve), a spectral Navier-Stokes
# solver whose start is found by gradients, a Kalman smoother by associative scans, multigrid, reaction-diffusion, rigid bodies, sparse BCOO.
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

NAME, TOTAL = "jax_physics", hashlib.sha256()


def digest(*trees):
    h = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(trees):
        raw = np.ascontiguousarray(np.asarray(leaf)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def wind_tunnel():
    """Nine velocities on a 256 x 96 lattice in single precision; every 50 steps the host moves the obstacle by what it measured."""
    cx, cy = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    w, back = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, jnp.float32), np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])
    vx, vy = jnp.asarray(cx, jnp.float32)[:, None, None], jnp.asarray(cy, jnp.float32)[:, None, None]

    def rest(rho, ux, uy):
        cu = vx * ux + vy * uy
        return w[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * (ux * ux + uy * uy))

    @partial(jax.jit, donate_argnums=0, static_argnums=2)
    def run(f, wall, n):
        def step(f, _):
            rho = f.sum(0)
            ux, uy = (vx * f).sum(0) / rho, (vy * f).sum(0) / rho
            g = f + (rest(rho, ux, uy) - f) / 0.56
            g = jnp.where(wall, f[back], g)
            force = jnp.where(wall, 2 * (vy * f).sum(0), 0).sum()
            g = jnp.stack([jnp.roll(g[i], (int(cx[i]), int(cy[i])), (0, 1)) for i in range(9)])
            inlet = rest(jnp.ones((1, 96), jnp.float32), jnp.full((1, 96), 0.08, jnp.float32), jnp.zeros((1, 96), jnp.float32))
            return g.at[:, :1].set(inlet).at[:, -1].set(g[:, -2]), force
        return lax.scan(step, f, None, length=n)

    x, y = jnp.meshgrid(jnp.arange(256), jnp.arange(96), indexing="ij")
    f, at, forces = rest(jnp.ones((256, 96), jnp.float32), jnp.float32(0.08), 0.01 * jnp.sin(y / 15).astype(jnp.float32)), 48.0, []
    for _ in range(10):
        wall = ((x - 50) ** 2 + (y - at) ** 2 < 64) | (y == 0) | (y == 95)
        f, force = run(f, wall, 50)
        force = np.asarray(force)
        forces.append(force)
        at = float(np.clip(at + np.round(100 * force.mean(), 1), 30, 66))
    print("wind tunnel", bool(np.isfinite(np.asarray(f)).all()), digest(f, forces, np.float64(at)))


def molecules():
    """A cell is sorted out by position; lists have a fixed room, and when one overflows the host takes larger ones and compiles again."""
    side, n = 12.0, 1000
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(10)] * 3, indexing="ij"), -1).reshape(-1, 3) * 1.2 + 0.3
    wrap = lambda d: d - side * jnp.round(d / side)

    @partial(jax.jit, static_argnums=1)
    def neighbours(r, room):
        d2 = jnp.sum(wrap(r[:, None] - r[None]) ** 2, -1) + jnp.eye(n) * 1e6
        near = d2 < 2.9 ** 2
        where = jnp.argsort(jnp.where(near, 0, 1), axis=1, stable=True)[:, :room]
        return where, jnp.take_along_axis(near, where, 1), near.sum(1).max()

    def energy(r, where, ok):
        d2 = jnp.where(ok, jnp.sum(wrap(r[:, None] - r[where]) ** 2, -1), 1e6)
        i6 = 1 / d2 ** 3
        return 2 * jnp.sum(jnp.where(d2 < 2.5 ** 2, i6 * i6 - i6, 0.0))

    def force(r, where, ok):  # one side of each pair: no scatter
        d = wrap(r[:, None] - r[where])
        d2 = jnp.where(ok, jnp.sum(d * d, -1), 1e6)
        i2 = 1 / d2
        i6 = i2 ** 3
        return jnp.sum((jnp.where(d2 < 2.5 ** 2, 24 * (2 * i6 * i6 - i6) * i2, 0.0))[..., None] * d, 1)

    @partial(jax.jit, donate_argnums=(0, 1))
    def run(r, v, where, ok):
        def step(c, _):
            r, v = c
            v = v + 0.0015 * force(r, where, ok)
            r = (r + 0.003 * v) % side
            v = v + 0.0015 * force(r, where, ok)
            return (r, v), jnp.stack((energy(r, where, ok), 0.5 * jnp.sum(v * v)))
        return lax.scan(step, (r, v), None, length=20)

    v = random.normal(random.key(1), (n, 3)) * 1.2
    r, v, room, path, grown = grid, v - v.mean(0), 32, [], 0
    for _ in range(8):
        where, ok, most = neighbours(r, room)
        while int(most) > room:
            room, grown = room + 32, grown + 1
            where, ok, most = neighbours(r, room)
        (r, v), e = run(r, v, where, ok)
        path.append(e)
    d = jnp.sqrt(jnp.sum(wrap(r[:, None] - r[None]) ** 2, -1))
    radial = jnp.histogram(d, bins=60, range=(0.5, 6.0))[0]
    drift = float(abs(path[-1].sum(1)[-1] - path[0].sum(1)[0]) / abs(path[0].sum(1)[0]))
    print("molecules", grown > 0, drift < 0.2, digest(path, r, v, radial))


def cloth():
    """40 x 40 points, implicit Euler by Newton: the matrix is never made, and the gradient passes through the solver."""
    m = 40
    p0 = jnp.stack(jnp.meshgrid(jnp.linspace(0, 1, m), jnp.linspace(0, 1, m), indexing="ij") + [jnp.zeros((m, m))], -1)
    pinned = jnp.zeros((m, m, 1)).at[0, 0].set(1).at[0, -1].set(1)

    def stretch(p, stiff):
        rest, total = 1 / (m - 1), 0.0
        for a, b, l in ((p[1:], p[:-1], rest), (p[:, 1:], p[:, :-1], rest), (p[1:, 1:], p[:-1, :-1], rest * 2 ** 0.5)):
            total += jnp.sum((jnp.sqrt(jnp.sum((a - b) ** 2, -1) + 1e-12) - l) ** 2)
        return 0.5 * stiff * total + 0.01 * jnp.sum(p[..., 2])

    def step(c, wind, stiff):
        p, v = c
        h, free = 0.02, 1 - pinned
        residual = lambda q: free * ((q - p) / h - v - h * (wind - jax.grad(stretch)(q, stiff) / 0.01))
        q = p + h * v * free
        for _ in range(2):
            value, push = jax.linearize(residual, q)
            matvec = lambda x: free * push(free * x) + pinned * x
            solve = lambda mv, b: jax.scipy.sparse.linalg.cg(mv, b, maxiter=15, tol=0.0)[0]
            q = q - lax.custom_linear_solve(matvec, value, solve, symmetric=True)
        return (q, (q - p) / h * 0.995), q[-1, -1]

    @jax.jit
    def loss(wind, stiff):
        (p, _), path = lax.scan(jax.checkpoint(lambda c, w: step(c, w, stiff)), (p0, jnp.zeros_like(p0)), wind)
        return jnp.sum((path[-1] - jnp.array([0.9, 0.9, -0.4])) ** 2), (p, path)

    grad, wind, stiff = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)), jnp.zeros((12, 3)).at[:, 2].set(-9.8), jnp.float64(20.0)
    for _ in range(4):
        (value, (p, path)), (gw, gs) = grad(wind, stiff)
        wind, stiff = wind - 5 * jnp.clip(gw, -0.5, 0.5), stiff - jnp.clip(gs, -1, 1)
    print("cloth", bool(jnp.isfinite(value)), digest(value, p, path, wind, stiff))


def vortices():
    n = 96
    k = jnp.fft.fftfreq(n, 1 / n)
    kx, ky = k[:, None], jnp.fft.rfftfreq(n, 1 / n)[None]
    k2, keep = kx ** 2 + ky ** 2, ((jnp.abs(kx) < n / 3) & (ky < n / 3)).astype(float)
    inv = jnp.where(k2 > 0, 1 / jnp.where(k2 > 0, k2, 1), 0)

    def rate(z):
        s = z * inv
        u, v = jnp.fft.irfft2(1j * ky * s), jnp.fft.irfft2(-1j * kx * s)
        return -keep * jnp.fft.rfft2(u * jnp.fft.irfft2(1j * kx * z) + v * jnp.fft.irfft2(1j * ky * z)) - 1e-3 * k2 * z

    def rk4(z, _):
        h = 0.01
        a = rate(z)
        b = rate(z + h / 2 * a)
        c = rate(z + h / 2 * b)
        return z + h / 6 * (a + 2 * b + 2 * c + rate(z + h * c)), jnp.sum(jnp.abs(z) ** 2 * inv)

    run = lambda w: lax.scan(jax.checkpoint(rk4), jnp.fft.rfft2(w) * keep, None, length=40)
    truth = jnp.real(jnp.fft.ifft2(jnp.fft.fft2(random.normal(random.key(2), (n, n))) * jnp.exp(-(kx ** 2 + k[None] ** 2) / 30))) * 20
    seen = jnp.fft.irfft2(run(truth)[0])[::4, ::4]
    loss = lambda w: jnp.mean((jnp.fft.irfft2(run(w)[0])[::4, ::4] - seen) ** 2)
    step, w, values = jax.jit(jax.value_and_grad(loss)), jnp.zeros((n, n)), []
    m = jnp.zeros_like(w)
    for _ in range(12):
        value, g = step(w)
        m = 0.8 * m + g
        w = w - 0.5 * m / (1e-9 + jnp.abs(m).max())
        values.append(value)
    wave = jax.jit(lambda w: jax.jvp(lambda x: run(x)[1], (w,), (truth,)))(w)
    print("vortices", bool(values[-1] < values[0]), digest(values, w, wave))


def smoother():
    """Kalman filter and smoother for 2000 steps in logarithmic depth."""
    a, q = jnp.array([[1.0, 0.1, 0], [0, 0.98, 0.1], [0, 0, 0.9]]), jnp.eye(3) * 0.01
    h, r, eye = jnp.array([[1.0, 0, 0.2]]), jnp.array([[0.5]]), jnp.eye(3)
    y = jnp.cumsum(random.normal(random.key(3), (2000, 1)) * 0.1, 0)
    s = h @ q @ h.T + r
    gain = q @ h.T @ jnp.linalg.inv(s)
    first = lambda y: ((eye - gain @ h) @ a, gain @ y, (eye - gain @ h) @ q, a.T @ h.T @ jnp.linalg.solve(s, y), a.T @ h.T @ jnp.linalg.solve(s, h @ a))

    @jax.vmap
    def join(e1, e2):
        (a1, b1, c1, n1, j1), (a2, b2, c2, n2, j2) = e1, e2
        t, u = jnp.linalg.inv(eye + c1 @ j2), jnp.linalg.inv(eye + j2 @ c1)
        return a2 @ t @ a1, a2 @ t @ (b1 + c1 @ n2) + b2, a2 @ t @ c1 @ a2.T + c2, a1.T @ u @ (n2 - j2 @ b1) + n1, a1.T @ u @ j2 @ a1 + j1

    @jax.jit
    def go(y):
        _, mean, cov, _, _ = lax.associative_scan(join, jax.vmap(first)(y))
        g = jax.vmap(lambda p: jnp.linalg.solve(a @ p @ a.T + q, a @ p).T)(cov).at[-1].set(0)
        parts = (g, mean - jax.vmap(lambda g, m: g @ (a @ m))(g, mean))
        back = lax.associative_scan(jax.vmap(lambda e, f: (f[0] @ e[0], f[0] @ e[1] + f[1])), parts, reverse=True)
        return mean, cov, back[1]

    print("smoother", digest(go(y)))


def multigrid_and_patterns():
    def relax(u, f, h, n):
        pad = lambda u: jnp.pad(u, 1)
        near = lambda p: p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        return lax.fori_loop(0, n, lambda i, u: u + 0.8 * ((near(pad(u)) + h * h * f) / 4 - u), u), near

    def cycle(u, f, h):
        u, near = relax(u, f, h, 3)
        if u.shape[0] <= 7:
            return relax(u, f, h, 30)[0]
        r = f - (4 * u - near(jnp.pad(u, 1))) / (h * h)
        coarse = lax.conv_general_dilated(r[None, None], jnp.outer(jnp.array([1, 2, 1.0]), jnp.array([1, 2, 1.0]))[None, None] / 16, (2, 2), "VALID")[0, 0]
        e = cycle(jnp.zeros_like(coarse), coarse, 2 * h)
        fine = jax.image.resize(jnp.pad(e, 1), (u.shape[0] + 2,) * 2, "linear")[1:-1, 1:-1]
        return relax(u + fine, f, h, 3)[0]

    f = random.normal(random.key(4), (255, 255))
    solve = jax.jit(lambda f: lax.while_loop(lambda c: c[1] < 6, lambda c: (cycle(c[0], f, 1 / 256), c[1] + 1), (jnp.zeros_like(f), 0))[0])

    @jax.jit
    def patterns(u, v, feed):  # Gray-Scott for several rates at once
        lap = lambda x: sum(jnp.roll(x, d, a) for d in (1, -1) for a in (-1, -2)) - 4 * x
        def step(i, c):
            u, v = c
            r = u * v * v
            return u + 0.16 * lap(u) - r + feed * (1 - u), v + 0.08 * lap(v) + r - (feed + 0.062) * v
        return lax.fori_loop(0, 400, step, (u, v))

    spot = jnp.zeros((6, 128, 128), jnp.float32).at[:, 54:74, 54:74].set(0.3)
    print("multigrid", digest(solve(f)), "patterns", digest(patterns(1 - spot, spot, jnp.linspace(0.03, 0.05, 6, dtype=jnp.float32)[:, None, None])))


def bodies_and_sparse():
    from jax.experimental import sparse

    def pendulum(q, v, lengths):  # a chain by its Lagrangian: the mass matrix is a Hessian
        def lagrangian(q, v):
            x, y = jnp.cumsum(lengths * jnp.sin(q)), -jnp.cumsum(lengths * jnp.cos(q))
            dx, dy = jnp.cumsum(lengths * jnp.cos(q) * v), jnp.cumsum(lengths * jnp.sin(q) * v)
            return 0.5 * jnp.sum(dx * dx + dy * dy) - 9.8 * jnp.sum(y) + 0 * x.sum()
        mass = jax.hessian(lagrangian, 1)(q, v) + 1e-9 * jnp.eye(len(q))
        bias = jax.grad(lagrangian)(q, v) - jax.jacfwd(jax.grad(lagrangian, 1))(q, v) @ v
        return jax.scipy.linalg.solve(mass, bias, assume_a="pos")

    @jax.jit
    @jax.vmap
    def swing(q, lengths):
        def step(c, _):
            q, v = c
            v = v + 0.005 * pendulum(q, v, lengths)
            return (q + 0.005 * v, v), q[-1]
        return lax.scan(step, (q, jnp.zeros_like(q)), None, length=100)

    out = swing(random.uniform(random.key(5), (64, 5)) * 2, 0.5 + random.uniform(random.key(6), (64, 5)))
    dense = jnp.where(random.uniform(random.key(7), (400, 400)) < 0.02, 1.0, 0.0) * random.randint(random.key(8), (400, 400), -4, 5)
    m = sparse.BCOO.fromdense(dense + 40 * jnp.eye(400))
    b = random.randint(random.key(9), (400, 3), -9, 10).astype(jnp.float64)  # whole numbers: sums are exact
    product = jax.jit(lambda m, b: (m @ b, m.T @ b))(m, b)
    jac = jax.jit(jax.jacrev(lambda x: jnp.tanh(dense @ x)))(b[:, 0] / 10)
    e = jnp.sort(jnp.abs(jnp.linalg.eigvalsh(jac @ jac.T)))
    print("bodies", digest(out), "sparse", digest(product, m.todense(), e))


for f in (wind_tunnel, molecules, cloth, vortices, smoother, multigrid_and_patterns, bodies_and_sparse):
    try:
        f()
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
