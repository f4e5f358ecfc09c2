# Layers beside the usual ones, each trained a little: grouped, transposed, dilated and three-dimensional convolutions, packed recurrent
# nets, bags of embeddings, spectral and factorising layers, per-sample gradients; batches come from worker processes by a pinning thread,
# backward passes run in several threads at once on streams of their own, and gradients go between streams without the host waiting.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import queue
import threading
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
torch.set_num_threads(1)
DEV = "cuda"


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Volumes(Dataset):
    """Small volumes with a label, and a bag of words of varying length."""

    def __len__(self):
        return 96

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(1000 + i)
        label = i % 6
        x = torch.randn(4, 10, 12, 14, generator=g)
        x[:, :, label : label + 3] += 1
        words = torch.randint(0, 200, (3 + i % 9,), generator=g)
        return x, words, torch.rand(len(words), generator=g), label


def collate(items):
    x, words, weight, label = zip(*items)
    lengths = torch.tensor([len(w) for w in words])
    return torch.stack(x), torch.cat(words), torch.cat(weight), F.pad(lengths.cumsum(0), (1, 0))[:-1], torch.tensor(label)


class VolumeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv3d(4, 16, 3, padding=1)
        self.group = nn.Conv3d(16, 32, (3, 1, 3), padding=(1, 0, 1), groups=4, stride=(1, 2, 2))
        self.depth = nn.Conv3d(32, 32, 3, padding=2, dilation=2, groups=32)
        self.up = nn.ConvTranspose3d(32, 16, 3, stride=2, padding=1, output_padding=(0, 1, 0))
        self.norm = nn.ModuleList((nn.BatchNorm3d(16), nn.GroupNorm(8, 32), nn.BatchNorm3d(32), nn.InstanceNorm3d(16, affine=True)))
        self.bag, self.head = nn.EmbeddingBag(200, 16, mode="sum"), nn.Linear(32, 6)

    def forward(self, x, words, weight, offsets):
        x = F.silu(self.norm[0](self.inp(x)))
        x = F.silu(self.norm[1](self.group(x)))
        x = F.silu(x + self.norm[2](checkpoint(self.depth, x, use_reentrant=False)))
        x = self.norm[3](self.up(x))
        return self.head(torch.cat([x.flatten(2).square().mean(2), self.bag(words, offsets, per_sample_weights=weight)], 1))


def volumes():
    torch.manual_seed(1)
    net = VolumeNet().to(DEV, memory_format=torch.channels_last_3d)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    order = torch.Generator().manual_seed(7)
    loader = DataLoader(Volumes(), batch_size=16, shuffle=True, generator=order, num_workers=2, pin_memory=True, collate_fn=collate,
                        persistent_workers=True, prefetch_factor=3)
    losses = []
    for epoch in range(3):
        for batch in loader:
            x, words, weight, offsets, label = (t.to(DEV, non_blocking=True) for t in batch)
            with torch.autocast("cuda", torch.bfloat16):
                out = net(x.to(memory_format=torch.channels_last_3d), words, weight, offsets)
            loss = F.cross_entropy(out.float(), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.detach())
    print("volumes", digest(torch.stack(losses)), digest(*net.parameters()), digest(*net.buffers()))


