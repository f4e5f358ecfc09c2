# Many kinds of networks in one process, each on the path a library is fastest on: a diffusion sampler compiled into CUDA
# graph trees, FlexAttention, all backends of scaled dot-product attention, jagged batches, recurrent networks eager and
# captured, message passing over a graph with sorted segments, ensembles by vmap; some of it at the same time in threads.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
CACHE = os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/inductor_py_architectures_%d" % os.getpid()
os.environ["TRITON_CACHE_DIR"] = CACHE + "/triton"
os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"  # nothing is chosen by timing
import hashlib
import math
import shutil
import threading
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
DEV, INIT = "cuda", threading.Lock()


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEV, dtype)


class Denoiser(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, c), nn.SiLU(), nn.Linear(c, c))
        self.inp, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.mid = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for _ in range(3))
        self.norm = nn.ModuleList(nn.GroupNorm(8, c) for _ in range(3))

    def forward(self, x, t):
        e = torch.exp(torch.arange(16, device=x.device) * -0.5) * t[:, None]
        e = self.time(torch.cat([e.sin(), e.cos()], 1))[:, :, None, None]
        h = self.inp(x)
        for conv, norm in zip(self.mid, self.norm):
            h = h + conv(F.silu(norm(h) + e))
        return self.out(F.silu(h))


def diffusion():
    """Trained and sampled under mode="reduce-overhead": graphs of several shapes in one tree, eager work in between."""
    torch.manual_seed(1)
    net = Denoiser().to(DEV).to(memory_format=torch.channels_last)
    fast = torch.compile(net, mode="reduce-overhead", dynamic=False)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, fused=True)
    bars, losses = torch.linspace(1e-3, 0.3, 20, device=DEV), []
    keep = torch.exp(torch.log(1 - bars).cpu().cumsum(0)).to(DEV)
    for step in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        x = data(step, 8, 3, 24, 24).sign() * 0.5
        k = torch.randint(0, 20, (8,), generator=torch.Generator().manual_seed(step)).to(DEV)
        a, eps = keep[k].view(-1, 1, 1, 1), data(1000 + step, 8, 3, 24, 24)
        loss = (fast((x * a.sqrt() + eps * (1 - a).sqrt()).contiguous(memory_format=torch.channels_last), k.float()) - eps).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.detach().clone())
    print("diffusion", digest(torch.stack(losses)), digest(*net.parameters()))
    gen, out = torch.Generator(DEV).manual_seed(5), []
    with torch.no_grad():
        for n in (8, 4, 8):
            x = torch.randn(n, 3, 24, 24, device=DEV, generator=gen).contiguous(memory_format=torch.channels_last)
            for i in reversed(range(20)):
                torch.compiler.cudagraph_mark_step_begin()
                e = fast(x, torch.full((n,), float(i), device=DEV))
                x = (x - bars[i] / (1 - keep[i]).sqrt() * e) / (1 - bars[i]).sqrt()
                if i:
                    x = x + bars[i].sqrt() * torch.randn(x.shape, device=DEV, generator=gen)
                x = x.clamp(-3, 3).contiguous(memory_format=torch.channels_last)
            out.append(x.clone())
    print("samples", digest(*out))


def flex():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    compiled = torch.compile(flex_attention, dynamic=False)
    docs = torch.repeat_interleave(torch.arange(5), torch.tensor([100, 30, 200, 60, 122])).to(DEV)
    mask = create_block_mask(lambda b, h, q, k: (docs[q] == docs[k]) & (q >= k), None, None, 512, 512, device=DEV)
    slopes = torch.exp2(-torch.arange(1, 5, device=DEV).float())
    q, k, v = (data(i, 2, 4, 512, 64, dtype=torch.float16).requires_grad_() for i in range(3))
    bias = lambda s, b, h, i, j: s - slopes[h] * (i - j)
    for i in range(3):
        y = compiled(q, k, v, score_mod=bias, block_mask=mask)
        y.square().mean().backward()
        with torch.no_grad():
            for t in (q, k, v):
                t -= t.grad * 20
                t.grad = None
    print("flex", digest(y, q, k, v))


def backends():
    for b in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        try:
            q, k, v = (data(10 + i, 3, 8, 320, 64, dtype=torch.bfloat16) for i in range(3))
            with sdpa_kernel(b), torch.no_grad():
                out = [F.scaled_dot_product_attention(q[:, :, :n], k, v, is_causal=n == 320) for n in (320, 64, 1)]
                g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
                torch.cuda.synchronize()
                with torch.cuda.graph(g, stream=s):
                    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                for _ in range(4):  # its own input, next time
                    g.replay()
                    q.copy_(y * 2)
            print(b.name, digest(*out), digest(y))
        except Exception as e:
            print("skipped:", b.name, type(e).__name__, str(e).splitlines()[:1])


