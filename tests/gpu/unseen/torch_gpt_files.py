# The life of a small GPT with files all the way: the corpus is a memory-mapped file read by worker processes, a checkpoint is written in
# the middle and read back through a mapping straight onto the device (the rest is trained twice, to the same bits), gradients and logits
# are copied from the device into a file that is mapped and shared, and rows of that file go up again; then text is sampled from it.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import tempfile
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NAME, TOTAL = "torch_gpt_files", hashlib.sha256()
VOCAB, CONTEXT, WIDTH, HEADS, DEPTH = 96, 128, 256, 8, 4
DEV = "cuda"


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def write_corpus(path, n=200_000):
    """Letters by a table of whole numbers: every letter depends on the two before it, with a little noise."""
    rng = np.random.default_rng(31)
    table, noise = rng.integers(0, VOCAB, (VOCAB, VOCAB)), rng.integers(0, 40, n)
    text = np.memmap(path, np.uint8, "w+", shape=(n,))
    a, b = 1, 2
    for i in range(n):
        a, b = b, int(table[a % 7, b]) if noise[i] else int(noise[i - 1]) + i % 13
        text[i] = b
    text.flush()


class Windows(Dataset):
    def __init__(self, path, count, seed):
        self.path, self.text = path, None
        self.starts = np.random.default_rng(seed).integers(0, 200_000 - CONTEXT - 1, count)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        if self.text is None:  # mapped by each worker for itself
            self.text = np.memmap(self.path, np.uint8, "r")
        piece = torch.from_numpy(self.text[self.starts[i]:self.starts[i] + CONTEXT + 1].astype(np.int64))
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x, cache=None, at=0):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, at:at + t], cache[1][:, :, at:at + t] = k, v
            k, v = cache[0][:, :, :at + t], cache[1][:, :, :at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, dropout_p=0.0)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.05)

    def forward(self, ids, caches=None, at=0):
        x = self.tok(ids) + self.pos(torch.arange(at, at + ids.shape[1], device=ids.device))
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i], at)
        return self.head(self.norm(x))


class Run:
    """All that a training is made of, so that it can be put into a file."""

    def __init__(self):
        self.net = GPT().to(DEV)
        decay = [p for p in self.net.parameters() if p.ndim > 1]
        rest = [p for p in self.net.parameters() if p.ndim <= 1]
        self.opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3,
                                     betas=(0.9, 0.95), fused=True)
        rate = lambda i: min(1.0, (i + 1) / 8) * (0.55 + 0.45 * math.cos(i / 40 * math.pi))
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, rate)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 24, growth_interval=10)  # overflows at first
        self.ema = [p.detach().clone() for p in self.net.parameters()]

    def state(self):
        return {"net": self.net.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                "scaler": self.scaler.state_dict(), "ema": self.ema, "cpu": torch.get_rng_state(), "gpu": torch.cuda.get_rng_state()}

    def restore(self, s):
        self.net.load_state_dict(s["net"])
        self.opt.load_state_dict(s["opt"])
        self.sched.load_state_dict(s["sched"])
        self.scaler.load_state_dict(s["scaler"])
        torch._foreach_copy_(self.ema, s["ema"])
        torch.set_rng_state(s["cpu"].cpu())
        torch.cuda.set_rng_state(s["gpu"].cpu())

    def train(self, batches):
        losses = []
        for i in range(0, len(batches), 2):
            for x, y in batches[i:i + 2]:  # two batches make a step
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(self.net(x).flatten(0, 1).float(), y.flatten())
                self.scaler.scale(loss / 2).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad(set_to_none=True)
            self.sched.step()
            torch._foreach_lerp_(self.ema, list(self.net.parameters()), 0.1)
            losses.append(loss.detach())
        return torch.stack(losses)


def sample(net, dtype, prompt, steps):
    b = prompt.shape[0]
    caches = [[torch.zeros(b, HEADS, CONTEXT, WIDTH // HEADS, device=DEV, dtype=dtype) for _ in range(2)] for _ in range(DEPTH)]
    gen, ids, out = torch.Generator(DEV).manual_seed(8), prompt, []
    with torch.inference_mode():
        for i in range(steps):
            logits = net(ids, caches, 0 if i == 0 else prompt.shape[1] + i - 1)[:, -1].float() / 0.8
            best = logits.topk(12).values[:, -1:]
            ids = torch.multinomial(logits.masked_fill(logits < best, float("-inf")).softmax(-1), 1, generator=gen)
            out.append(ids)
    return torch.cat(out, 1)


def main(folder):
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(77)
    corpus = os.path.join(folder, "corpus.bin")
    write_corpus(corpus)
    loader = DataLoader(Windows(corpus, 16 * 112, 1), 16, num_workers=2, pin_memory=True, persistent_workers=True, prefetch_factor=3,
                        generator=torch.Generator().manual_seed(3))
    batches = [(x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)) for x, y in loader]
    print("batches", len(batches), digest(batches[0][0], batches[-1][1]))

    run = Run()
    first = run.train(batches[:56])
    path = os.path.join(folder, "middle.pt")
    torch.save(run.state(), path)
    second = run.train(batches[56:])
    print("losses %.3f %.3f %.3f scale %g" % (first[0], first[-1], second[-1], run.scaler.get_scale()), digest(first, second))
    whole = digest(*run.net.parameters(), *run.ema)
    for how in (dict(map_location=DEV, mmap=True), dict(map_location="cpu", mmap=True), dict(map_location=DEV)):
        torch.manual_seed(123)  # other weights and another state of the generator, until the file is read
        again = Run()
        again.restore(torch.load(path, weights_only=True, **how))
        same = bool(torch.equal(again.train(batches[56:]), second))
        print("trained again from the file, mapped %s:" % how.get("mmap", False), same,
              digest(*again.net.parameters(), *again.ema) == whole)

    # Logits of 24 batches, each copied from the device into its row of one mapped and shared file.
    rows, size = 24, 16 * CONTEXT * VOCAB
    shared = os.path.join(folder, "logits.bin")
    mapped = torch.from_file(shared, shared=True, size=rows * size, dtype=torch.float16).view(rows, size)
    net = run.net.eval()
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        for i in range(rows):
            mapped[i].copy_(net(batches[i][0]).half().flatten())
            if i % 3 == 2:  # and up again: a row is replaced by the mean of its neighbours
                a, b = mapped[i].to(DEV, non_blocking=True), mapped[i - 2].to(DEV)
                mapped[i - 1].copy_((a + b) / 2)
    with open(shared, "rb") as f:
        raw = f.read()
    TOTAL.update(raw)
    print("file of logits", len(raw), hashlib.sha256(raw).hexdigest()[:16])

    prompt = batches[5][0][:6, :20].contiguous()
    torch._foreach_copy_([p.data for p in net.parameters()], run.ema)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        text = sample(net.to(dtype), dtype, prompt, 70)
        print("sampled in", str(dtype)[6:], text[0, :8].tolist(), digest(text))


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
