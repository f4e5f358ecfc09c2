# Vision transformers taught without labels: threads draw pictures into pinned buffers, crops, blurs and colours are made on the GPU, a
# student with random depth and checkpointed blocks follows an averaged teacher (DINO with Sinkhorn, masked patches), Muon and AdamW; then a
# masked autoencoder in fp16 with a GradScaler, a probe, nearest neighbours, k-means, pruning, graph rewriting by torch.fx, and hooks.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import copy
import hashlib
import io
import queue
import threading
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

NAME, TOTAL, DEV = "torch_vit_selfsup", hashlib.sha256(), "cuda"
SIDE, BATCH, KINDS = 64, 24, 6
STATE = {}


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def picture(seed):
    """A blob, a stripe pattern or a ring, of one of six kinds, on a noisy ground."""
    rng, (y, x) = np.random.default_rng(seed), np.mgrid[:SIDE, :SIDE] / SIDE
    kind, cx, cy = seed % KINDS, *rng.uniform(0.3, 0.7, 2)
    r = np.hypot(x - cx, y - cy)
    shape = (r < 0.2, abs(r - 0.25) < 0.05, (x * 8 + y * 3) % 1 < 0.4, (abs(x - cx) < 0.15) & (abs(y - cy) < 0.15),
             (x * 20 % 2 < 1) ^ (y * 20 % 2 < 1), abs(x - cx) + abs(y - cy) < 0.2)[kind]
    return (shape[..., None] * rng.uniform(90, 200, 3) + rng.integers(0, 50, (SIDE, SIDE, 3))).clip(0, 255).astype(np.uint8)


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.n1, self.n2, self.heads, self.drop = nn.LayerNorm(d), nn.LayerNorm(d), heads, drop
        self.qkv, self.out, self.gate, self.down = (nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False),
                                                    nn.Linear(d, 4 * d, bias=False), nn.Linear(2 * d, d, bias=False))
        self.s1, self.s2 = nn.Parameter(torch.full((d,), 0.1)), nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.s1 * self.out(y)
        a, g = self.gate(self.n2(x)).chunk(2, -1)
        return x + self.s2 * self.down(F.silu(a) * g)


class ViT(nn.Module):
    def __init__(self, d=128, heads=4, depth=4, drop=0.1):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, d, 8, 8), nn.LayerNorm(d)
        self.extra, self.pos, self.hole = (nn.Parameter(torch.randn(s) * 0.02) for s in ((1, 5, d), (8, 8, d), (d,)))  # class, four registers
        self.blocks = nn.ModuleList(Block(d, heads, drop * i / depth) for i in range(depth))

    def place(self, n):  # positions for n x n patches, stretched by two products
        at = (torch.arange(n, device=self.pos.device) + 0.5) * 8 / n - 0.5
        w = (1 - (at[:, None] - torch.arange(8, device=at.device)).abs()).clamp(min=0)
        w = w / w.sum(1, keepdim=True)
        return torch.einsum("ia,jb,abd->ijd", w, w, self.pos).reshape(1, n * n, -1)

    def forward(self, x, mask=None, rng=None):
        x = self.stem(x).flatten(2).mT
        if mask is not None:
            x = torch.where(mask[..., None], self.hole.to(x.dtype), x)
        x = torch.cat((self.extra.expand(len(x), -1, -1), x + self.place(int(x.shape[1] ** 0.5))), 1)
        for b in self.blocks:
            if rng is not None and rng.random() < b.drop:  # the host decides which layers are skipped
                continue
            x = checkpoint(b, x, use_reentrant=False) if self.training else b(x)
        return self.norm(x)


def head(d=128, out=512):
    last = nn.utils.parametrizations.weight_norm(nn.Linear(128, out, bias=False))
    return nn.Sequential(nn.Linear(d, 256), nn.GELU(), nn.Linear(256, 128), last)


def augment(x, size, rng):
    """Parameters are drawn by the host and go up in one piece; then everything is done by the device."""
    n, p = len(x), torch.from_numpy(rng.random((len(x), 8)).astype(np.float32)).pin_memory().to(DEV, non_blocking=True)
    half = 0.35 + 0.6 * p[:, 0] if size == SIDE else 0.2 + 0.2 * p[:, 0]
    flip = torch.where(p[:, 1] < 0.5, 1.0, -1.0)
    theta = torch.zeros(n, 2, 3, device=DEV)
    theta[:, 0, 0], theta[:, 1, 1] = half * flip, half
    theta[:, 0, 2], theta[:, 1, 2] = (1 - half) * (2 * p[:, 2] - 1), (1 - half) * (2 * p[:, 3] - 1)
    x = F.grid_sample(x, F.affine_grid(theta, [n, 3, size, size], align_corners=False), padding_mode="reflection", align_corners=False)
    x = (x - 0.4) * (0.7 + 0.6 * p[:, 4, None, None, None]) + 0.4
    x = torch.where(p[:, 5, None, None, None] < 0.2, x.mean(1, keepdim=True), x)
    k = torch.exp(-torch.linspace(-2, 2, 5, device=DEV).square() / (0.1 + p[:, 6, None]))
    k = (k / k.sum(1, keepdim=True)).repeat_interleave(3, 0)
    y = x.reshape(1, n * 3, size, size)
    y = F.conv2d(F.conv2d(y, k[:, None, None], padding=(0, 2), groups=3 * n), k[:, None, :, None], padding=(2, 0), groups=3 * n)
    return torch.where(p[:, 7, None, None, None] < 0.5, y.view_as(x), x).contiguous(memory_format=torch.channels_last)


