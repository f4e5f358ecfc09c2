# A serving engine on torch.compile(mode="reduce-overhead"): static caches in buffers of the module, int8 weights, grouped heads, a grammar
# that is followed on the device, tokens that the scheduler reads one step late; prompts in chunks, with a cache of prefixes that goes to
# pinned memory and back; adapters of several tenants in one batch; guesses looked up in the text and verified by a captured graph.
import os
import tempfile
CACHE = tempfile.mkdtemp(prefix="compiled_engine_")
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = CACHE, CACHE + "/triton"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
import collections
import hashlib
import shutil
import torch
import torch.nn as nn
import torch.nn.functional as F

NAME, TOTAL, DEV = "torch_compiled_engine", hashlib.sha256(), "cuda"
V, D, LAYERS, HEADS, KV, HD, SLOTS, MAX, CHUNK, STATES = 256, 256, 2, 8, 2, 32, 8, 160, 16, 10
TYPE = torch.bfloat16


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


class Int8(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        w = torch.randn(n_out, n_in) / n_in ** 0.5
        scale = w.abs().amax(1, keepdim=True) / 127
        self.register_buffer("q", (w / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.to(TYPE))

    def forward(self, x):
        return F.linear(x, self.q.to(x.dtype)) * self.scale.squeeze(1)


class Model(nn.Module):
    def __init__(self, seed, slots=SLOTS):
        super().__init__()
        torch.manual_seed(seed)
        self.emb = nn.Parameter(torch.randn(V, D, dtype=TYPE) * 0.5, requires_grad=False)
        self.qkv = nn.ModuleList(Int8(D, (HEADS + 2 * KV) * HD) for _ in range(LAYERS))
        self.out = nn.ModuleList(Int8(HEADS * HD, D) for _ in range(LAYERS))
        self.up, self.down = nn.ModuleList(Int8(D, 4 * D) for _ in range(LAYERS)), nn.ModuleList(Int8(2 * D, D) for _ in range(LAYERS))
        freq = 1 / 10000 ** (torch.arange(0, HD, 2) / HD)
        angle = torch.arange(MAX)[:, None] * freq
        self.register_buffer("rope", torch.stack((angle.cos(), angle.sin())))
        for i in range(LAYERS):
            self.register_buffer("k%d" % i, torch.zeros(slots, MAX, KV, HD, dtype=TYPE))
            self.register_buffer("v%d" % i, torch.zeros(slots, MAX, KV, HD, dtype=TYPE))
        self.register_buffer("token", torch.zeros(slots, dtype=torch.int64))
        self.register_buffer("pos", torch.zeros(slots, dtype=torch.int64))
        self.register_buffer("state", torch.zeros(slots, dtype=torch.int64))
        c, s = torch.arange(V) % 8, torch.arange(STATES)[:, None]
        allow = (c + s) % 3 != 0
        allow[:, 0] = torch.arange(STATES) == STATES - 1  # token 0 ends a text
        self.register_buffer("allow", allow)
        self.register_buffer("after", (s * 5 + c * c + 1) % STATES)

    def turn(self, x, pos):
        cos, sin = self.rope[0][pos][:, :, None].to(x.dtype), self.rope[1][pos][:, :, None].to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def trunk(self, ids, pos, caches, extra=None):
        """ids, pos: (n, t); caches: a pair (n, MAX, KV, HD) for every layer, changed in place."""
        n, t = ids.shape
        x, at = self.emb[ids], torch.arange(MAX, device=ids.device)
        here = (at[None, :, None] == pos[:, None]).to(x.dtype)  # (n, MAX, t)
        old = 1 - here.sum(-1)[..., None, None]
        for i, (ck, cv) in enumerate(caches):
            y = F.rms_norm(x, (D,))
            q, k, v = (self.qkv[i](y)).view(n, t, -1, HD).split((HEADS, KV, KV), 2)
            if extra is not None:
                q = q + extra(i, y).view(n, t, HEADS, HD)
            q, k = self.turn(q, pos), self.turn(k, pos)
            ck.copy_(ck * old + torch.einsum("nmt,nthd->nmhd", here, k))
            cv.copy_(cv * old + torch.einsum("nmt,nthd->nmhd", here, v))
            q = q.reshape(n, t, KV, HEADS // KV, HD)
            s = torch.einsum("ntgrd,nmgd->ngrtm", q, ck).float() / HD ** 0.5
            s = s.masked_fill(~(at <= pos[..., None])[:, None, None], -1e30)
            x = x + self.out[i](torch.einsum("ngrtm,nmgd->ntgrd", s.softmax(-1).to(x.dtype), cv).reshape(n, t, -1))
            a, g = self.up[i](F.rms_norm(x, (D,))).chunk(2, -1)
            x = x + self.down[i](F.silu(a) * g)
        return (F.rms_norm(x, (D,)) @ self.emb.T).float()

    def caches(self, slot=None):
        pick = (lambda c: c) if slot is None else (lambda c: c[slot:slot + 1])
        return [(pick(getattr(self, "k%d" % i)), pick(getattr(self, "v%d" % i))) for i in range(LAYERS)]

    def decode(self, temperature):
        logits = self.trunk(self.token[:, None], self.pos[:, None], self.caches())[:, 0]
        noise = -torch.log(-torch.log(torch.rand_like(logits) * 0.999 + 0.0005))
        logits = (logits / temperature[:, None] + noise).masked_fill(~self.allow[self.state], -1e30)
        new = logits.argmax(-1)
        self.state.copy_(self.after[self.state, new])
        self.pos.copy_((self.pos + 1).clamp(max=MAX - 1))
        self.token.copy_(new)
        return new


class Prefixes:
    """Blocks of CHUNK tokens under a hash of all that came before; four stay on the device, the others wait in pinned memory."""

    def __init__(self):
        self.near, self.far, self.counts, self.side = collections.OrderedDict(), {}, [0, 0, 0], torch.cuda.Stream()

    def get(self, key):
        if key in self.near:
            self.counts[0] += 1
            self.near.move_to_end(key)
        elif key in self.far:
            self.counts[1] += 1
            host, event = self.far.pop(key)
            event.synchronize()
            self.put(key, host.to(DEV, non_blocking=True))
        else:
            self.counts[2] += 1
            return None
        return self.near[key]

    def put(self, key, block):
        self.near[key] = block
        if len(self.near) > 4:
            old, t = self.near.popitem(last=False)
            host, event = torch.empty(t.shape, dtype=t.dtype, pin_memory=True), torch.cuda.Event()
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                host.copy_(t, non_blocking=True)
                t.record_stream(self.side)
                event.record(self.side)
            self.far[old] = host, event


def prefill(model, prefixes, slot, ids):
    caches = model.caches(slot)
    for start in range(0, len(ids), CHUNK):
        piece, key = ids[start:start + CHUNK], tuple(ids[:start + CHUNK])
        block = prefixes.get(key) if len(piece) == CHUNK and start + CHUNK < len(ids) else None
        if block is not None:
            for j, c in enumerate(c for pair in caches for c in pair):
                c[0, start:start + CHUNK].copy_(block[j])
            continue
        t = torch.tensor([piece], pin_memory=True).to(DEV, non_blocking=True)
        logits = model.trunk(t, torch.arange(start, start + len(piece), device=DEV)[None], caches)
        if len(piece) == CHUNK:
            prefixes.put(key, torch.stack([c[0, start:start + CHUNK] for pair in caches for c in pair]))
    return logits[0, -1]


def requests():
    g = torch.Generator().manual_seed(5)
    heads = [torch.randint(1, V, (2 * CHUNK,), generator=g).tolist() for _ in range(3)]
    draw = lambda a, b: int(torch.randint(a, b, (1,), generator=g))
    return [(heads[draw(0, 3)][:draw(1, 3) * CHUNK] + torch.randint(1, V, (draw(3, 30),), generator=g).tolist(), draw(8, 50)) for _ in range(28)]


@torch.inference_mode(False)
@torch.no_grad()
def serve():
    model, prefixes, waiting = Model(1).to(DEV), Prefixes(), collections.deque(enumerate(requests()))
    step = torch.compile(model.decode, mode="reduce-overhead", fullgraph=True, dynamic=False)
    temperature, texts, epoch, who, flight = torch.ones(SLOTS, device=DEV), {}, [0] * SLOTS, [None] * SLOTS, None
    torch.manual_seed(6)
    rounds = 0
    while waiting or any(w is not None for w in who):
        for s in range(SLOTS):
            if who[s] is None and waiting:
                rid, (ids, most) = waiting.popleft()
                logits = prefill(model, prefixes, s, ids)
                first = int(logits.masked_fill(~model.allow[rid % STATES], -1e30).argmax())
                up = torch.tensor([first, len(ids), int(model.after[rid % STATES, first])], pin_memory=True).to(DEV, non_blocking=True)
                model.token[s], model.pos[s], model.state[s] = up[0], up[1], up[2]
                temperature[s] = 0.5 + 0.1 * (rid % 8)
                epoch[s] += 1
                who[s], texts[rid] = (rid, most), [first]
        torch.compiler.cudagraph_mark_step_begin()
        new = step(temperature)
        host, event = torch.empty(SLOTS, dtype=torch.int64, pin_memory=True), torch.cuda.Event()
        host.copy_(new, non_blocking=True)
        event.record()
        if flight is not None:  # what came of the step before, while this one runs
            event_before, host_before, epochs = flight
            event_before.synchronize()
            for s, token in enumerate(host_before.tolist()):
                if who[s] is not None and epochs[s] == epoch[s]:
                    rid, most = who[s]
                    texts[rid].append(token)
                    if token == 0 or len(texts[rid]) >= most:
                        who[s] = None
        flight, rounds = (event, host, list(epoch)), rounds + 1
    torch.cuda.synchronize()
    out = torch.tensor([t for rid in sorted(texts) for t in (rid, len(texts[rid]), *texts[rid])])
    legal, after, allow = True, model.after.cpu(), model.allow.cpu()
    for rid, text in texts.items():  # the grammar once more, by the host
        state = rid % STATES
        for t in text:
            legal, state = legal and bool(allow[state, t]), int(after[state, t])
    print("serve", len(texts), rounds, legal, prefixes.counts, digest(out, model.k0, model.pos))


@torch.no_grad()
def tenants():
    """Each row of the batch has an adapter of its own, gathered by index; adapters are exchanged in place while compiled code holds them."""
    model, ranks = Model(2).to(DEV), 8
    g = torch.Generator().manual_seed(7)
    a = (torch.randn(5, LAYERS, D, ranks, generator=g) / 16).to(DEV, TYPE)
    b = (torch.randn(5, LAYERS, ranks, HEADS * HD, generator=g) / 4).to(DEV, TYPE)

    @torch.compile(dynamic=False)
    def step(ids, pos, which):
        pa, pb = a[which], b[which]
        logits = model.trunk(ids, pos, model.caches(), lambda i, y: torch.bmm(torch.bmm(y, pa[:, i]), pb[:, i]))
        return logits[:, -1].argmax(-1)

    ids, seen = torch.randint(1, V, (SLOTS, 1), generator=g).to(DEV), []
    for i in range(24):
        which = torch.tensor([(s * 3 + i // 4) % 5 for s in range(SLOTS)], pin_memory=True).to(DEV, non_blocking=True)
        if i % 6 == 5:
            a[i % 5].copy_((torch.randn(LAYERS, D, ranks, generator=g) / 16).pin_memory(), non_blocking=True)
        ids = step(ids, torch.full((SLOTS, 1), i, device=DEV), which)[:, None]
        seen.append(ids)
    print("tenants", digest(torch.cat(seen, 1), model.v1))


@torch.no_grad()
def lookup():
    """Guesses are what followed the last two tokens earlier in the text; five positions are verified by one graph, greedily."""
    model, width = Model(3, 1).to(DEV), 5
    ids, pos = torch.zeros(1, width, dtype=torch.int64, device=DEV), torch.zeros(1, width, dtype=torch.int64, device=DEV)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            model.trunk(ids, pos + torch.arange(width, device=DEV), model.caches())
    torch.cuda.current_stream().wait_stream(side)
    graph, best_host = torch.cuda.CUDAGraph(), torch.empty(1, width, dtype=torch.int64, pin_memory=True)
    with torch.cuda.graph(graph):
        best = model.trunk(ids, pos, model.caches()).argmax(-1)
        best_host.copy_(best, non_blocking=True)
    for c in (c for pair in model.caches() for c in pair):
        c.zero_()
    text, up, took = [7, 9, 7, 9], torch.zeros(2, width, dtype=torch.int64, pin_memory=True), []
    text.append(int(prefill(model, Prefixes(), 0, text).argmax()))
    while len(text) < 110:
        guess = [0] * (width - 1)
        for i in range(len(text) - 3, 0, -1):
            if text[i - 1:i + 1] == text[-2:]:
                guess = (text[i + 1:i + width] + guess)[:width - 1]
                break
        up[0], up[1] = torch.tensor([text[-1]] + guess), torch.arange(len(text) - 1, len(text) - 1 + width)
        ids.copy_(up[:1], non_blocking=True)
        pos.copy_(up[1:], non_blocking=True)
        graph.replay()
        torch.cuda.current_stream().synchronize()
        answer, n = best_host[0].tolist(), 1
        while n < width and guess[n - 1] == answer[n - 1]:
            n += 1
        text += answer[:n]
        took.append(n)
    print("lookup", len(took) > 0, digest(torch.tensor(text), torch.tensor(took), model.k1[:, :100]))


torch.use_deterministic_algorithms(True, warn_only=True)
try:
    for f in (serve, tenants, lookup):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
finally:
    shutil.rmtree(CACHE, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
