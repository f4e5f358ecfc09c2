# Small causal transformer trained on a synthetic copy/arithmetic task.
# fp16 autocast + GradScaler first, bf16 autocast afterwards; pinned DataLoader, prefetch on a side stream.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = True
torch.manual_seed(1234)

VOCAB, T, D, HEADS, LAYERS = 97, 64, 128, 4, 3


class Sequences(Dataset):
    """x[i+1] = (a*x[i] + b) mod VOCAB; the model has to guess a and b."""

    def __len__(self):
        return 640

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(1000 + i)
        a, b, x = torch.randint(1, VOCAB, (3,), generator=g).tolist()
        out = []
        for _ in range(T + 1):
            out.append(x)
            x = (a * x + b) % VOCAB
        s = torch.tensor(out)
        return {"x": s[:-1], "y": s[1:], "w": torch.rand(T, generator=g) * 0.2 + 0.9}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(approximate="tanh"), nn.Linear(4 * D, D), nn.Dropout(0.1))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, D))
        return x + self.mlp(self.n2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Parameter(torch.zeros(T, D))
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, VOCAB, bias=False)
        self.head.weight = self.tok.weight  # tied
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, x):
        h = self.tok(x) + self.pos[: x.shape[1]]
        for b in self.blocks:
            h = b(h)
        return self.head(self.norm(h))


class Prefetcher:
    """Copies the next batch to the GPU on its own stream while the model works on this one."""

    def __init__(self, loader):
        self.it, self.stream = iter(loader), torch.cuda.Stream()
        self.fetch()

    def fetch(self):
        batch = next(self.it, None)
        if batch is None:
            self.next = None
            return
        assert all(t.is_pinned() for t in batch.values())
        with torch.cuda.stream(self.stream):
            self.next = {k: t.to("cuda", non_blocking=True) for k, t in batch.items()}
        self.host = batch  # keep the pinned source until the copy has surely run

    def __iter__(self):
        while self.next is not None:
            cur = torch.cuda.current_stream()
            cur.wait_stream(self.stream)
            b = self.next
            for t in b.values():
                t.record_stream(cur)
            self.fetch()
            yield b


def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def lr_at(step, total):
    warm = 4
    return min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * step / total))


def main():
    model = Model().cuda()
    loader = DataLoader(Sequences(), batch_size=64, shuffle=True, num_workers=2, pin_memory=True, drop_last=True,
                        generator=torch.Generator().manual_seed(5), persistent_workers=True)
    for phase, dtype, fused in (("fp16", torch.float16, True), ("bf16", torch.bfloat16, False)):
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01, fused=fused, foreach=None if fused else True)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s, 20))
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24, growth_interval=4, enabled=dtype is torch.float16)
        losses, norms = [], []
        for epoch in range(2):
            for b in Prefetcher(loader):
                opt.zero_grad(set_to_none=True)
                with torch.autocast("cuda", dtype=dtype), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                    logits = model(b["x"])
                    loss = F.cross_entropy(logits.flatten(0, 1).float(), b["y"].flatten(), reduction="none")
                    loss = (loss * b["w"].flatten()).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
                scaler.step(opt)
                scaler.update()
                sched.step()
                losses.append(loss.detach())
        ls = torch.stack(losses).cpu()
        print(phase, "steps", len(ls), "loss %.5f -> %.5f" % (ls[0], ls[-1]), "scale", scaler.get_scale(),
              "norms", digest([torch.stack(norms)]), "weights", digest(model.parameters()))
    model.eval()
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        x = Sequences()[3]["x"][None].cuda()
        print("predicted", digest([model(x).argmax(-1)]))


if __name__ == "__main__":
    main()
