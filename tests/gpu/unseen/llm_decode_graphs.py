# Decoder-only language model with a static KV cache. Prefill runs eagerly, decode runs as CUDA graphs captured for
# several batch sizes that share one memory pool; sampling happens on the GPU.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
DEV, DT = "cuda", torch.bfloat16
VOCAB, D, HEADS, KV, LAYERS, MAXLEN = 2048, 256, 8, 2, 4, 128
HD = D // HEADS


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def rope(x, pos, cos, sin):  # x: b h t hd
    c, s = cos.index_select(0, pos)[None, None], sin.index_select(0, pos)[None, None]
    x1, x2 = x.float().chunk(2, -1)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.kv, self.o = (nn.Linear(D, n, bias=False) for n in (D, 2 * KV * HD, D))
        self.gate, self.up, self.down = nn.Linear(D, 640, bias=False), nn.Linear(D, 640, bias=False), nn.Linear(640, D, bias=False)

    def forward(self, x, pos, cache, mask, cos, sin):
        b, t, _ = x.shape
        h = self.n1(x)
        q = rope(self.q(h).view(b, t, HEADS, HD).transpose(1, 2), pos, cos, sin)
        k, v = self.kv(h).view(b, t, 2, KV, HD).permute(2, 0, 3, 1, 4)
        ck, cv = cache[0][:b], cache[1][:b]
        ck.index_copy_(2, pos, rope(k, pos, cos, sin))
        cv.index_copy_(2, pos, v)
        kk, vv = (c.repeat_interleave(HEADS // KV, dim=1) for c in (ck, cv))
        a = F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, D))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, D)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, VOCAB, bias=False)
        f = 1.0 / 10000 ** (torch.arange(0, HD, 2).float() / HD)
        ang = torch.outer(torch.arange(MAXLEN).float(), f)
        self.cos, self.sin = ang.cos().to(DEV), ang.sin().to(DEV)
        self.ar = torch.arange(MAXLEN, device=DEV)

    def forward(self, tok, pos, caches):
        mask = self.ar[None, :] <= pos[:, None]
        x = self.emb(tok)
        for l, c in zip(self.layers, caches):
            x = l(x, pos, c, mask, self.cos, self.sin)
        return self.head(self.norm(x[:, -1])).float() * 6


def sample(logits, gen=None, temperature=0.8, k=40):
    top, idx = torch.topk(logits / temperature, k)
    p = torch.softmax(top, -1)
    noise = torch.empty_like(p).exponential_(1.0, generator=gen)
    return idx.gather(-1, (p / noise).argmax(-1, keepdim=True))


@torch.no_grad()
def main():
    model = LM().to(DEV).to(DT)
    model.cos, model.sin = model.cos.float(), model.sin.float()
    caches = [torch.zeros(2, 4, KV, MAXLEN, HD, device=DEV, dtype=DT) for _ in range(LAYERS)]
    tok = torch.zeros(4, 1, dtype=torch.long, device=DEV)
    pos = torch.zeros(1, dtype=torch.long, device=DEV)
    gen = torch.Generator(DEV).manual_seed(99)

    def step(b, g):
        logits = model(tok[:b], pos, caches)
        tok[:b].copy_(sample(logits, g) if g is not False else logits.argmax(-1, keepdim=True))
        pos.add_(1)
        return logits

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for b in (4, 2, 1):
            for _ in range(2):
                step(b, None)
                step(b, False)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    pool = torch.cuda.graph_pool_handle()
    graphs = {}
    for b in (4, 2, 1):  # biggest first, so that the smaller ones reuse its memory
        for kind, g in (("greedy", False), ("sampled", None), ("own_gen", gen)):
            cg = torch.cuda.CUDAGraph()
            if g is gen:
                if not hasattr(cg, "register_generator_state"):
                    print("skipped: register_generator_state")
                    continue
                cg.register_generator_state(gen)
            with torch.cuda.graph(cg, pool=pool):
                out = step(b, g)
            graphs[b, kind] = (cg, out)

    prompts = torch.randint(0, VOCAB, (4, 24), generator=torch.Generator().manual_seed(3)).to(DEV)
    for (b, kind), (cg, out) in graphs.items():
        for c in caches:
            c.zero_()
        torch.manual_seed(11)
        gen.manual_seed(12)
        plen = 8 + 4 * b
        logits = model(prompts[:b, :plen], torch.arange(plen, device=DEV), caches)
        tok[:b].copy_(sample(logits, gen))
        pos.fill_(plen)
        host = torch.empty(40, b, dtype=torch.long, pin_memory=True)
        for i in range(40):
            cg.replay()
            host[i].copy_(tok[:b, 0], non_blocking=True)
            if i % 16 == 15:  # a server would stream the tokens out here
                torch.cuda.current_stream().synchronize()
        torch.cuda.synchronize()
        print("batch", b, kind, "tokens", digest(host), "logits", digest(out), host[:4, 0].tolist())

    # the same with an eager loop, to compare
    eager = torch.Generator(DEV).manual_seed(12)
    for c in caches:
        c.zero_()
    tok[:1].copy_(sample(model(prompts[:1, :12], torch.arange(12, device=DEV), caches), eager))
    pos.fill_(12)
    seq = []
    for _ in range(10):
        step(1, eager)
        seq.append(int(tok[0, 0]))
    print("eager", seq)


def graphed_training():
    torch.manual_seed(21)
    a = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64)).cuda()
    b = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).cuda()
    x = torch.randn(32, 64, device=DEV)
    h = torch.randn(32, 64, device=DEV, requires_grad=True)
    ga, gb = torch.cuda.make_graphed_callables((a, b), ((x,), (h,)))
    opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.05, momentum=0.9)
    for i in range(12):
        data = torch.randn(32, 64, generator=torch.Generator().manual_seed(i)).cuda()
        y = torch.arange(32, device=DEV) % 10
        mid = ga(data)
        if i % 3 == 2:  # control flow between the two graphed parts
            mid = mid * 0.5
        loss = F.cross_entropy(gb(mid), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print("graphed callables", "loss %.6f" % loss.item(), digest(*a.parameters(), *b.parameters()))


main()
graphed_training()
