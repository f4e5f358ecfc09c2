# Fine-tuning with little memory: LoRA adapters in mixed precision with a GradScaler, checkpointed layers, activations saved
# to pinned memory, gradients that hooks send to the CPU while the backward pass goes on, an optimizer on the CPU in a thread
# of its own that sends weights back layer by layer; merging, swapping and unmerging of adapters; allocator settings.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "garbage_collection_threshold:0.6,max_split_size_mb:32,roundup_power2_divisions:4"
import hashlib
import math
import queue
import threading
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
torch.set_num_threads(1)
torch.cuda.set_per_process_memory_fraction(0.5)
DEV, D, LAYERS, T, B, CLASSES, RANK = "cuda", 384, 6, 64, 16, 50, 8


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class LoRA(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.base = nn.Parameter(torch.randn(o, i) / math.sqrt(i), requires_grad=False)
        self.a, self.b = nn.Parameter(torch.randn(RANK, i) / math.sqrt(i)), nn.Parameter(torch.zeros(o, RANK))
        self.merged = False

    def forward(self, x):
        y = F.linear(x, self.base)
        return y if self.merged else y + F.linear(F.linear(x, self.a), self.b) * 2.0

    @torch.no_grad()
    def merge(self, sign=1):
        self.base.add_(self.b @ self.a, alpha=2.0 * sign)
        self.merged = sign > 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out, self.up, self.down = LoRA(D, 3 * D), LoRA(D, D), LoRA(D, 2 * D), LoRA(2 * D, D)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).view(*x.shape[:2], 3, 6, D // 6).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-1, -2) / 8).softmax(-1)
        x = x + self.out((s @ v).transpose(1, 2).reshape_as(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Net(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode, self.blocks, self.head = mode, nn.ModuleList(Block() for _ in range(LAYERS)), nn.Linear(D, CLASSES)

    def forward(self, x):
        for i, b in enumerate(self.blocks):
            if self.mode == "checkpoint" or self.mode == "both" and i % 2:
                x = checkpoint(b, x, use_reentrant=False)
            elif self.mode in ("offload", "both"):
                with save_on_cpu(pin_memory=True):
                    x = b(x)
            else:
                x = b(x)
        return self.head(x.mean(1))


def batch(gen, pinned_x, pinned_y):
    y = torch.randint(0, CLASSES, (B,), generator=gen)
    x = torch.randn(B, T, D, generator=gen) * 0.5 + torch.linspace(-1, 1, CLASSES)[y][:, None, None]
    pinned_x.copy_(x)
    pinned_y.copy_(y)


class CpuAdam(threading.Thread):
    """Gradients arrive in pinned memory while backward runs; the new weights go up on a stream of this thread."""

    def __init__(self, params, rate):
        super().__init__(daemon=True)
        self.params, self.rate, self.jobs, self.t = params, rate, queue.Queue(), 0
        self.master = [p.detach().float().cpu().clone() for p in params]
        self.state = [(torch.zeros_like(m), torch.zeros_like(m)) for m in self.master]
        self.grads = [torch.zeros_like(m).pin_memory() for m in self.master]
        self.staging = [torch.zeros_like(m).pin_memory() for m in self.master]
        self.down, self.up = torch.cuda.Stream(), torch.cuda.Stream()
        self.arrived, self.uploaded = [torch.cuda.Event() for _ in params], torch.cuda.Event()
        self.ready = threading.Event()
        for i, p in enumerate(params):
            p.register_post_accumulate_grad_hook(lambda p, i=i: self.send(i, p))
        self.last, self.scale = False, 1.0
        self.start()

    def send(self, i, p):
        if self.last:  # the last micro-batch of a step
            self.down.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.down):
                self.grads[i].copy_(p.grad, non_blocking=True)
            p.grad.record_stream(self.down)
            self.arrived[i].record(self.down)
            p.grad = None
            self.jobs.put(i)

    def run(self):
        todo = len(self.params)
        while (i := self.jobs.get()) is not None:
            if todo == len(self.params):
                self.t += 1
            self.arrived[i].synchronize()
            g, (m, v), w = self.grads[i] / self.scale, self.state[i], self.master[i]
            if bool(torch.isfinite(g).all()):
                m.lerp_(g, 0.1)
                v.mul_(0.99).addcmul_(g, g, value=0.01)
                w.addcdiv_(m / (1 - 0.9**self.t), (v / (1 - 0.99**self.t)).sqrt_().add_(1e-6), value=-self.rate)
            self.staging[i].copy_(w)
            todo -= 1
            if todo == 0:  # all at once, when backward no longer reads the weights
                self.up.wait_stream(self.down)
                with torch.cuda.stream(self.up), torch.no_grad():
                    for p, s in zip(self.params, self.staging):
                        p.copy_(s, non_blocking=True)
                self.uploaded.record(self.up)
                todo = len(self.params)
                self.ready.set()


def train(mode, cpu_optimizer, steps=8, accumulate=2):
    torch.manual_seed(3)
    net = Net(mode).to(DEV)
    params = [p for p in net.parameters() if p.requires_grad]
    gen, losses = torch.Generator().manual_seed(9), []
    px, py = [torch.zeros(B, T, D).pin_memory() for _ in range(2)], [torch.zeros(B, dtype=torch.int64).pin_memory() for _ in range(2)]
    used, n = [torch.cuda.Event(), torch.cuda.Event()], 0
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**17, growth_interval=3)
    adam = CpuAdam(params, 2e-3) if cpu_optimizer else torch.optim.AdamW(params, lr=2e-3, fused=True)
    for step in range(steps):
        for micro in range(accumulate):
            k = n % 2
            used[k].synchronize()
            batch(gen, px[k], py[k])
            x, y = px[k].to(DEV, non_blocking=True), py[k].to(DEV, non_blocking=True)
            used[k].record()
            n += 1
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(net(x).float(), y) / accumulate
            if cpu_optimizer:
                adam.last, adam.scale = micro == accumulate - 1, 256.0
                (loss * 256.0).backward()
            else:
                scaler.scale(loss).backward()
            losses.append(loss.detach())
        if cpu_optimizer:
            adam.ready.wait()
            adam.ready.clear()
            torch.cuda.current_stream().wait_event(adam.uploaded)
        else:
            scaler.unscale_(adam)
            nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
            scaler.step(adam)
            scaler.update()
            adam.zero_grad(set_to_none=True)
    if cpu_optimizer:
        adam.jobs.put(None)
        adam.join()
    losses = torch.stack(losses).tolist()
    print(mode, "cpu adam" if cpu_optimizer else "scale %g" % scaler.get_scale(), "%.4f -> %.4f" % (losses[0], losses[-1]), digest(*params))
    return net


def adapters(net):
    """Adapters are merged, taken out again, kept in pinned memory and swapped in on a side stream between requests."""
    mods = [m for m in net.modules() if isinstance(m, LoRA)]
    library = []
    for k in range(3):
        g = torch.Generator().manual_seed(40 + k)
        library.append([(torch.randn(m.a.shape, generator=g).mul_(0.05).pin_memory(), torch.randn(m.b.shape, generator=g).mul_(0.05).pin_memory()) for m in mods])
    side, x, out = torch.cuda.Stream(), torch.randn(4, T, D, generator=torch.Generator().manual_seed(2)).to(DEV), []
    with torch.no_grad():
        for turn in range(9):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for m, (a, b) in zip(mods, library[turn % 3]):
                    m.a.copy_(a, non_blocking=True)
                    m.b.copy_(b, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            for m in mods:
                m.merge(1)
            out.append(net(x))
            for m in mods:
                m.merge(-1)
            out.append(net(x))
            if turn % 3 == 2:  # the pinned adapters are changed in place once nothing is under way
                torch.cuda.synchronize()
                for a, b in library[turn % 2]:
                    a.mul_(-1)
                    b.copy_(b.roll(1, 0))
    print("adapters", digest(*out))


def compressed():
    """Saved tensors packed to halves on the device, kept on the host in a ring of pinned slots, fetched back ahead of time."""
    torch.manual_seed(8)
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(8)).to(DEV)
    down, slots, free = torch.cuda.Stream(), [torch.zeros(128 * 512, dtype=torch.float16).pin_memory() for _ in range(24)], []
    free.extend(range(24))

    def pack(t):
        if t.numel() != 128 * 512 or not t.is_cuda or t.dtype != torch.float32:
            return t
        k, half = free.pop(), t.detach().half()
        down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(down):
            slots[k].view_as(half).copy_(half, non_blocking=True)
        half.record_stream(down)
        return k, t.shape

    def unpack(s):
        if isinstance(s, torch.Tensor):
            return s
        torch.cuda.current_stream().wait_stream(down)
        return slots[s[0]].view(s[1]).to(DEV, non_blocking=True).float()

    opt = torch.optim.SGD(layers.parameters(), lr=0.05, momentum=0.9, foreach=True)
    for step in range(10):
        x = torch.randn(128, 512, generator=torch.Generator().manual_seed(step)).to(DEV)
        h = x
        with saved_tensors_hooks(pack, unpack):
            for layer in layers:
                h = h + torch.tanh(layer(h))
            loss = (h - x.roll(1, 1)).square().mean()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        torch.cuda.synchronize()  # then every slot is free again
        free[:] = range(24)
    print("compressed", round(loss.item(), 4), digest(*layers.parameters()))


net = None
for mode, cpu in (("plain", False), ("checkpoint", False), ("offload", False), ("both", True), ("plain", True)):
    try:
        net = train(mode, cpu)
    except Exception as e:
        print("skipped:", mode, cpu, type(e).__name__, str(e).splitlines()[:1])
    torch.cuda.empty_cache()
for part, args in ((adapters, (net,)), (compressed, ())):
    try:
        part(*args)
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
