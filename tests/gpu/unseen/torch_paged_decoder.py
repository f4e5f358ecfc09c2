# A small language model as servers run it: rotary positions, keys and values in preallocated pages with a block table
# (paged attention by gathering), sequences that come and go, top-k sampling by a generator on the GPU, and a draft
# model whose guesses are verified by the big one.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
VOCAB, PAGE, PAGES, MAXP, SLOTS = 500, 16, 96, 12, 6


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Pages:
    """Page numbers are given out and taken back by the CPU; the tables go to the GPU when they changed."""

    def __init__(self):
        self.free, self.tables = list(range(PAGES - 1, 0, -1)), [[] for _ in range(SLOTS)]  # page 0: for idle slots
        self.host, self.dev = torch.zeros(SLOTS, MAXP, dtype=torch.int64).pin_memory(), torch.zeros(SLOTS, MAXP, dtype=torch.int64, device="cuda")
        self.copied = torch.cuda.Event()

    def reserve(self, slot, length):
        while len(self.tables[slot]) * PAGE < length:
            self.tables[slot].append(self.free.pop())

    def release(self, slot):
        self.free += self.tables[slot]
        self.tables[slot] = []

    def sync(self):
        self.copied.synchronize()  # the last upload is through with the pinned table
        self.host.zero_()
        for s, t in enumerate(self.tables):
            self.host[s, : len(t)] = torch.tensor(t, dtype=torch.int64)
        self.dev.copy_(self.host, non_blocking=True)
        self.copied.record()
        return self.dev


