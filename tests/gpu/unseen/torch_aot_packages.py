# A model compiled ahead of time into a package (AOTInductor: a library that loads its own modules and launches from C++), loaded
# several times, with constants replaced and lent, called from threads, and captured into CUDA graphs fed by pinned memory; then
# kernels tuned by timing, on integers, so that whichever wins computes the same.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/triton_cache_py_torch_aot_packages")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor_cache_py_torch_aot_packages")
import hashlib
import math
import tempfile
import threading
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
DEV, D, H, T, VOCAB = "cuda", 128, 4, 24, 300


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o, self.up, self.down = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 3 * D), nn.Linear(3 * D, D)

    def forward(self, x, mask):
        b = x.shape[0]
        q, k, v = self.qkv(F.layer_norm(x, (D,))).view(b, T, 3, H, D // H).permute(2, 0, 3, 1, 4).unbind(0)
        s = (q @ k.transpose(-1, -2)) / math.sqrt(D // H) + mask
        x = x + self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, T, D))
        return x + self.down(F.silu(self.up(F.layer_norm(x, (D,)))))


class Net(nn.Module):
    """Takes tokens and a carried state, returns logits and the next state."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        super().__init__()
        self.emb, self.head = nn.Embedding(VOCAB, D), nn.Linear(D, VOCAB)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.register_buffer("mask", torch.full((T, T), -1e9).triu(1))

    def forward(self, tokens, state):
        x = self.emb(tokens) + state[:, None]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x[:, -1]), 0.5 * state + torch.tanh(x.mean(1))


def tokens_of(seed, b):
    return torch.randint(0, VOCAB, (b, T), generator=torch.Generator().manual_seed(seed))


def package():
    net, path = Net(1).to(DEV).eval(), os.path.join(tempfile.mkdtemp(), "net.pt2")
    args = (tokens_of(0, 6).to(DEV), torch.zeros(6, D, device=DEV))
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        ep = torch.export.export(net, args, dynamic_shapes=({0: batch}, {0: batch}))
    return net, torch._inductor.aoti_compile_and_package(
        ep, package_path=path, inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0", "deterministic": True})


@torch.no_grad()
def chain(run, seed, b, steps, stream=None):
    """Tokens that the CPU chooses by the logits; the state stays on the device."""
    tok, state, seen = tokens_of(seed, b), torch.zeros(b, D, device=DEV), []
    for _ in range(steps):
        logits, state = run(tok.to(DEV), state)
        tok = torch.cat([tok[:, 1:], logits.argmax(-1).cpu()[:, None]], 1)
        seen.append(logits.cpu())
    return seen + [state.cpu()]


def sizes(net, path):
    run = torch._inductor.aoti_load_package(path)
    for b in (6, 2, 33, 64, 17):
        out = chain(run, b, b, 4)
        x, s = tokens_of(b, b).to(DEV), torch.zeros(b, D, device=DEV)
        with torch.no_grad():
            print("batch", b, digest(*out), bool(torch.allclose(run(x, s)[0], net(x, s)[0], atol=1e-3)))


def constants(net, path):
    """Two copies of one package; the constants of one are replaced, then lent by the program, which goes on changing them."""
    one, two = (torch._inductor.aoti_load_package(path) for _ in range(2))
    names = sorted(two.get_constant_fqns())
    for seed in (2, 3):
        state = Net(seed).to(DEV).state_dict()
        two.load_constants({n: state[n].detach() for n in names if n in state}, check_full_update=False)
        print("replaced", len(names), digest(*chain(two, 9, 8, 3)), digest(*chain(one, 9, 8, 3)))
    try:
        lent = {n: t.detach().clone() for n, t in Net(4).to(DEV).state_dict().items() if n in names}
        two.load_constants(lent, check_full_update=False, user_managed=True)
        seen = []
        for i in range(5):
            seen += chain(two, i, 5, 2)
            torch.cuda.synchronize()
            for t in lent.values():
                if t.dim() == 2 and t.shape[0] != T:
                    t.mul_(1.01).add_(0.001 * (i - 2))
            torch.cuda.synchronize()
        print("lent", digest(*seen))
    except Exception as e:
        print("skipped: lent", type(e).__name__, str(e).splitlines()[:1])


def threads(net, path):
    """Three runners in one container, four threads with streams of their own."""
    from torch._inductor.package import load_package
    run, results = load_package(path, num_runners=3), {}
    torch.cuda.synchronize()

    def work(k):
        try:
            s = torch.cuda.Stream()
            with torch.cuda.stream(s):
                out = chain(run, 20 + k, 3 + 7 * k, 6)
            s.synchronize()
            results[k] = digest(*out)
        except Exception as e:
            results[k] = type(e).__name__

    ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *[results[k] for k in range(4)])


@torch.no_grad()
def graphs(net, path):
    """The library's launches in graphs of several sizes; tokens come out of pinned memory and go back into it."""
    run, s = torch._inductor.aoti_load_package(path, run_single_threaded=True), torch.cuda.Stream()
    made = {}
    for b in (4, 16):
        host, best = tokens_of(b, b).pin_memory(), torch.zeros(b, dtype=torch.int64).pin_memory()
        tok, state = torch.zeros(b, T, dtype=torch.int64, device=DEV), torch.zeros(b, D, device=DEV)
        torch.cuda.synchronize()
        with torch.cuda.stream(s):
            run(tok, state)
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=s):
            tok.copy_(host, non_blocking=True)
            logits, after = run(tok, state)
            state.copy_(after)
            best.copy_(logits.argmax(-1), non_blocking=True)
        made[b] = (g, host, best, state, logits)
    torch.cuda.synchronize()
    seen = []
    for i in range(24):
        g, host, best, state, logits = made[(4, 16)[i % 3 == 1]]
        with torch.cuda.stream(s):
            g.replay()
        s.synchronize()
        host[:, :-1] = host[:, 1:].clone()
        host[:, -1] = best
        host[i % 4, i % T] = i
        seen.append(logits.cpu())
    print("graphs", digest(*seen), *[digest(m[3]) for m in made.values()])


