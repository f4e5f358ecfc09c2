# JAX: a jitted training step with Adam by hand, a scan, a convolution
import jax
import jax.numpy as jnp

key = jax.random.PRNGKey(6)
w1, w2 = jax.random.normal(key, (64, 128)) * 0.1, jax.random.normal(key, (128, 10)) * 0.1
x, y = jax.random.normal(key, (256, 64)), jax.random.randint(key, (256,), 0, 10)


def loss(p):
    logits = jax.nn.relu(x @ p[0]) @ p[1]
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(256), y])


@jax.jit
def step(carry, _):
    p, m, v = carry
    g = jax.grad(loss)(p)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    return (jax.tree.map(lambda a, b, c: a - 0.01 * b / (jnp.sqrt(c) + 1e-8), p, m, v), m, v), loss(p)


p = (w1, w2)
zeros = jax.tree.map(jnp.zeros_like, p)
(_, _, _), losses = jax.lax.scan(step, (p, zeros, zeros), None, length=20)
print(float(losses[0]) > float(losses[-1]))
image = jax.random.normal(key, (4, 16, 32, 32))
print(jax.lax.conv(image, jax.random.normal(key, (8, 16, 3, 3)), (1, 1), "SAME").shape)