class Model:
    def __init__(self, seed, layers, d, heads):
        g = torch.Generator().manual_seed(seed)
        n = lambda a, b: (torch.randn(a, b, generator=g) / math.sqrt(a)).cuda()
        self.d, self.heads, self.hd = d, heads, d // heads
        self.emb, self.head = (torch.randn(VOCAB, d, generator=g)).cuda(), n(d, VOCAB)
        self.layers = [(n(d, 3 * d), n(d, d), n(d, 4 * d), n(2 * d, d)) for _ in range(layers)]
        self.kv = [torch.zeros(2, PAGES, PAGE, heads, self.hd, device="cuda") for _ in range(layers)]
        f = 10000.0 ** (-torch.arange(0, self.hd, 2, device="cuda") / self.hd)
        ang = torch.arange(PAGE * MAXP, device="cuda")[:, None] * f
        self.cos, self.sin = ang.cos(), ang.sin()

    def rotary(self, x, pos):  # slots, t, heads, hd
        a, b = x.chunk(2, -1)
        c, s = self.cos[pos][:, :, None], self.sin[pos][:, :, None]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def forward(self, tok, pos, table):
        """Writes tok at pos (both slots x t) and returns the logits after each."""
        n, t = tok.shape
        page, off = table.gather(1, pos // PAGE), pos % PAGE
        x = self.emb[tok]
        where = torch.arange(PAGE * MAXP, device="cuda")
        visible = where[None, None, :] <= pos[:, :, None]
        for (wqkv, wo, up, down), kv in zip(self.layers, self.kv):
            h = F.layer_norm(x, (self.d,))
            q, k, v = (h @ wqkv).view(n, t, 3, self.heads, self.hd).unbind(2)
            q, k = self.rotary(q, pos), self.rotary(k, pos)
            kv[0].index_put_((page, off), k)
            kv[1].index_put_((page, off), v)
            ks = kv[0][table].flatten(1, 2).permute(0, 2, 3, 1)  # slots, heads, hd, positions
            vs = kv[1][table].flatten(1, 2).transpose(1, 2)
            s = (q.transpose(1, 2) @ ks) / math.sqrt(self.hd)
            a = s.masked_fill(~visible[:, None], -1e9).softmax(-1) @ vs
            x = x + a.transpose(1, 2).reshape(n, t, self.d) @ wo
            g, u = (F.layer_norm(x, (self.d,)) @ up).chunk(2, -1)
            x = x + (F.silu(g) * u) @ down
        return F.layer_norm(x, (self.d,)) @ self.head


def sample(logits, gen, k=20, temp=0.9):
    v, i = (logits / temp).topk(k, -1)
    p = v.softmax(-1)
    noise = torch.empty_like(p).exponential_(generator=gen)
    return i.gather(-1, (p / noise).argmax(-1, keepdim=True))


@torch.inference_mode()
def continuous():
    """Slots are filled with new prompts as sequences end, so pages move from one sequence to the next."""
    model, pages, gen = Model(1, 3, 96, 4), Pages(), torch.Generator("cuda").manual_seed(77)
    prompts = torch.Generator().manual_seed(5)
    tok, length = torch.zeros(SLOTS, 1, dtype=torch.int64, device="cuda"), [0] * SLOTS
    texts, owner, logs = [], [None] * SLOTS, []
    for step in range(90):
        for s in range(SLOTS):
            if owner[s] is None and len(texts) < 14:
                p = torch.randint(0, VOCAB, (1, int(torch.randint(4, 60, (1,), generator=prompts))), generator=prompts)
                owner[s], length[s] = len(texts), p.shape[1]
                texts.append(p[0].tolist())
                pages.reserve(s, length[s] + 1)
                pos = torch.arange(length[s], device="cuda")[None]
                logits = model.forward(p.cuda(), pos, pages.sync()[s : s + 1])  # prefill
                tok[s] = sample(logits[:, -1], gen)[0]
        for s in range(SLOTS):
            if owner[s] is not None:
                pages.reserve(s, length[s] + 1)
        pos = torch.tensor(length).pin_memory().to("cuda", non_blocking=True)[:, None]
        host = tok.tolist()
        logits = model.forward(tok, pos, pages.sync())
        tok = sample(logits[:, -1], gen)
        logs.append(logits[:, -1].amax(-1))
        for s in range(SLOTS):
            if owner[s] is None:
                continue
            texts[owner[s]].append(host[s][0])
            length[s] += 1
            if host[s][0] % 23 == 0 or length[s] >= PAGE * MAXP - 2:
                pages.release(s)
                owner[s], length[s] = None, 0
    idle = torch.tensor([o is None for o in owner])
    print("continuous", len(texts), "texts, lengths", [len(t) for t in texts], hashlib.sha256(repr(texts).encode()).hexdigest()[:16])
    print("peaks", digest(*[l.cpu()[~idle] for l in logs]), "pages left", len(pages.free))


@torch.inference_mode()
def speculative():
    big, small, pages, gen = Model(1, 3, 96, 4), Model(2, 1, 32, 2), Pages(), torch.Generator("cuda").manual_seed(9)
    small.head.mul_(0.3)
    big.head.mul_(0.3)  # flatter, so that guesses are sometimes taken
    text = torch.randint(0, VOCAB, (20,), generator=torch.Generator().manual_seed(8)).tolist()
    pages.reserve(0, PAGE * MAXP - 1)
    table = pages.sync()[:1]
    at = lambda a, b: torch.arange(a, b, device="cuda")[None]
    dev = lambda ids: torch.tensor([ids], device="cuda")
    for m in (big, small):
        m.forward(dev(text[:-1]), at(0, len(text) - 1), table)
    taken, guesses = [], 4
    while len(text) < 120:
        n, drafts, qs = len(text), [], []
        for j in range(guesses):
            last = text[-1] if j == 0 else drafts[-1]
            q = small.forward(dev([last]), at(n - 1 + j, n + j), table)[0, -1].softmax(-1)
            drafts.append(int(torch.multinomial(q, 1, generator=gen).item()))
            qs.append(q)
        small.forward(dev([drafts[-1]]), at(n - 1 + guesses, n + guesses), table)
        ps = big.forward(dev([text[-1]] + drafts), at(n - 1, n + guesses), table)[0].softmax(-1)
        good = 0
        for j, d in enumerate(drafts):
            u = torch.rand((), device="cuda", generator=gen)
            if (u * qs[j][d] < ps[j, d]).item():
                good += 1
                continue
            rest = (ps[j] - qs[j]).clamp_min(0)
            drafts[j:] = [int(torch.multinomial(rest / rest.sum(), 1, generator=gen).item())]
            break
        else:
            drafts.append(int(torch.multinomial(ps[-1], 1, generator=gen).item()))
        text += drafts
        taken.append(good)
        guesses = min(6, guesses + 1) if good == guesses else max(2, guesses - 1)
    print("speculative", len(text), "taken", taken, hashlib.sha256(repr(text).encode()).hexdigest()[:16], digest(big.kv[0][:, table[0, :6]]))


for part in (continuous, speculative):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