def planes():
    """An autoencoder by transposed convolutions, with data that the device makes; replayed from a saved state."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.Hardswish(), nn.Conv2d(24, 48, 3, 2, 1, groups=3), nn.BatchNorm2d(48), nn.Hardswish(),
                        nn.Conv2d(48, 48, 3, 1, 3, dilation=3, groups=48), nn.Conv2d(48, 64, 1), nn.PixelShuffle(2), nn.Dropout2d(0.1),
                        nn.ConvTranspose2d(16, 12, 4, 2, 1, groups=2), nn.Mish(), nn.ConvTranspose2d(12, 3, 3, 1, 1)).to(DEV)
    opt, scaler = torch.optim.NAdam(net.parameters(), lr=2e-3, foreach=True), torch.amp.GradScaler("cuda", init_scale=256.0)
    gen, seen, saved = torch.Generator(DEV).manual_seed(3), [], None
    for i in range(18):
        if i == 6:
            saved = [{k: v.clone() for k, v in net.state_dict().items()}, gen.get_state(), torch.cuda.get_rng_state()]
        if i == 12:  # the weights of then, but what the optimizer knows of now
            net.load_state_dict(saved[0])
            gen.set_state(saved[1])
            torch.cuda.set_rng_state(saved[2])
        x = F.interpolate(torch.rand(8, 3, 8, 8, device=DEV, generator=gen), scale_factor=4, mode="nearest")
        with torch.autocast("cuda", torch.float16):
            y = net(x)
        loss = (y.float() - x).square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        seen.append(loss.detach())
    print("planes", digest(torch.stack(seen)), digest(*net.parameters()))


def recurrent():
    """Packed sequences through stacked, bidirectional and projecting nets; the state is carried on from batch to batch."""
    torch.manual_seed(4)
    lstm, gru, proj = (m.to(DEV) for m in (nn.LSTM(20, 48, 2, bidirectional=True, batch_first=True), nn.GRU(96, 40, batch_first=True),
                                           nn.LSTM(40, 64, proj_size=24, batch_first=True)))
    head, seen, carry = nn.Linear(24, 5).to(DEV), [], None
    params = [p for m in (lstm, gru, proj, head) for p in m.parameters()]
    opt = torch.optim.RMSprop(params, lr=2e-3, momentum=0.5)
    for i in range(10):
        g = torch.Generator().manual_seed(i)
        lengths = torch.randint(3, 18, (12,), generator=g)
        lengths[i % 12] = 18  # so that all batches are of one length
        x = torch.randn(12, 18, 20, generator=g).pin_memory().to(DEV, non_blocking=True)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, last = lstm(packed)
        h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True)
        h, carry = gru(h, carry)
        carry = carry.detach()
        h, _ = proj(h)
        loss = F.cross_entropy(head(h[:, -1]), (x.mean((1, 2)) * 200).long().clamp(0, 4)) + last[0].square().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        seen.append(loss.detach())
    with torch.no_grad():
        lstm.flatten_parameters()
        out = lstm(torch.ones(2, 30, 20, device=DEV))[0]
    print("recurrent", digest(torch.stack(seen), carry), digest(out), digest(*params))


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8, 9, dtype=torch.complex64) / 8)
        self.a = nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x):  # batch x 8 x 40
        f = torch.fft.rfft(x)
        y = torch.fft.irfft(F.pad(torch.einsum("bik,iok->bok", f[..., :9], self.w), (0, f.shape[-1] - 9)), n=x.shape[-1])
        c = torch.linalg.cholesky(self.a @ self.a.t() + 2 * torch.eye(8, device=x.device))
        q = torch.linalg.solve_triangular(c, y, upper=False)
        return torch.tanh(x + q) + 0.1 * torch.linalg.slogdet(self.a + 3 * torch.eye(8, device=x.device))[1]


def per_sample():
    """Gradients of each sample, clipped and summed (private training); Hessian products for a few steps of Newton's method."""
    from torch.func import functional_call, grad, jvp, vmap
    torch.manual_seed(5)
    net = nn.Sequential(Spectral(), nn.Flatten(), nn.Linear(320, 3)).to(DEV)
    params, seen = {k: v.detach().clone() for k, v in net.named_parameters()}, []

    def loss(p, x, y):
        return F.cross_entropy(functional_call(net, p, (x[None],)), y[None])

    for i in range(6):
        g = torch.Generator().manual_seed(i)
        x, y = torch.randn(24, 8, 40, generator=g).to(DEV), torch.randint(0, 3, (24,), generator=g).to(DEV)
        grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
        norm = torch.sqrt(sum(v.abs().square().flatten(1).sum(1) for v in grads.values()))
        scale = (1 / norm.clamp(min=1.0))
        step = {k: (v * scale.view(-1, *[1] * (v.dim() - 1))).sum(0) / len(x) for k, v in grads.items()}
        params = {k: v - 0.5 * step[k] for k, v in params.items()}
        seen += [norm] + list(params.values())
    small = torch.randn(30, device=DEV, generator=torch.Generator(DEV).manual_seed(6))
    f = lambda v: (torch.cosh(v * 0.3) * 2 + (v - v.roll(1)).square()).sum()
    for _ in range(3):
        h = torch.stack([jvp(grad(f), (small,), (e,))[1] for e in torch.eye(30, device=DEV)])
        small = small - torch.linalg.solve(h, grad(f)(small))
    print("per sample", digest(*seen), digest(small))


def threads():
    """Four threads take gradients of one set of weights by micro-batches; they are added in the order of the micro-batches."""
    torch.manual_seed(6)
    net = nn.Sequential(nn.Conv1d(6, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, 32, 3, padding=1, groups=8), nn.GELU(), nn.Flatten(),
                        nn.Linear(32 * 30, 64), nn.GELU(), nn.Linear(64, 7)).to(DEV)
    params, main = list(net.parameters()), torch.cuda.current_stream()
    opt = torch.optim.Adam(params, lr=3e-3, amsgrad=True)
    streams, todo, ready = [torch.cuda.Stream() for _ in range(4)], [queue.Queue() for _ in range(4)], queue.Queue()
    go, trouble = torch.cuda.Event(), []

    def worker(k):
        while (item := todo[k].get()) is not None:
            try:
                host, label = item
                with torch.cuda.stream(streams[k]):
                    streams[k].wait_event(go)  # the weights of this step
                    x, y = host.to(DEV, non_blocking=True), label.to(DEV, non_blocking=True)
                    loss = F.cross_entropy(checkpoint(net, x, use_reentrant=False, preserve_rng_state=False), y)
                    grads = torch.autograd.grad(loss, params)
                    done = torch.cuda.Event()
                    done.record(streams[k])
                ready.put((k, loss.detach(), grads, done))
                del loss, grads
            except Exception as e:
                trouble.append(type(e).__name__)
                ready.put((k, None, None, None))

    ts = [threading.Thread(target=worker, args=(k,), daemon=True) for k in range(4)]
    for t in ts:
        t.start()
    gen, seen = torch.Generator().manual_seed(8), []
    for i in range(20):
        go.record(main)
        for k in range(4):
            todo[k].put((torch.randn(8, 6, 30, generator=gen).pin_memory(), torch.randint(0, 7, (8,), generator=gen).pin_memory()))
        got = sorted((ready.get() for _ in range(4)), key=lambda r: r[0])
        if trouble:
            break
        for _, loss, grads, done in got:
            main.wait_event(done)
            for t in (loss, *grads):
                t.record_stream(main)
        for j, p in enumerate(params):
            p.grad = sum(g[j] for _, _, g, _ in got) / 4
        opt.step()
        seen.append(torch.stack([loss for _, loss, _, _ in got]))
        del got, loss, grads
    for q in todo:
        q.put(None)
    for t in ts:
        t.join()
    torch.cuda.synchronize()
    print("threads", trouble, digest(*seen), digest(*params))


if __name__ == "__main__":
    for part in (volumes, planes, recurrent, per_sample, threads):
        try:
            part()
        except Exception as e:
            print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
    torch.cuda.synchronize()
