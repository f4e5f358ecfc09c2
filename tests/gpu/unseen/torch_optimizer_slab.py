# Training with the optimizer's state off the device: master weights and moments of all layers lie end to end in one pinned slab,
# pass layer by layer through a ring of two slots on the device, and are worked on by a CPU thread as soon as a layer has come back,
# while its neighbours on the same pages are still under way. Then tensors in registered files, and weights in hundreds of little pieces.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import mmap
import queue
import tempfile
import threading
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
torch.set_num_threads(1)
DEV, D, TOKENS, LAYERS, BATCH, CLASSES, STEPS = "cuda", 130, 36, 5, 24, 37, 24


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(61, D)
        self.tok = nn.ModuleList(nn.Sequential(nn.Linear(TOKENS, 75), nn.GELU(), nn.Linear(75, TOKENS)) for _ in range(LAYERS))
        self.chan = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(LAYERS))
        self.head = nn.Linear(D, CLASSES)

    def buckets(self):
        yield list(self.inp.parameters())
        for t, c in zip(self.tok, self.chan):
            yield list(t.parameters()) + list(c.parameters())
        yield list(self.head.parameters())

    def forward(self, x):
        x = self.inp(x)
        for t, c in zip(self.tok, self.chan):
            x = x + t(F.layer_norm(x, (D,)).transpose(1, 2)).transpose(1, 2)
            x = x + c(x)
        return self.head(x.mean(1))


class Streamed(torch.optim.Optimizer):
    """AdamW whose state visits the device. The slab holds weights, first and second moments of a bucket, then those of the next."""

    def __init__(self, net, lr):
        self.buckets = list(net.buckets())
        super().__init__([p for b in self.buckets for p in b], {"lr": lr})
        self.n = [sum(p.numel() for p in b) for b in self.buckets]
        self.at = [3 * sum(self.n[:i]) for i in range(len(self.n))]
        self.slab = torch.zeros(3 * sum(self.n)).pin_memory()
        for b, params in enumerate(self.buckets):
            self.slab[self.at[b] : self.at[b] + self.n[b]] = torch.cat([p.detach().cpu().reshape(-1) for p in params])
        self.ring = [torch.zeros(3 * max(self.n), device=DEV) for _ in range(2)]
        self.up, self.down, self.t = torch.cuda.Stream(), torch.cuda.Stream(), 0
        events = lambda k: [torch.cuda.Event() for _ in range(k)]
        self.free, self.here, self.done, self.saved = events(2), events(len(self.n)), events(len(self.n)), events(len(self.n))
        self.ema, self.queue, self.trouble = np.zeros(len(self.slab), np.float32), queue.Queue(), []
        self.worker = threading.Thread(target=self.on_the_cpu, daemon=True)
        self.worker.start()
        torch.cuda.synchronize()

    def part(self, b):
        return self.slab[self.at[b] : self.at[b] + 3 * self.n[b]]

    def on_the_cpu(self):
        """Decay of the weights, an average, and now and then a restart of some moments: in place, in pinned memory."""
        while (item := self.queue.get()) is not None:
            try:
                b, t = item
                self.saved[b].synchronize()
                w, m, v = self.part(b).numpy().reshape(3, -1)
                w *= np.float32(1 - 1e-3)
                if t % 5 == b % 5:
                    m[b :: 97] = 0
                    v[b :: 97] *= np.float32(0.5)
                mean = self.ema[self.at[b] : self.at[b] + self.n[b]]
                mean *= np.float32(0.9)
                mean += np.float32(0.1) * w
            except Exception as e:
                self.trouble.append(type(e).__name__)
            finally:
                self.queue.task_done()

    @torch.no_grad()
    def step(self, closure=None):
        self.queue.join()  # what the step before handed to the CPU is done
        self.t += 1
        cur, lr = torch.cuda.current_stream(), self.param_groups[0]["lr"]
        c1, c2 = 1 - 0.9**self.t, 1 - 0.999**self.t
        for b, params in enumerate(self.buckets):
            slot, part = self.ring[b % 2][: 3 * self.n[b]], self.part(b)
            self.up.wait_event(self.free[b % 2])
            with torch.cuda.stream(self.up):
                slot.copy_(part, non_blocking=True)
                self.here[b].record(self.up)
            cur.wait_event(self.here[b])
            w, m, v = slot.view(3, -1)
            g = torch.cat([p.grad.reshape(-1) for p in params])
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            w.addcdiv_(m / c1, (v / c2).sqrt().add_(1e-8), value=-lr)
            begin = 0
            for p in params:
                p.copy_(w[begin : begin + p.numel()].view_as(p))
                begin += p.numel()
            self.done[b].record(cur)
            self.down.wait_event(self.done[b])
            with torch.cuda.stream(self.down):
                part.copy_(slot, non_blocking=True)
                self.saved[b].record(self.down)
                self.free[b % 2].record(self.down)
            self.queue.put((b, self.t))

    def close(self):
        self.queue.join()
        self.queue.put(None)
        self.worker.join()