def tuned():
    """Sums and products of integers, exact in whatever order: the tuning may choose as it likes."""
    from torch._inductor import config

    def f(x, y):
        z = (x * 31 + y) ^ (x >> 5)
        return z.sum(0), (z + y.flip(0)).amax(1), torch.where(z > y, z - y, y - z)

    g = torch.compile(f, options={"max_autotune_pointwise": True})
    x, y = (torch.arange(300 * 1000, device=DEV).view(300, 1000) * k % 1009 for k in (7, 11))
    for i in range(3):
        a, b, c = g(x, y)
        x, y = c % 5003 + a[None] % 17, (y + b[:, None]) % 7001
    print("tuned", digest(a, b, c, x, y))
    p, q = (torch.randint(-1, 2, (256, 256), generator=torch.Generator().manual_seed(k)).to(DEV, torch.bfloat16) for k in (1, 2))
    with config.patch({"test_configs.max_mm_configs": 3, "max_autotune_gemm_backends": "ATEN,TRITON"}):
        m = torch.compile(lambda p, q: (p @ q).relu().float() % 97, mode="max-autotune-no-cudagraphs")
        r = m(p, q)
        r = m((r % 3 - 1).bfloat16(), q)  # no sum is beyond 256, so that none is ever rounded
    print("tuned products", digest(r))


try:
    torch.cuda.init()
    made = package()
except Exception as e:
    made = None
    print("skipped: package", type(e).__name__, str(e).splitlines()[:1])
for part in (sizes, constants, threads, graphs):
    try:
        if made:
            part(*made)
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
try:
    tuned()
except Exception as e:
    print("skipped: tuned", type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
