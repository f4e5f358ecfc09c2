# Mixed-precision training: a prefetch thread with a ring of pinned buffers and its own copy stream (record_stream),
# gradient accumulation, GradScaler with a provoked overflow, clipping, two optimizers (Adam fused, SGD foreach), and
# a checkpoint in memory from which the second half is trained again to the same bits.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import io
import queue
import threading
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
B, SIDE, CLASSES, ACCUM, STEPS = 64, 24, 10, 3, 20


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def make_batch(i):
    r = np.random.default_rng(7000 + i)
    y = r.integers(0, CLASSES, B)
    x = r.standard_normal((B, 3, SIDE, SIDE), dtype=np.float32)
    x[np.arange(B), y % 3, y, :] += 2.0
    if i == 14:
        x *= np.float32(3e6)  # overflows in half precision
    return x, y


class Prefetcher:
    def __init__(self, first, last, slots=4):
        self.q, self.stream, self.range = queue.Queue(maxsize=2), torch.cuda.Stream(), range(first, last)
        self.ring = [(torch.empty(B, 3, SIDE, SIDE, pin_memory=True), torch.empty(B, dtype=torch.int64, pin_memory=True),
                      torch.cuda.Event()) for _ in range(slots)]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            for n, i in enumerate(self.range):
                xb, yb, free = self.ring[n % len(self.ring)]
                x, y = make_batch(i)
                if n >= len(self.ring):
                    free.synchronize()  # the upload that last read this slot
                xb.numpy()[...] = x
                yb.numpy()[...] = y
                with torch.cuda.stream(self.stream):
                    xd, yd = xb.to("cuda", non_blocking=True), yb.to("cuda", non_blocking=True)
                    free.record(self.stream)
                    ready = torch.cuda.Event()
                    ready.record(self.stream)
                self.q.put((xd, yd, ready))
            self.q.put(None)
        except Exception as e:
            self.q.put(e)

    def __iter__(self):
        while (item := self.q.get()) is not None:
            if isinstance(item, Exception):
                raise item
            x, y, ready = item
            cur = torch.cuda.current_stream()
            cur.wait_event(ready)
            x.record_stream(cur)
            y.record_stream(cur)
            yield x, y
        self.thread.join()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, 2, 1), nn.Conv2d(64, 64, 3, 2, 1)])
        self.norm = nn.ModuleList([nn.GroupNorm(8, c) for c in (32, 64, 64)])
        self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, CLASSES))

    def forward(self, x):
        for c, n in zip(self.conv, self.norm):
            x = F.silu(n(c(x)))
        return self.mlp(x.mean((2, 3)))


class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.net = Net().cuda()
        self.opts = {"adam": torch.optim.Adam(self.net.mlp.parameters(), lr=2e-3, fused=True),
                     "sgd": torch.optim.SGD([*self.net.conv.parameters(), *self.net.norm.parameters()], lr=0.02,
                                            momentum=0.9, nesterov=True, foreach=True)}
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opts["sgd"], STEPS)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 12, growth_interval=4)
        self.parts = {"net": self.net, **self.opts, "sched": self.sched, "scaler": self.scaler}

    def save(self):
        buf = io.BytesIO()
        torch.save({"parts": {k: p.state_dict() for k, p in self.parts.items()}, "cpu": torch.get_rng_state(),
                    "cuda": torch.cuda.get_rng_state()}, buf)
        return buf.getvalue()

    def load(self, raw):
        ck = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=False)
        for k, p in self.parts.items():
            p.load_state_dict(ck["parts"][k])
        torch.set_rng_state(ck["cpu"])
        torch.cuda.set_rng_state(ck["cuda"])

    def run(self, first, last):
        losses, norms, scales, total = [], [], [], 0.0
        for n, (x, y) in enumerate(Prefetcher(first * ACCUM, last * ACCUM)):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(self.net(x).float(), y, label_smoothing=0.05) / ACCUM
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
            if n % ACCUM == ACCUM - 1:
                for o in self.opts.values():
                    self.scaler.unscale_(o)
                norms.append(torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0))
                for o in self.opts.values():
                    self.scaler.step(o)
                    o.zero_grad(set_to_none=True)
                self.scaler.update()
                self.sched.step()
                losses.append(total)
                scales.append(self.scaler.get_scale())
                total = 0.0
        return losses, norms, scales


a = Trainer(3)
l1, n1, s1 = a.run(0, STEPS // 2)
saved = a.save()
l2, n2, s2 = a.run(STEPS // 2, STEPS)
print("losses", " ".join("%.4f" % v.item() for v in l1[:3] + l2[-3:]), "norms", digest(*n1, *n2))
print("scales", [int(s) for s in s1 + s2])
print("weights", digest(*a.net.parameters()), "momenta", digest(*[v for o in a.opts.values() for s in o.state_dict()["state"].values()
                                                                 for v in s.values() if isinstance(v, torch.Tensor)]))
b = Trainer(99)
b.load(saved)
b.run(STEPS // 2, STEPS)
print("continued", digest(*b.net.parameters()), all(torch.equal(p, q) for p, q in zip(a.net.parameters(), b.net.parameters())))
a.net.eval()
with torch.no_grad():
    right = sum((a.net(torch.from_numpy(x).cuda()).argmax(1) == torch.from_numpy(y).cuda()).sum() for x, y in map(make_batch, range(500, 504)))
print("right", int(right), "of", 4 * B)
