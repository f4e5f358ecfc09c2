# Data spread over two devices, gradients summed across them
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
x = np.arange(1 << 16, dtype=np.float32).reshape(256, 256) / 1000
x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
weights = jax.device_put(np.full((256, 128), 0.5, np.float32), NamedSharding(mesh, PartitionSpec()))


@jax.jit
def step(weights, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(weights)
    return weights - 0.1 * gradient, loss


for _ in range(5):
    weights, loss = step(weights, x)
print(f"{float(loss):.6f}")