def feeder(first, count, out):
    for i in range(count):
        buf = torch.empty(BATCH, SIDE, SIDE, 3, dtype=torch.uint8, pin_memory=True)
        view = buf.numpy()
        for j in range(BATCH):
            view[j] = picture(first + i * BATCH + j)
        out.put(buf)
    out.put(None)


def batches(first, count):
    q = queue.Queue(3)
    t = threading.Thread(target=feeder, args=(first, count, q))
    t.start()
    side, waiting = torch.cuda.Stream(), None
    while True:
        buf = q.get()
        nxt = None
        if buf is not None:
            with torch.cuda.stream(side):
                nxt = buf.to(DEV, non_blocking=True).permute(0, 3, 1, 2).float() / 255, side.record_event()
        if waiting is not None:
            torch.cuda.current_stream().wait_event(waiting[1])
            waiting[0].record_stream(torch.cuda.current_stream())
            yield waiting[0]
        if nxt is None:
            t.join()
            return
        waiting = nxt


@torch.no_grad()
def sinkhorn(x, rounds=3):
    q = torch.exp((x.float() - x.float().amax()) / 0.06).T
    for _ in range(rounds):
        q = q / (q.sum(1, keepdim=True) + 1e-9) / q.shape[0]
        q = q / (q.sum(0, keepdim=True) + 1e-9) / q.shape[1]
    return (q * q.shape[1]).T


