# An inference server: client threads ask in closed loops, six worker threads batch what waits (by length bucket, up to
# eight), each with its own compute and copy streams, pinned staging buffers and events. Weights are swapped in between.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import threading
from collections import deque
import numpy as np
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
D, VOCAB, LAYERS, SLOTS, BUCKETS = 96, 800, 3, 8, (16, 32, 64)
WORKERS, CLIENTS, ASKS = 6, 12, 18


def weights(seed):
    g = torch.Generator().manual_seed(seed)
    n = lambda *s: (torch.randn(*s, generator=g) / math.sqrt(s[-2])).pin_memory()
    w = {"emb": (torch.randn(VOCAB, D, generator=g) * 0.5).pin_memory(), "head": n(D, VOCAB)}
    for i in range(LAYERS):
        w.update({f"qkv{i}": n(D, 3 * D), f"up{i}": n(D, 2 * D), f"down{i}": n(2 * D, D)})
    return w


def upload(host):
    """On a side stream; the whole set is there when this returns."""
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        dev = {k: v.to("cuda", non_blocking=True) for k, v in host.items()}
    done = torch.cuda.Event()
    done.record(s)
    done.synchronize()
    return dev


def forward(w, tok, length):
    """Every slot of the fixed-size batch is computed for itself, so that neighbours do not matter."""
    mul = lambda x, name: torch.bmm(x, w[name].expand(SLOTS, -1, -1))
    x = w["emb"][tok]
    t = tok.shape[1]
    pad = torch.arange(t, device="cuda")[None, :] >= length[:, None]
    for i in range(LAYERS):
        q, k, v = mul(x, f"qkv{i}").chunk(3, -1)
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(D)
        x = F.layer_norm(x + torch.bmm(s.masked_fill(pad[:, None, :], -1e9).softmax(-1), v), (D,))
        x = F.layer_norm(x + mul(F.gelu(mul(x, f"up{i}")), f"down{i}"), (D,))
    last = x.gather(1, (length - 1).view(SLOTS, 1, 1).expand(SLOTS, 1, D))
    return mul(last, "head")[:, 0]


class Request:
    def __init__(self, tokens):
        self.tokens, self.done, self.answer = tokens, threading.Event(), None


class Server:
    def __init__(self, w):
        self.w, self.queues, self.cond, self.stop = w, {b: deque() for b in BUCKETS}, threading.Condition(), False
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(WORKERS)]
        for t in self.threads:
            t.start()

    def ask(self, tokens):
        r = Request(tokens)
        with self.cond:
            self.queues[next(b for b in BUCKETS if b >= len(tokens))].append(r)
            self.cond.notify()
        return r

    def take(self):
        with self.cond:
            while True:
                b = max(BUCKETS, key=lambda b: len(self.queues[b]))
                if self.queues[b]:
                    return b, [self.queues[b].popleft() for _ in range(min(SLOTS, len(self.queues[b])))]
                if self.stop:
                    return None, None
                self.cond.wait()

    def work(self):
        compute, back = torch.cuda.Stream(), torch.cuda.Stream()
        tok = {b: torch.zeros(SLOTS, b, dtype=torch.int64).pin_memory() for b in BUCKETS}
        length, out = torch.ones(SLOTS, dtype=torch.int64).pin_memory(), torch.zeros(SLOTS, VOCAB).pin_memory()
        computed, fetched = torch.cuda.Event(), torch.cuda.Event()
        while True:
            b, batch = self.take()
            if batch is None:
                return
            try:
                tok[b].zero_()  # the staging buffers are free: the last batch's event has been waited for
                length.fill_(1)
                for i, r in enumerate(batch):
                    tok[b][i, : len(r.tokens)] = torch.from_numpy(r.tokens)
                    length[i] = len(r.tokens)
                with torch.inference_mode(), torch.cuda.stream(compute):
                    y = forward(self.w, tok[b].to("cuda", non_blocking=True), length.to("cuda", non_blocking=True))
                    computed.record(compute)
                    back.wait_event(computed)
                    with torch.cuda.stream(back):
                        out.copy_(y, non_blocking=True)
                        y.record_stream(back)
                        fetched.record(back)
                fetched.synchronize()
                for i, r in enumerate(batch):
                    r.answer = out[i].numpy().copy()
            except Exception as e:
                for r in batch:
                    r.answer = e
            for r in batch:
                r.done.set()

    def close(self):
        with self.cond:
            self.stop = True
            self.cond.notify_all()
        for t in self.threads:
            t.join()


def client(server, k, digests):
    """The next question depends on the last answer."""
    rng, h = np.random.default_rng(k), hashlib.sha256()
    tokens = rng.integers(0, VOCAB, 5 + k)
    for i in range(ASKS):
        r = server.ask(tokens)
        extra = server.ask(tokens[::-1].copy()) if i % 4 == 0 else None  # two in flight
        for q in (r, extra):
            if q is not None:
                q.done.wait()
                if isinstance(q.answer, Exception):
                    digests[k] = type(q.answer).__name__
                    return
                h.update(q.answer.tobytes())
        tokens = np.concatenate([tokens, [int(r.answer.argmax())], rng.integers(0, VOCAB, int(rng.integers(0, 4)))])
        tokens = tokens if len(tokens) <= BUCKETS[-1] else tokens[-6:]
    digests[k] = h.hexdigest()[:12]


for version in (1, 2, 1):
    server, digests = Server(upload(weights(version))), [None] * CLIENTS
    clients = [threading.Thread(target=client, args=(server, k, digests)) for k in range(CLIENTS)]
    for t in clients:
        t.start()
    for t in clients:
        t.join()
    server.close()
    print("weights", version, " ".join(digests))
torch.cuda.synchronize()
