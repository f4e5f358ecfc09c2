# PyTorch, CuPy and JAX in one process, working on the same memory: handed over by DLPack and __cuda_array_interface__,
# on PyTorch's stream where that is possible and with explicit synchronisation where it is not.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0").strip()
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_dlpack_three")
import hashlib
import threading
import numpy as np
import torch
import jax
import jax.numpy as jnp
import cupy as cp

torch.use_deterministic_algorithms(True)
torch.manual_seed(14)


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        a = a.detach().cpu().numpy() if isinstance(a, torch.Tensor) else cp.asnumpy(a) if isinstance(a, cp.ndarray) else np.asarray(a)
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()[:16]


def to_jax(t):
    """A tensor that nobody writes to any more; everything that made it has finished."""
    torch.cuda.synchronize()
    return jnp.from_dlpack(t)


def to_torch(a):
    jax.block_until_ready(a)
    return torch.from_dlpack(a)


smooth = cp.RawKernel(r"""
extern "C" __global__ void smooth(const float* in, float* out, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) s += in[((y + dy + h) % h) * w + (x + dx + w) % w];
    out[y * w + x] = s / 9.f;
}""", "smooth")


def one_stream():
    """CuPy works on PyTorch's stream: no synchronisation at all between the two."""
    t, out = torch.cuda.Stream(), []
    with torch.cuda.stream(t), cp.cuda.ExternalStream(t.cuda_stream):
        x = torch.randn(120, 90, generator=torch.Generator().manual_seed(1)).cuda()
        y = torch.zeros_like(x)
        cx, cy = cp.asarray(x), cp.from_dlpack(y)  # the same memory
        for i in range(30):
            smooth((6, 8), (16, 16), (cx, cy, np.int32(120), np.int32(90)))
            x.copy_(torch.sin(y * 2 + i * 0.1))  # seen by cx
            if i % 6 == 5:
                cx += cp.float32(0.125) * cy[::-1]
                out.append(x.clone())
        z = torch.as_tensor(cp.cumsum(cp.arange(1000, dtype=cp.int64)) * 3, device="cuda")
        out.append(z.flip(0))
    t.synchronize()
    print("one stream", digest(*out), x.data_ptr() == cx.data.ptr, y.data_ptr() == cy.data.ptr)


@jax.jit
def jax_layer(x, w):
    return jax.nn.gelu(x @ w) + x, jnp.abs(x).max(axis=1)


class JaxLayer(torch.autograd.Function):
    """A layer of a PyTorch network that JAX computes, forward and backward."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return to_torch(jax_layer(to_jax(x.detach().contiguous()), to_jax(w.detach().contiguous()))[0]).clone()

    @staticmethod
    def backward(ctx, g):
        x, w = (to_jax(v.detach().contiguous()) for v in ctx.saved_tensors)
        dx, dw = jax_backward(x, w, to_jax(g.contiguous()))
        return to_torch(dx).clone(), to_torch(dw).clone()


@jax.jit
def jax_backward(x, w, g):
    return jax.vjp(lambda x, w: jax_layer(x, w)[0], x, w)[1](g)


def training():
    torch.manual_seed(2)
    a, b = torch.nn.Linear(20, 64).cuda(), torch.nn.Linear(64, 3).cuda()
    w = torch.nn.Parameter((torch.randn(64, 64) / 8).cuda())
    opt = torch.optim.SGD([*a.parameters(), *b.parameters(), w], lr=0.1, momentum=0.8, foreach=True)
    losses = []
    for i in range(15):
        rng = cp.asarray(np.random.default_rng(i).standard_normal((100, 20), dtype=np.float32))
        cp.cuda.get_current_stream().synchronize()
        x = torch.as_tensor(rng, device="cuda")
        loss = (b(JaxLayer.apply(a(x), w)) - x[:, :3]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch.cuda.synchronize()  # the tensors that JAX saw are done with before the next turn
        losses.append(loss.item())
    print("training %.4f -> %.4f" % (losses[0], losses[-1]), digest(w, *a.parameters(), *b.parameters()))


def circle():
    """One buffer's contents pass through all three in turn, each with a kind of work of its own."""
    t = torch.arange(6000, device="cuda", dtype=torch.int32)
    step, out = jax.jit(lambda a, i: jnp.sort((a * 31 + i) % 7919)), []
    for i in range(20):
        a = step(to_jax(t), i)
        jax.block_until_ready(a)
        c = cp.from_dlpack(a) if i % 2 else cp.asarray(to_torch(a))
        c = cp.bitwise_xor(c, cp.roll(c, i))
        cp.cuda.get_current_stream().synchronize()
        t = torch.from_dlpack(c).flip(0).contiguous() if i % 3 else torch.as_tensor(c, device="cuda") * 2
        torch.cuda.synchronize()
        out.append(int(t.sum()))
        del a, c
    print("circle", out[:3], hashlib.sha256(repr(out).encode()).hexdigest()[:16], digest(t))


def types():
    shapes, parts = [(7,), (3, 5), (2, 3, 4), (1, 1)], []
    for name in ("float32", "float16", "int32", "int8", "uint8", "bfloat16", "bool"):
        try:
            for s in shapes:
                t = (torch.arange(int(np.prod(s)), device="cuda").reshape(s) % 3).to(getattr(torch, name))
                a = to_jax(t)
                b = to_torch(a + a if name != "bool" else ~a)
                parts.append(digest(b.to(torch.float32)) + str(tuple(b.shape)))
        except Exception as e:
            print("skipped: type", name, type(e).__name__)
    torch.cuda.synchronize()
    print("types", len(parts), hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16])


def threads():
    """Each library has a thread of its own; they meet on a host array."""
    host, start = [None] * 3, np.random.default_rng(3).integers(0, 1000, (300, 200)).astype(np.int32)

    def with_torch():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            v = torch.from_numpy(start.copy()).cuda()
            for i in range(50):
                v = (v * 7 + v.roll(i, 1)) % 10007
            host[0] = v.cpu().numpy()

    def with_cupy():
        with cp.cuda.Stream(non_blocking=True) as s:
            v = cp.asarray(start)
            for i in range(50):
                v = (v * 7 + cp.roll(v, i, 1)) % 10007
            host[1] = v.get()
            s.synchronize()

    def with_jax():
        f = jax.jit(lambda v, i: (v * 7 + jnp.roll(v, i, 1)) % 10007)
        v = jax.device_put(start)
        for i in range(50):
            v = f(v, i)
        host[2] = np.asarray(v)

    ts = [threading.Thread(target=f) for f in (with_torch, with_cupy, with_jax)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    done = [h is not None for h in host]
    print("threads", done, all(done) and all(bool((h == host[0]).all()) for h in host), digest(*[h for h in host if h is not None]))


for part in (one_stream, training, circle, types, threads):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
torch.cuda.synchronize()