def jagged():
    lengths, w = [17, 3, 64, 40, 9], data(20, 96, 3 * 96, dtype=torch.float16) / 10
    rows = [data(30 + i, n, 96, dtype=torch.float16) for i, n in enumerate(lengths)]
    out = []
    with torch.no_grad():
        nt = torch.nested.nested_tensor(rows, layout=torch.jagged)
        for i in range(3):
            q, k, v = (nt @ w).chunk(3, -1)
            q, k, v = (t.unflatten(-1, [4, 24]).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
            nt = F.layer_norm(nt + y, (96,))
            out.append(nt.values().clone())
        padded = torch.nested.to_padded_tensor(nt, 0.0)
    print("jagged", digest(*out), digest(padded), list(padded.shape))


def recurrent(seed, results, stream):
    try:
        with torch.cuda.stream(stream):
            with INIT:  # they share a generator
                torch.manual_seed(seed)
                lstm, gru = nn.LSTM(40, 72, 2, batch_first=True), nn.GRU(72, 48, batch_first=True, bidirectional=True)
            lstm, gru, head = lstm.to(DEV), gru.to(DEV), data(seed, 96, 12) / 10
            opt = torch.optim.RMSprop([*lstm.parameters(), *gru.parameters()], lr=1e-3, foreach=True)
            for step in range(10):
                n = 20 + (step * 7) % 13
                x = data(seed * 100 + step, 16, n, 40)
                h, _ = lstm(x)
                y = gru(h)[0].mean(1) @ head
                loss = (y - x[:, :12, 0]).square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            results[seed] = digest(*lstm.parameters(), *gru.parameters()) + " " + digest(y)
        stream.synchronize()
    except Exception as e:
        results[seed] = type(e).__name__


def threads():
    results, ts = {}, []
    for seed in (1, 2, 3):
        ts.append(threading.Thread(target=recurrent, args=(seed, results, torch.cuda.Stream())))
        ts[-1].start()
    for t in ts:
        t.join()
    print("recurrent", *[results[s] for s in sorted(results)])
    lstm, x = nn.LSTM(32, 64, 2).to(DEV).eval(), data(50, 30, 8, 32)
    lstm.load_state_dict({k: data(60 + i, *v.shape) / 8 for i, (k, v) in enumerate(lstm.state_dict().items())})
    lstm.flatten_parameters()
    s, out = torch.cuda.Stream(), []
    s.wait_stream(torch.cuda.current_stream())
    with torch.no_grad():
        with torch.cuda.stream(s):
            lstm(x)
        s.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=s):
            y, (h, c) = lstm(x)
        work = [threading.Thread(target=lambda k=k: eager(k, out)) for k in range(3)]
        for w in work:
            w.start()
        seen = []
        for i in range(10):
            g.replay()
            seen.append(y.clone())
            x.copy_(torch.cat([y[:, :, :32]]).roll(i, 0) * 2)
        for w in work:
            w.join()
    print("captured lstm", digest(*seen, h, c), *sorted(out))


def eager(k, out):
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()) as _:
        x = data(70 + k, 256, 256)
        for i in range(60):
            x = F.layer_norm(torch.fft.irfft(torch.fft.rfft(x.tanh()) * (1 + k), n=256) @ x + 0.1 * x, (256,))
        out.append(digest(x))


def messages():
    """Edges sorted by target: sums over segments in a fixed order, forward and backward, no atomics anywhere."""
    n, m = 3000, 20000
    g = torch.Generator().manual_seed(4)
    src, dst = torch.randint(0, n, (m,), generator=g).to(DEV), torch.randint(0, n, (m,), generator=g).sort().values.to(DEV)
    lengths = torch.searchsorted(dst, torch.arange(n + 1, device=DEV)).diff()
    back = src.sort(stable=True).indices
    lengths_back = torch.searchsorted(src[back], torch.arange(n + 1, device=DEV)).diff()

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[src]

        @staticmethod
        def backward(ctx, grad):
            return torch.segment_reduce(grad[back].contiguous(), "sum", lengths=lengths_back, unsafe=True)

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, e):
            return torch.segment_reduce(e, "sum", lengths=lengths, unsafe=True)

        @staticmethod
        def backward(ctx, grad):
            return grad[dst]

    x, goal = data(80, n, 32), data(81, n, 16).tanh()
    w = [nn.Parameter(data(82 + i, 32, 32) / 6) for i in range(3)] + [nn.Parameter(data(86, 32, 16) / 6)]
    opt = torch.optim.Adam(w, lr=5e-3, fused=True)
    for step in range(15):
        h = x
        for a in w[:3]:
            h = h + torch.tanh(Sum.apply(Gather.apply(h @ a)) / (1 + lengths[:, None]))
        loss = (h @ w[3] - goal).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    crow = F.pad(lengths.cumsum(0), (1, 0))
    adjacency = torch.sparse_csr_tensor(crow, src, torch.ones(m, device=DEV), size=(n, n), check_invariants=False)
    exact = adjacency @ torch.arange(n * 4, device=DEV).view(n, 4).remainder(101).float()  # whole numbers: no rounding
    print("messages %.4f" % loss.item(), digest(*w), digest(exact))


for part in (backends, jagged, threads, messages, flex, diffusion):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
shutil.rmtree(CACHE, ignore_errors=True)
