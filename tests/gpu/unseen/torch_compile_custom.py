# torch.compile in its default mode around hand-written Triton kernels (no tuning by timing), a custom operator with a
# gradient, graph breaks, a compiled training step; then compiled code called from threads with their own streams.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
CACHE = os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/inductor_py_compile_custom_%d" % os.getpid()
os.environ["TRITON_CACHE_DIR"] = CACHE + "/triton"
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
import hashlib
import shutil
import threading
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cuda.matmul.allow_tf32 = False
try:
    import triton
    import triton.language as tl
except Exception as e:
    triton = None
    print("skipped: triton", type(e).__name__)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cuda()


if triton is not None:
    @triton.jit
    def rms_fwd(x, w, y, rstd, n, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        r = 1.0 / tl.sqrt(tl.sum(v * v, axis=0) / n + eps)
        g = tl.load(w + cols, mask=cols < n, other=0.0)
        tl.store(y + row * n + cols, v * r * g, mask=cols < n)
        tl.store(rstd + row, r)

    @triton.jit
    def rms_bwd(x, w, dy, rstd, dx, n, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        d = tl.load(dy + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        g = tl.load(w + cols, mask=cols < n, other=0.0) * d
        r = tl.load(rstd + row)
        dot = tl.sum(v * g, axis=0) / n
        tl.store(dx + row * n + cols, r * (g - v * r * r * dot), mask=cols < n)

    @triton.jit
    def collatz(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=1)
        count = tl.zeros([BLOCK], tl.int32)
        for _ in range(40):
            going = v > 1
            v = tl.where(going, tl.where(v % 2 == 0, v // 2, 3 * v + 1), v)
            count += going.to(tl.int32)
        tl.store(out + i, count, mask=i < n)


@torch.library.custom_op("shop::rms", mutates_args=())
def rms(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.contiguous()
    y, rstd = torch.empty_like(x), torch.empty(x.shape[:-1], device=x.device)
    n = x.shape[-1]
    rms_fwd[(x.numel() // n,)](x, w, y, rstd, n, 1e-6, BLOCK=triton.next_power_of_2(n), num_warps=4)
    return y, rstd


@rms.register_fake
def _(x, w):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty(x.shape[:-1], device=x.device)


@torch.library.custom_op("shop::rms_back", mutates_args=())
def rms_back(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    x, dy = x.contiguous(), dy.contiguous()
    dx, n = torch.empty_like(x), x.shape[-1]
    rms_bwd[(x.numel() // n,)](x, w, dy, rstd.contiguous(), dx, n, BLOCK=triton.next_power_of_2(n), num_warps=4)
    return dx


@rms_back.register_fake
def _(x, w, dy, rstd):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def rms_grad(ctx, dy, _):
    x, w, rstd = ctx.saved_tensors
    return rms_back(x, w, dy, rstd), (dy * x * rstd[..., None]).flatten(0, -2).sum(0)


def rms_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


rms.register_autograd(rms_grad, setup_context=rms_setup)


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g, self.a, self.b = nn.Parameter(torch.ones(d)), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x):
        u, v = self.a(rms(x, self.g)[0]).chunk(2, -1)
        return x + self.b(F.silu(u) * v)


def training():
    torch.manual_seed(6)
    net = nn.Sequential(Layer(80), Layer(80), nn.Linear(80, 9)).cuda()
    step = torch.compile(lambda x, y: F.cross_entropy(net(x).mean(1), y))
    opt, losses = torch.optim.AdamW(net.parameters(), lr=2e-3, fused=True), []
    for i in range(20):
        y = torch.arange(32, device="cuda") * (i + 3) % 9
        loss = step(data(i, 32, 12, 80) + y[:, None, None] * 0.2, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    with torch.no_grad():
        x = data(50, 32, 12, 80)
        close = torch.allclose(net(x), torch.compile(net)(x), atol=1e-4)
    print("training", "%.3f -> %.3f" % (losses[0], losses[-1]), digest(*losses), digest(*net.parameters()), "close", close)


def user_kernel_inside():
    """The compiler sees a Triton kernel launched from the function itself, after a graph break."""
    def f(x):
        y = (x.abs() * 100).to(torch.int32) + 1
        torch._dynamo.graph_break()
        out = torch.empty_like(y)
        collatz[(triton.cdiv(y.numel(), 256),)](y, out, y.numel(), BLOCK=256)
        return out * 2 - y % 3, out.amax(1)

    c, x = torch.compile(f, dynamic=False), data(3, 120, 77)
    got = c(x)
    print("kernel inside", digest(*got), "same as eager", all(torch.equal(a, b) for a, b in zip(got, f(x))))


def threads():
    """Compiled once, then called by threads at the same time."""
    w = data(8, 64, 64) / 8
    f = torch.compile(lambda x: torch.softmax(x @ w, -1) * x.sin())
    f(data(0, 200, 64))
    torch.cuda.synchronize()
    results, errors = [None] * 4, [None] * 4

    def work(k):
        try:
            s, out = torch.cuda.Stream(), []
            with torch.cuda.stream(s):
                for i in range(15):
                    out.append(f(data(100 * k + i, 200, 64)).amax(0))
                results[k] = digest(*out)
        except Exception as e:
            errors[k] = type(e).__name__

    ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *[r or e for r, e in zip(results, errors)])


for part in (training, user_kernel_inside, threads):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
torch.cuda.synchronize()
shutil.rmtree(CACHE, ignore_errors=True)
