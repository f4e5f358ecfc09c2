# Memory pressure: expandable segments, out-of-memory caught and retried with smaller batches, activations offloaded
# to pinned CPU memory by saved-tensor hooks, statistics and empty_cache in between.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import gc
import hashlib
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.manual_seed(31)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Tower(nn.Module):
    def __init__(self, width=512, depth=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])

    def forward(self, x):
        for lin, norm in zip(self.layers, self.norms):
            x = x + F.gelu(lin(norm(x)))
        return x


def train(net, ctx, steps, rows):
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for i in range(steps):
        x = torch.randn(rows, 512, generator=torch.Generator().manual_seed(i)).pin_memory().cuda(non_blocking=True)
        with ctx():
            loss = net(x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss


def offloading():
    """The same training with and without offloading gives the same bits."""
    results = []
    for ctx in (torch.autograd.graph.save_on_cpu, torch.autograd.graph.save_on_cpu, None):
        torch.manual_seed(8)
        net = Tower().cuda()
        if ctx is None:
            make = lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        else:
            make = lambda pin=not results: torch.autograd.graph.save_on_cpu(pin_memory=pin)
        loss = train(net, make, 4, 2048)
        results.append((loss.item(), digest(*net.parameters())))
        del net, loss
    print("offloading", results[0], "all equal", len(set(results)) == 1)


class AsyncOffload(torch.autograd.graph.saved_tensors_hooks):
    """Big activations go to preallocated pinned buffers on a copy stream and come back on it."""

    def __init__(self, buffers):
        self.stream, self.free = torch.cuda.Stream(), buffers
        super().__init__(self.pack, self.unpack)

    def pack(self, t):
        if t.numel() < 1 << 18 or t.dtype is not torch.float32 or not t.is_contiguous() or not self.free:
            return t
        buf = self.free.pop()
        view = buf[: t.numel()].view(t.shape)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            view.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        return (buf, view)

    def unpack(self, p):
        if isinstance(p, torch.Tensor):
            return p
        buf, view = p
        with torch.cuda.stream(self.stream):
            t = view.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        t.record_stream(torch.cuda.current_stream())
        return t


def async_offloading():
    torch.manual_seed(9)
    net = Tower(depth=4).cuda()
    pinned = [torch.empty(1 << 20, pin_memory=True) for _ in range(12)]
    loss = train(net, lambda: AsyncOffload(list(pinned)), 3, 2048)
    torch.cuda.synchronize()
    print("async offloading %.6f" % loss.item(), digest(*net.parameters()))


def driver_oom():
    """More than the card has: without expandable segments, this is one allocation that the driver refuses."""
    try:
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    except Exception as e:
        print("skipped: allocator settings", type(e).__name__)
        return
    kept = torch.full((1000, 1000), 3.0, device="cuda")
    caught = 0
    for _ in range(2):
        try:
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            caught += 1
            torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    more = torch.full((2000, 1500), 0.5, device="cuda")
    print("driver out of memory caught", caught, "sum", int(kept.sum().item() + more.sum().item()))


def find_batch(limit_bytes):
    """Halves the batch until a step fits, as training scripts do."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(limit_bytes / total)
    rows, tries, out = 1 << 18, 0, None
    w = torch.randn(512, 512, generator=torch.Generator().manual_seed(4)).cuda().requires_grad_()
    while out is None:
        tries += 1
        try:
            x = torch.ones(rows, 512, device="cuda") * torch.arange(512, device="cuda") / 512
            h = x
            for _ in range(4):
                h = torch.tanh(h @ w) + h
            h.mean().backward()
            out = h[0].detach().clone()
        except torch.cuda.OutOfMemoryError:
            x = h = None
            w.grad = None
            gc.collect()
            torch.cuda.empty_cache()
            rows //= 2
    x = h = None
    stats = torch.cuda.memory_stats()
    print("fits", rows, "after", tries, "tries, ooms counted", stats["num_ooms"] > 0, digest(out, w.grad))
    torch.cuda.set_per_process_memory_fraction(1.0)


def churn():
    """Blocks of many sizes on two streams, freed out of order; segments grow and shrink."""
    g = torch.Generator().manual_seed(6)
    sizes = torch.randint(1, 1 << 22, (120,), generator=g).tolist()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    live, sums = {}, []
    for i, n in enumerate(sizes):
        with torch.cuda.stream(streams[i % 2]):
            live[i] = torch.arange(n, device="cuda", dtype=torch.int32) * (i + 1)
            if i >= 10:
                old = live.pop(i - 10 + (i % 2) * 0)
                sums.append(old.sum())
        if i % 40 == 39:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    live.clear()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    snap = torch.cuda.memory_snapshot()
    print("churn", digest(torch.stack(sums)), "shrank", torch.cuda.memory_reserved() <= before, "segments", len(snap) > 0)


offloading()
async_offloading()
driver_oom()
find_batch(3 << 30)
churn()
free, total = torch.cuda.mem_get_info()
print("done", 0 < free <= total)
