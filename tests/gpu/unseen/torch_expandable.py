# Expandable segments with a memory limit: sequences that grow and shrink, attention that falls back to chunks when it
# runs out of memory, a cache that evicts on failure and tries again, and threads with growing buffers of their own.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import gc
import hashlib
import threading
from collections import OrderedDict
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False
torch.manual_seed(4)
MIB = 1 << 20


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def limit(mib):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(1.0 if mib is None else mib * MIB / total)


def clean():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def grow_and_shrink():
    """A buffer that is doubled and copied as it fills, then cut down again, while small blocks come and go."""
    buf, used, out, small = torch.zeros(1024, dtype=torch.int64, device="cuda"), 0, [], []
    for i in range(70):
        piece = torch.arange(1000 + (i * i * 731) % 300_000, device="cuda") * (i + 1)
        while used + piece.numel() > buf.numel():
            bigger = torch.zeros(buf.numel() * 2, dtype=torch.int64, device="cuda")
            bigger[:used] = buf[:used]
            buf = bigger
        buf[used : used + piece.numel()] = piece
        used += piece.numel()
        small.append(piece[:: i + 1].clone())
        if i % 9 == 8:
            out.append(buf[:used].sum())
            del small[::2]
            torch.cuda.empty_cache()
    while used > 5000:
        used //= 3
        buf = buf[-1 - 2 * used : -1 - used].clone() + buf[:used]
        torch.cuda.empty_cache()
        out.append(buf.sum())
    print("grow and shrink", digest(*out), digest(*small), digest(buf))


def attention(q, k, v, chunk):
    outs = []
    for i in range(0, q.shape[1], chunk):
        s = torch.bmm(q[:, i : i + chunk], k.transpose(1, 2)) * q.shape[-1] ** -0.5
        outs.append(torch.bmm(s.softmax(-1), v))
    return torch.cat(outs, 1)


def chunked():
    """Whole scores would take many gigabytes; the limit lets only small chunks through."""
    limit(2048)
    t, heads, d = 12288, 8, 32
    g = torch.Generator().manual_seed(2)
    q, k, v = [torch.randn(heads, t, d, generator=g).cuda() for _ in range(3)]
    chunk, ways, out = t, [], None
    while out is None:
        try:
            out = attention(q, k, v, chunk)
        except torch.cuda.OutOfMemoryError:
            ways.append(chunk)
        if out is None:  # outside of the handler, so that its traceback holds nothing
            clean()
            chunk //= 4
    print("chunked refused", ways, "took", chunk, digest(out))
    short = [attention(q[:, :n], k[:, :n], v[:, :n], chunk) for n in (100, 900, 300, 1700, 64)]
    print("shorter", digest(*short))
    limit(None)


class Cache:
    """Least recently used tensors are dropped when an allocation fails."""

    def __init__(self):
        self.items, self.evicted = OrderedDict(), 0

    def get(self, key):
        if key in self.items:
            self.items.move_to_end(key)
            return self.items[key]
        while True:
            try:
                t = torch.full((((key * 29) % 60 + 70) * MIB // 4,), key, dtype=torch.int32, device="cuda")
                break
            except torch.cuda.OutOfMemoryError:
                if not self.items:
                    raise
            for _ in range(min(3, len(self.items))):
                self.items.popitem(last=False)
                self.evicted += 1
            torch.cuda.empty_cache()
        self.items[key] = t
        return t


def evicting():
    clean()
    limit(1024)
    cache = Cache()
    for i in range(120):
        t = cache.get((i * i * 3 + i) % 23)
        t[i % 1000] += i  # lost when evicted, as in any cache
        t = None
    torch.cuda.synchronize()
    print("evicting", cache.evicted > 0, "contents", all(int(t[-1]) == k for k, t in cache.items.items()))
    cache.items.clear()
    limit(None)
    clean()


def backward_retry():
    """A training step that fails in the forward or backward pass is done again in halves, summing gradients."""
    limit(1536)
    w = [torch.randn(1024, 1024, generator=torch.Generator().manual_seed(i)).mul_(0.03).cuda().requires_grad_() for i in range(6)]
    tried = []
    for rows in (1000, 150_000, 3000, 90_000, 64):
        parts = 1
        while True:
            ok = True
            try:
                for x in torch.arange(rows, device="cuda", dtype=torch.float32).chunk(parts):
                    h = torch.sin(x[:, None] * torch.arange(1024, device="cuda") / 512)
                    for m in w:
                        h = F.silu(h @ m) + h
                    (h.square().sum() / rows).backward()
            except torch.cuda.OutOfMemoryError:
                ok = False
            h = x = None
            if ok:
                break
            for m in w:
                m.grad = None
            clean()
            parts *= 4
        tried.append((rows, parts > 1))
        with torch.no_grad():
            norm = torch.stack([m.grad.norm() for m in w]).norm()
            for m in w:
                m -= 0.01 * m.grad / norm
                m.grad = None
    print("retried", tried, "finite", all(bool(m.isfinite().all()) for m in w))
    del w, m
    limit(None)
    clean()


def worker(k, results):
    try:
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            parts, sums = [], []
            for i in range(40):
                parts.append(torch.arange(1 + (i * 7919 * (k + 1)) % 900_000, device="cuda", dtype=torch.int32) + k)
                if i % 5 == 4:
                    joined = torch.cat(parts)
                    sums += [joined.sum(), joined[:: k + 2].sum()]
                    parts = parts[-2:] if i % 2 else parts
            results[k] = [int(v) for v in sums]
    except Exception as e:
        results[k] = type(e).__name__


def threads():
    results = [None] * 4
    ts = [threading.Thread(target=worker, args=(k, results)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", hashlib.sha256(repr(results).encode()).hexdigest()[:16])


for part in (grow_and_shrink, chunked, evicting, backward_retry, threads):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
