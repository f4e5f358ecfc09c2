# The stream-ordered allocator of the driver behind PyTorch: blocks of odd sizes made and dropped on several streams and
# threads, handed between streams with record_stream, empty_cache in between, a small training, a graph if it goes.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
import gc
import hashlib
import threading
import numpy as np
import torch
import torch.nn as nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(21)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def churn():
    """Integer contents, so that sums are exact; sizes from one element to some tens of megabytes."""
    rng = np.random.default_rng(1)
    sizes = np.concatenate([rng.integers(1, 3000, 150), rng.integers(1, 1 << 23, 60), [1, 511, 513, (1 << 21) - 1, (1 << 21) + 1]])
    rng.shuffle(sizes)
    streams, live, sums = [torch.cuda.Stream() for _ in range(4)], {}, []
    for i, n in enumerate(sizes.tolist()):
        s = streams[i % 4]
        with torch.cuda.stream(s):
            t = torch.arange(n, device="cuda", dtype=torch.int32)
            t.mul_(2 * i + 1).bitwise_xor_(i)
            live[i] = (t, s)
        if i % 3 == 2:  # a block goes to another stream, is read there, and is dropped at once
            j = sorted(live)[(i * 7) % len(live)]
            old, owner = live.pop(j)
            reader = streams[(i // 3) % 4]
            reader.wait_stream(owner)
            with torch.cuda.stream(reader):
                sums.append(old.sum())
                old.record_stream(reader)
            del old
        if i % 70 == 69:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    left = [t.sum() for _, (t, _) in sorted(live.items())]
    print("churn", len(left), digest(*sums), digest(*left))
    peak, now = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    live.clear()
    t = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print("counted", peak >= now > 0, torch.cuda.memory_allocated() < now)


def thread_work(k, results):
    """A chain of temporaries on an own stream: every line frees what the line before made."""
    try:
        g = torch.Generator().manual_seed(k)
        s = torch.cuda.Stream()
        hs = []
        with torch.cuda.stream(s):
            host = torch.randint(0, 1 << 16, (40_001 + 977 * k,), generator=g).pin_memory()
            for step in range(25):
                x = host.to("cuda", non_blocking=True)
                x = (x * 31 + step) & 0xFFFF
                x = torch.cat([x, x.flip(0)[: 100 * (step + 1)]])
                x = x.view(-1)[torch.arange(x.numel() - 1, -1, -1, device="cuda")]
                y = x.sort(stable=True).values.unique_consecutive()
                n = y.numel()  # its size is only known after a synchronisation
                z = torch.zeros(n + step, dtype=torch.int64, device="cuda")
                z[:n] += y.cumsum(0)
                back = z.cpu()
                hs.append(back)
                host = (host + int(back[n - 1]) % 1000).pin_memory()  # a new pinned block; the old one was read already
                if step % 9 == 8:
                    torch.cuda.empty_cache()
        s.synchronize()
        results[k] = digest(*hs)
    except Exception as e:
        results[k] = type(e).__name__


def threads():
    results = [None] * 5
    ts = [threading.Thread(target=thread_work, args=(k, results)) for k in range(5)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *results)


def training():
    """Another batch size and sequence length at each step."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(48, 192), nn.SiLU(), nn.Linear(192, 192), nn.SiLU(), nn.LayerNorm(192), nn.Linear(192, 7)).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    rng, losses = np.random.default_rng(3), []
    for i in range(40):
        b, t = int(rng.integers(1, 90)), int(rng.integers(1, 130))
        x = torch.from_numpy(rng.standard_normal((b, t, 48), dtype=np.float32)).cuda()
        y = torch.from_numpy(rng.integers(0, 7, b)).cuda()
        loss = nn.functional.cross_entropy(net(x).mean(1), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        if i % 11 == 10:
            gc.collect()
            torch.cuda.empty_cache()
    print("training", "%.4f" % losses[-1].item(), digest(*losses), digest(*net.parameters()))


def big():
    """A block that is much bigger than what was used so far, twice, and one that cannot be had."""
    sums = []
    for n in ((3 << 30) + 12345, (2 << 30) + 77):
        t = torch.zeros(n, dtype=torch.uint8, device="cuda")
        t[:: 1 << 20] = 3
        sums.append(int(t[:: 1 << 20].sum()))
        del t
        torch.cuda.empty_cache()
    caught = False
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    except RuntimeError:  # an out-of-memory error
        caught = True
    print("big", sums, "refused", caught, int(torch.arange(10, device="cuda").sum()))


def graphed():
    x = torch.zeros(513, 65, device="cuda")
    w = torch.linspace(-1, 1, 65 * 33, device="cuda").view(65, 33)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.tanh(x @ w).square().sum(0)
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.tanh(x @ w).square().sum(0)
    out = []
    for i in range(12):
        x.fill_(i / 16).add_(torch.arange(65, device="cuda") / 65)
        g.replay()
        out.append(y.clone())
    print("graphed", digest(*out))


print("backend", torch.cuda.get_allocator_backend())
for part in (churn, threads, training, big, graphed):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
torch.cuda.synchronize()