def dino():
    torch.manual_seed(1)
    student, shead = ViT().to(DEV, memory_format=torch.channels_last), head().to(DEV)
    teacher, thead = copy.deepcopy(student).eval().requires_grad_(False), copy.deepcopy(shead).requires_grad_(False)
    flat = [p for b in student.blocks for p in b.parameters() if p.ndim == 2]
    rest = [p for p in (*student.parameters(), *shead.parameters()) if all(p is not q for q in flat)]
    opts = [torch.optim.AdamW(rest, lr=1e-3, weight_decay=0.04)]
    if hasattr(torch.optim, "Muon"):
        opts.append(torch.optim.Muon(flat, lr=5e-3, weight_decay=0.01))
    else:
        opts.append(torch.optim.SGD(flat, lr=5e-2, momentum=0.9, nesterov=True))
    rng, losses = np.random.default_rng(2), []
    mine, theirs = [*student.parameters(), *shead.parameters()], [*teacher.parameters(), *thead.parameters()]
    for step, x in enumerate(batches(0, 24)):
        big, small = [augment(x, SIDE, rng) for _ in range(2)], [augment(x, 32, rng) for _ in range(4)]
        mask = torch.from_numpy(rng.random((2 * BATCH, 64)) < 0.3).pin_memory().to(DEV, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            with torch.no_grad():
                t = teacher(torch.cat(big))
                want, patches = sinkhorn(thead(t[:, 0])), sinkhorn(thead(t[:, 5:][mask]))
            s = student(torch.cat(big), mask, rng)
            got = shead(s[:, 0]).float()
            little = shead(student(torch.cat(small), None, rng)[:, 0]).float().view(4, BATCH, -1)
            holes = shead(s[:, 5:][mask]).float()
        ce = lambda a, b: -(a * F.log_softmax(b / 0.1, -1)).sum(-1).mean()
        w1, w2 = want.chunk(2)
        g1, g2 = got.chunk(2)
        z = F.normalize(s[:, 0].float(), dim=-1)
        near = (z @ z.T).fill_diagonal_(-1).argmax(1)
        koleo = -torch.log((z - z[near]).norm(dim=1) + 1e-4).mean()
        loss = ce(w1, g2) + ce(w2, g1) + sum(ce(w, l) for w in (w1, w2) for l in little) / 4 + ce(patches, holes) + 0.05 * koleo
        loss.backward()
        norm = nn.utils.clip_grad_norm_(mine, 3.0)
        for o in opts:
            o.step()
            o.zero_grad()
        torch._foreach_lerp_(theirs, [p.detach() for p in mine], 0.05 if step < 12 else 0.02)
        losses.append(torch.stack((loss.detach(), norm)))
        if step == 11:  # to a file and back
            f = io.BytesIO()
            torch.save({"net": student.state_dict(), "opt": [o.state_dict() for o in opts]}, f)
            f.seek(0)
            kept = torch.load(f, map_location=DEV, weights_only=True)
            student.load_state_dict(kept["net"])
            for o, s in zip(opts, kept["opt"]):
                o.load_state_dict(s)
    path = torch.stack(losses)
    STATE["teacher"] = teacher
    print("dino", bool(torch.isfinite(path).all()), digest(path, *mine, *theirs))


def autoencoder():
    torch.manual_seed(3)
    enc, dec = ViT(96, 4, 3).to(DEV), nn.Sequential(nn.Linear(96, 96), Block(96, 4, 0.0), nn.LayerNorm(96), nn.Linear(96, 192)).to(DEV)
    both, gen = nn.ModuleList((enc, dec)), torch.Generator(DEV).manual_seed(4)
    opt, scaler = torch.optim.Adam(both.parameters(), lr=1e-3), torch.amp.GradScaler("cuda", init_scale=2.0 ** 12, growth_interval=8)
    losses = []
    for x in batches(5000, 16):
        target = F.unfold(x, 8, stride=8).mT
        order = torch.rand(BATCH, 64, device=DEV, generator=gen).argsort(1)
        pick = F.one_hot(order[:, :16], 64).float()  # gathers as products: their gradients are sums in a fixed order
        with torch.autocast("cuda", torch.float16):
            y = pick @ (enc.stem(x).flatten(2).mT + enc.place(8))
            for b in enc.blocks:
                y = checkpoint(b, y, use_reentrant=False)
            back = pick.mT @ enc.norm(y) + (1 - pick.sum(1))[..., None] * enc.hole + enc.place(8)
            out = dec(back).float()
        loss = ((out - target).square().mean(-1) * (1 - pick.sum(1))).sum() / (BATCH * 48)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        losses.append(loss.detach())
    print("autoencoder", bool(losses[-1] < losses[0]), digest(torch.stack(losses), *both.parameters()))


@torch.no_grad()
def evaluation():
    net, seen, feats = STATE["teacher"], [], []
    hooks = [b.register_forward_hook(lambda m, i, o: seen.append(o[:, 0].norm(dim=-1).to("cpu", non_blocking=False))) for b in net.blocks]
    for x in batches(9000, 12):
        feats.append(net(x)[:, 0])
    for h in hooks:
        h.remove()
    z, y = F.normalize(torch.cat(feats), dim=-1), torch.arange(12 * BATCH, device=DEV) % KINDS
    train, test = slice(0, 192), slice(192, None)
    near = torch.cdist(z[test], z[train]).topk(5, largest=False).indices
    vote = F.one_hot(y[train][near], KINDS).sum(1).argmax(1)
    a = torch.cat((z, torch.ones_like(z[:, :1])), 1).double()
    w = torch.linalg.solve(a[train].mT @ a[train] + 1e-3 * torch.eye(129, device=DEV, dtype=torch.float64),
                           a[train].mT @ F.one_hot(y[train], KINDS).double())
    probe = (a[test] @ w).argmax(1)
    c = z[:KINDS].clone()
    for _ in range(10):
        member = F.one_hot((z @ c.T).argmax(1), KINDS).float()
        c = F.normalize(member.T @ z + 1e-6, dim=1)
    torch.manual_seed(6)
    u, s, v = torch.pca_lowrank(z, q=8, niter=3)
    table = F.one_hot(vote, KINDS).T.double() @ F.one_hot(y[test], KINDS).double()
    right = ((probe == y[test]).float().mean().item(), (vote == y[test]).float().mean().item())
    print("evaluation", right[0] > 0.2, len(seen), digest(*seen, near, vote, probe, c, s, table))


def rewriting():
    """A convolutional net is traced, batch norms folded into convolutions, activations replaced, then run node by node."""
    import torch.fx
    from torch.fx.experimental.optimization import fuse
    from torch.nn.utils import prune
    torch.manual_seed(7)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1, bias=False),
                        nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, KINDS)).to(DEV)
    net = net.to(memory_format=torch.channels_last)
    for x in batches(20000, 4):
        net(x)
    net.eval()
    folded = fuse(net)
    traced = torch.fx.symbolic_trace(net)
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nn.ReLU):
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(F.hardswish, (node.args[0],))
                node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.recompile()
    x, steps = next(iter([b for b in batches(30000, 1)])), []

    class Watch(torch.fx.Interpreter):
        def run_node(self, n):
            r = super().run_node(n)
            steps.append(r.float().abs().amax())
            return r

    with torch.no_grad():
        out = [net(x), folded(x), Watch(traced).run(x)]
        net = net.to(memory_format=torch.contiguous_format)
        for m in (net[3], net[8]):
            prune.l1_unstructured(m, "weight", 0.5)
            prune.remove(m, "weight")
        out.append(net(x))
    print("rewriting", torch.allclose(out[0], out[1], atol=1e-2), len(steps), digest(*out, torch.stack(steps)))


torch.use_deterministic_algorithms(True, warn_only=False)  # flash attention's gradient is deterministic only so
torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
for f in (dino, autoencoder, evaluation, rewriting):
    try:
        f()
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))
STATE.clear()
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
