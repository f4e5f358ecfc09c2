# torch.compile with dynamic shapes and with mode="reduce-overhead" (CUDA graphs), falling back to eager.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor_py_compile_dynamic_%d" % os.getpid())
os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] + "/triton"
import hashlib
import shutil
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(42)
try:  # choose kernels by rule and not by timing
    import torch._inductor.config as ic
    for name, value in (("deterministic", True), ("max_autotune", False), ("coordinate_descent_tuning", False)):
        if hasattr(ic, name):
            setattr(ic, name, value)
        else:
            print("skipped: inductor option", name)
except Exception as e:
    print("skipped: inductor config", type(e).__name__)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.mid, self.out = nn.Linear(32, 128), nn.Linear(128, 128), nn.Linear(128, 16)
        self.norm = nn.LayerNorm(128)

    def forward(self, x, mask):
        h = F.gelu(self.inp(x))
        h = self.norm(h + torch.sin(self.mid(h)))
        w = torch.softmax(h.mean(-1).masked_fill(~mask, float("-inf")), dim=-1)
        return self.out((h * w.unsqueeze(-1)).amax(1)).tanh()


def compiled_or_eager(fn, what, **kw):
    """The compiled function, or fn itself if the first call of the compiled one fails."""
    state = {"f": torch.compile(fn, **kw), "tried": False}

    def call(*a):
        if state["tried"]:
            return state["f"](*a)
        state["tried"] = True
        try:
            return state["f"](*a)
        except Exception as e:
            print("skipped: compile of", what, type(e).__name__)
            torch._dynamo.reset()
            state["f"] = fn
            return fn(*a)

    return call


def batch(n, t, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, t, 32, generator=g).pin_memory()
    mask = torch.rand(n, t, generator=g) > 0.2
    mask[:, 0] = True
    return x.to("cuda", non_blocking=True), mask.cuda()


def dynamic_training():
    net = Net().cuda()
    f = compiled_or_eager(net, "training, dynamic", dynamic=True)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=True)
    for i, (n, t) in enumerate(((8, 40), (12, 24), (7, 33), (16, 64), (3, 129), (8, 40))):
        x, mask = batch(n, t, i)
        loss = f(x, mask).square().mean() + f(x * 0.5, mask).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("dynamic training", "%.5f" % loss.item(), digest(*net.parameters()))
    return net


def reduce_overhead(net):
    net.eval().requires_grad_(False)

    def infer(x, mask):
        y = net(x, mask)
        return y.sum(-1, keepdim=True) * y, y.argmax(-1)

    f = compiled_or_eager(infer, "reduce-overhead", mode="reduce-overhead", dynamic=False)
    kept = []
    with torch.no_grad():
        for i in range(9):
            x, mask = batch(4, 16 if i < 6 else 48, 100 + i)  # two shapes: two graphs
            torch.compiler.cudagraph_mark_step_begin()
            y, k = f(x, mask)
            kept += [y.clone(), k.clone()]  # the next step overwrites the graph's outputs
    torch.cuda.synchronize()
    print("reduce-overhead", digest(*kept))


def pieces():
    """A graph break in the middle, integer work and a view that mutates its input."""

    def fn(a, n):
        b = (a.cos() * n).cumsum(0) if a.dtype is torch.int64 else a.cos() * n
        torch._dynamo.graph_break()
        c = torch.where(b > 0, b, -b * 0.25)
        a.mul_(0.5)
        return c.reshape(-1, 4).sort(dim=1).values, a[::2] + 1

    f = compiled_or_eager(fn, "pieces")
    out = []
    for n in (64, 128, 256):
        a = torch.linspace(-3, 3, n, device="cuda")
        out += [*f(a, 2.0), a]
    print("pieces", digest(*out))


torch.set_float32_matmul_precision("high")
model = dynamic_training()
reduce_overhead(model)
pieces()
shutil.rmtree(os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