def streamed():
    torch.manual_seed(1)
    net = Mixer().to(DEV)
    opt, scaler = Streamed(net, 2e-3), torch.amp.GradScaler("cuda", init_scale=2.0**22, growth_interval=6)
    ring = [(torch.zeros(BATCH, TOKENS, 61).pin_memory(), torch.zeros(BATCH, dtype=torch.int64).pin_memory()) for _ in range(3)]
    used, gen, losses = [torch.cuda.Event() for _ in ring], torch.Generator().manual_seed(2), []
    basis = torch.randn(CLASSES, 1, 61, generator=gen)
    for i in range(STEPS):
        x, y = ring[i % 3]
        used[i % 3].synchronize()
        y.random_(0, CLASSES, generator=gen)
        x.normal_(generator=gen).add_(0.4 * basis[y])
        dx, dy = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
        used[i % 3].record()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(net(dx).float(), dy)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=i % 4 != 3)
        losses.append(loss.detach())
    opt.close()
    torch.cuda.synchronize()
    print("streamed", opt.t, "of", STEPS, "trouble", opt.trouble, round(losses[0].item(), 3), round(losses[-1].item(), 3), digest(torch.stack(losses)))
    print("slab", digest(opt.slab), digest(torch.from_numpy(opt.ema)), digest(*net.parameters()), scaler.get_scale())


def registered():
    """Chunks of mapped memory, registered, go up and come back by plain copies; a file is written behind the mapping's back."""
    rt, size, chunks = torch.cuda.cudart(), 1 << 20, 16
    with tempfile.TemporaryFile() as f:
        f.truncate(size)
        for kind, m in (("anonymous", mmap.mmap(-1, size)), ("a file", mmap.mmap(f.fileno(), size))):
            try:
                host = torch.frombuffer(m, dtype=torch.int32)
                host.copy_(torch.arange(host.numel(), dtype=torch.int32))
                n, streams = host.numel() // chunks, [torch.cuda.Stream() for _ in range(3)]
                dev, sums = torch.zeros(chunks, n, dtype=torch.int32, device=DEV), torch.zeros(chunks, dtype=torch.int64, device=DEV)
                torch.cuda.synchronize()
                for turn in range(5):
                    code = int(rt.cudaHostRegister(host.data_ptr(), size, turn % 2))
                    if code:
                        raise RuntimeError(f"cudaHostRegister {code}")
                    for c in range(chunks):
                        s, part = streams[c % 3], host[c * n : (c + 1) * n]
                        with torch.cuda.stream(s):
                            dev[c].copy_(part, non_blocking=True)
                            dev[c].mul_(3).add_(turn + c).bitwise_xor_(dev[c] >> 7)
                            sums[c] += dev[c].sum()
                            if c % 2:
                                part.copy_(dev[c], non_blocking=True)
                    torch.cuda.synchronize()
                    host[turn :: 1000] = -turn
                    if kind == "a file":
                        os.pwrite(f.fileno(), bytes(range(256)) * 40, 5000 * turn)
                    rt.cudaHostUnregister(host.data_ptr())
                    host[7 :: 4096] += 1  # and while it is not registered
                print(kind, digest(host), sums.sum().item())
            except Exception as e:
                print("skipped:", kind, type(e).__name__, str(e).splitlines()[:1])


def little_pieces():
    """Layers in many little pinned tensors, fetched ahead on a stream of their own into fresh memory, and rewritten by the CPU."""
    gen, copy, cur = torch.Generator().manual_seed(4), torch.cuda.Stream(), torch.cuda.current_stream()
    sizes = [(120, 33 + 4 * (i % 7)) for i in range(80)]
    host = [[(torch.randn(*s, generator=gen) / 11).pin_memory(), torch.zeros(s[1]).pin_memory(), torch.ones(1 + i % 3).pin_memory()] for i, s in enumerate(sizes)]
    x, out = torch.randn(64, 120, generator=gen).to(DEV), []
    torch.cuda.synchronize()

    def fetch(i):
        with torch.cuda.stream(copy):
            there = [t.to(DEV, non_blocking=True) for t in host[i]]
        event = torch.cuda.Event()
        event.record(copy)
        return there, event

    for turn in range(8):
        ahead, h = [fetch(i) for i in range(4)], x
        for i in range(len(sizes)):
            if i + 4 < len(sizes):
                ahead.append(fetch(i + 4))
            there, event = ahead.pop(0)
            cur.wait_event(event)
            w, b, k = there
            h = F.layer_norm(h + torch.tanh(h @ w + b) @ w.t() * k.mean(), (120,))
            for t in there:
                t.record_stream(cur)
            del there, w, b, k
        copy.synchronize()  # all has been read, though not all has been computed
        for i, (w, b, k) in enumerate(host):
            b += 0.01 * (turn + 1) * (-1) ** i
            k.mul_(1.02)
            if i % 8 == turn:
                w.copy_(w.flip(0))
        out.append(h)
        x = h.roll(turn, 0)
    torch.cuda.synchronize()
    print("little pieces", digest(*out))


for part in (streamed, registered, little_pieces):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
