# JAX: a convolutional network trained with momentum under jit with donated buffers, vmap, grad, bfloat16, dropout keys
import jax
import jax.numpy as jnp

key = jax.random.key(21)
shapes = {"c1": (16, 3, 3, 3), "c2": (32, 16, 3, 3), "w": (32 * 4 * 4, 10)}
params = {name: jax.random.normal(k, s) * 0.05 for (name, s), k in zip(shapes.items(), jax.random.split(key, 3))}


def forward(p, x, key):
    for name in ("c1", "c2"):
        x = jax.nn.gelu(jax.lax.conv_general_dilated(x, p[name].astype(x.dtype), (2, 2), "SAME"))
    x = x.reshape(x.shape[0], -1)
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return (jnp.where(keep, x / 0.9, 0) @ p["w"].astype(x.dtype)).astype(jnp.float32)


def loss(p, x, y, key):
    return -jax.nn.log_softmax(forward(p, x, key))[jnp.arange(y.size), y].mean()


def update(p, m, x, y, key):
    value, g = jax.value_and_grad(loss)(p, x, y, key)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return jax.tree.map(lambda p, m: p - 0.05 * m, p, m), m, value


step = jax.jit(update, donate_argnums=(0, 1))
x, y = jax.random.normal(key, (32, 3, 16, 16), jnp.bfloat16), jax.random.randint(key, (32,), 0, 10)
momentum, values = jax.tree.map(jnp.zeros_like, params), []
for n in range(8):
    params, momentum, value = step(params, momentum, x, y, jax.random.fold_in(key, n))
    values.append(float(value))
norms = jax.vmap(jnp.linalg.norm)(params["c1"].reshape(16, -1))
print(len(values), values[-1] < values[0], norms.shape)
