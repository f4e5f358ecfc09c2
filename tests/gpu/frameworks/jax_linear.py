# JAX: double precision, decompositions, FFT, sorting, while loops and conditionals on the device
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp

key = jax.random.key(22)
a = jax.random.normal(key, (64, 64))
s = a @ a.T + 64 * jnp.eye(64)
print("solve", round(float(jnp.linalg.solve(s, a).sum()), 6), round(float(jnp.linalg.slogdet(s)[1]), 6))
print("values", round(float(jnp.linalg.eigh(s)[0][-1]), 5), round(float(jnp.linalg.svd(a, compute_uv=False)[0]), 5), round(float(jnp.abs(jnp.linalg.qr(a)[1]).sum()), 4))
print("cholesky", round(float(jnp.linalg.cholesky(s).sum()), 6))
print("fft", round(float(jnp.abs(jnp.fft.fft2(a)).sum()), 3))
print("sort", [int(v) for v in jnp.argsort(a[0])[:5]], float(jnp.median(a)) == float(jnp.sort(a.ravel())[2047:2049].mean()))


@jax.jit
def root(x):
    return jax.lax.while_loop(lambda v: jnp.abs(v[0] ** 2 - x) > 1e-12, lambda v: ((v[0] + x / v[0]) / 2, v[1] + 1), (x, 0))


print("root", [(round(float(v), 9), int(n)) for v, n in (root(2.0), root(144.0))])
print("choice", float(jax.lax.cond(a[0, 0] > 0, jnp.sum, jnp.prod, a[:, 0])) != 0, float(jax.lax.fori_loop(0, 10, lambda i, v: v + a[i, i], 0.0)) != 0)
