# Recommendations: raw identifiers hashed on the device, embeddings with sparse gradients and SparseAdam, a table too big for the device whose
# rows travel between pinned memory and a cache of slots with least-recently-used eviction, a two-tower model with a queue of negatives, an
# inverted-file index with product quantisation; then the graph of users and items: sampled neighbours, CSR products, PageRank, components.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import collections
import hashlib
import torch
import torch.nn as nn
import torch.nn.functional as F

NAME, TOTAL, DEV = "torch_recsys_graph", hashlib.sha256(), "cuda"
USERS, ITEMS, DIM, BATCH = 20_000, 5_000, 32, 1024
STATE = {}


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def gen(seed):
    return torch.Generator().manual_seed(seed)


def log_of_events(n=200_000):
    """Users have a taste, items a kind; popular items are met more often."""
    g = gen(1)
    user = (torch.rand(n, generator=g) ** 2 * USERS).long()
    item = (torch.rand(n, generator=g) ** 3 * ITEMS).long()
    click = (((user * 7 + item * 3) % 11 < 4) ^ (torch.rand(n, generator=g) < 0.1)).float()
    return user, item, click


def mix(x, salt):
    """A hash in whole numbers of 64 bits that wrap round."""
    x = (x ^ salt) * -7046029254386353131
    x = (x ^ ((x >> 29) & 0x7FFFFFFFF)) * -4658895280553007687
    return x ^ ((x >> 32) & 0xFFFFFFFF)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(4096, DIM, sparse=True), nn.Embedding(ITEMS, DIM, sparse=True)
        self.cross = nn.Embedding(8192, DIM, sparse=True)
        self.dense = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, DIM))
        self.top = nn.Sequential(nn.Linear(DIM + 6, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, u, i, x):
        d = self.dense(x)
        z = torch.stack((d, self.user(mix(u, 17) & 4095), self.item(i), self.cross(mix(u * ITEMS + i, 23) & 8191)), 1)
        m = z @ z.mT
        return self.top(torch.cat((d, torch.stack([m[:, a, b] for a in range(4) for b in range(a)], 1)), 1)).squeeze(1)


def auc(score, label):
    order = score.argsort(stable=True)
    y = label[order].long()
    below = (1 - y).cumsum(0)
    good, bad = int(y.sum()), int((1 - y).sum())
    return int((below * y).sum()) / max(1, good * bad)


def ranking():
    torch.manual_seed(2)
    net, (user, item, click) = Ranker().to(DEV), log_of_events()
    sparse = torch.optim.SparseAdam([net.user.weight, net.item.weight, net.cross.weight], lr=5e-3)
    dense = torch.optim.Adagrad([p for m in (net.dense, net.top) for p in m.parameters()], lr=2e-2)
    columns, losses = [c.pin_memory() for c in (user, item, click)], []
    for step in range(60):
        at = slice(step * BATCH, (step + 1) * BATCH)
        u, i, y = (c[at].to(DEV, non_blocking=True) for c in columns)
        x = torch.stack([((u >> s) & 15).float() / 16 for s in (0, 4)] + [((i >> s) & 15).float() / 16 for s in (0, 4)], 1)
        loss = F.binary_cross_entropy_with_logits(net(u, i, x), y)
        loss.backward()
        sparse.step()
        dense.step()
        sparse.zero_grad()
        dense.zero_grad()
        losses.append(loss.detach())
    with torch.no_grad():
        score = net(u, i, x)
        bins = torch.bucketize(score.sigmoid(), torch.linspace(0, 1, 11, device=DEV))
        count = torch.bincount(bins, minlength=12), torch.bincount(bins[y > 0.5], minlength=12)
    print("ranking auc %.4f" % auc(score, y), digest(torch.stack(losses), net.item.weight, net.cross.weight, *count))


class Cached:
    """Rows live in pinned memory; 3000 of them have a slot on the device. Who is evicted is decided by the host."""

    def __init__(self, rows, slots):
        self.home = (torch.randn(rows, DIM, generator=gen(3)) * 0.1).pin_memory()
        self.slots, self.used = torch.zeros(slots, DIM, device=DEV), collections.OrderedDict()
        self.free, self.up, self.down = list(range(slots)), torch.cuda.Stream(), torch.cuda.Stream()
        self.moved, self.flight = [0, 0], None

    def land(self):  # rows that were evicted before arrive at home
        if self.flight is not None:
            rows, host, event = self.flight
            event.synchronize()
            self.home[rows] = host
            self.flight = None

    def fetch(self, ids):
        rows, inverse = torch.unique(ids, return_inverse=True)
        rows, missing, main = rows.tolist(), [], torch.cuda.current_stream()
        for r in rows:
            if r in self.used:
                self.used.move_to_end(r)
            else:
                missing.append(r)
        out_rows, out_slots = [], []
        while len(self.free) < len(missing):
            r, s = self.used.popitem(last=False)
            out_rows.append(r)
            out_slots.append(s)
            self.free.append(s)
        self.land()
        if out_rows:
            host, event = torch.empty(len(out_rows), DIM, pin_memory=True), torch.cuda.Event()
            gone = self.slots[torch.tensor(out_slots, device=DEV)]
            self.down.wait_stream(main)
            with torch.cuda.stream(self.down):
                host.copy_(gone, non_blocking=True)
                gone.record_stream(self.down)
                event.record(self.down)
            self.flight = torch.tensor(out_rows), host, event
            if set(out_rows) & set(missing):
                self.land()
        if missing:
            slots = [self.free.pop() for _ in missing]
            self.used.update(zip(missing, slots))
            staging = torch.empty(len(missing), DIM, pin_memory=True)
            torch.index_select(self.home, 0, torch.tensor(missing), out=staging)
            with torch.cuda.stream(self.up):
                fresh = staging.to(DEV, non_blocking=True)
            main.wait_stream(self.up)
            fresh.record_stream(main)
            self.slots[torch.tensor(slots, device=DEV)] = fresh
        self.moved[0] += len(missing)
        self.moved[1] += len(out_rows)
        return torch.tensor([self.used[r] for r in rows], device=DEV), inverse.to(DEV)


def big_table():
    user, item, click = log_of_events()
    table, weight = Cached(USERS, 3000), torch.randn(ITEMS, DIM, generator=gen(4)).to(DEV) * 0.1
    for step in range(50):
        at = slice(step * BATCH, (step + 1) * BATCH)
        slots, inverse = table.fetch(user[at])
        rows = table.slots[slots].requires_grad_()
        score = (rows[inverse] * weight[item[at].to(DEV)]).sum(1)
        grad, = torch.autograd.grad(F.binary_cross_entropy_with_logits(score, click[at].to(DEV), reduction="sum"), rows)
        table.slots[slots] = rows.detach() - 0.1 * grad
    table.land()
    print("big table", table.moved[0] > 3000, table.moved[1] > 0, digest(table.home, table.slots, torch.tensor(table.moved)))


def two_towers():
    torch.manual_seed(5)
    tower = lambda: nn.Sequential(nn.Linear(24, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, DIM)).to(DEV)
    a, b, queue, where = tower(), tower(), F.normalize(torch.randn(2048, DIM, generator=gen(6)), dim=1).to(DEV), 0
    opt = torch.optim.NAdam([*a.parameters(), *b.parameters()], lr=2e-3)
    bits = lambda ids, salt: ((mix(ids, salt)[:, None] >> torch.arange(24, device=DEV)) & 1).float() - 0.5
    user, item, click = (c.to(DEV) for c in log_of_events())
    losses = []
    for step in range(40):
        at = slice(step * 512, (step + 1) * 512)
        u, i = F.normalize(a(bits(user[at], 1)), dim=1), F.normalize(b(bits(item[at], 2)), dim=1)
        logits = torch.cat((u @ i.T, u @ queue.T), 1) / 0.1
        loss = F.cross_entropy(logits, torch.arange(512, device=DEV), reduction="none")
        loss = (loss * click[at]).sum() / click[at].sum().clamp(min=1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue[where:where + 512] = i.detach()
        where = (where + 512) % 2048
        losses.append(loss.detach())
    with torch.no_grad():
        STATE["items"] = F.normalize(b(bits(torch.arange(ITEMS, device=DEV), 2)), dim=1)
        STATE["users"] = F.normalize(a(bits(torch.arange(500, device=DEV), 1)), dim=1)
    print("two towers", digest(torch.stack(losses), STATE["items"], queue))


@torch.no_grad()
def index():
    """64 lists by k-means, residuals in 8 codes of 16 words; eight lists are searched through tables, the best 50 are scored exactly."""
    x, q = STATE["items"], STATE["users"]
    c = x[::ITEMS // 64][:64].clone()
    for _ in range(8):
        one = F.one_hot(torch.cdist(x, c).argmin(1), 64).float()
        c = (one.T @ x) / one.sum(0)[:, None].clamp(min=1)
    home = torch.cdist(x, c).argmin(1)
    rest = (x - c[home]).view(ITEMS, 8, 4).transpose(0, 1).contiguous()
    words = rest[:, ::ITEMS // 16][:, :16].clone()
    for _ in range(6):
        one = F.one_hot(torch.cdist(rest, words).argmin(2), 16).float()
        words = (one.mT @ rest) / one.sum(1)[..., None].clamp(min=1)
    codes = torch.cdist(rest, words).argmin(2).T.to(torch.uint8)
    order = home.argsort(stable=True)
    ends = torch.bincount(home, minlength=64).cumsum(0)
    probe, found = (q @ c.T).topk(8).indices.cpu(), []
    table, stops = torch.einsum("ngd,gwd->ngw", q.view(-1, 8, 4), words), [0] + ends.tolist()
    for n in range(0, 500, 25):  # lists differ in length: what is looked at is decided by the host
        some = torch.cat([order[stops[l]:stops[l + 1]] for l in probe[n].tolist()])
        near = table[n].gather(1, codes[some].long().T).sum(0) + c[home[some]] @ q[n]
        few = some[near.topk(min(50, len(some))).indices]
        found.append(few[(x[few] @ q[n]).topk(10).indices])
    found, exact = torch.stack(found), (q[::25] @ x.T).topk(10).indices
    recall = (found[:, :, None] == exact[:, None]).any(2).float().mean().item()
    print("index recall %.2f" % recall, digest(found, exact, codes, ends))


def graph():
    user, item, click = log_of_events()
    n = USERS + ITEMS
    edges = torch.unique(torch.stack((user[click > 0], item[click > 0] + USERS)).to(DEV), dim=1)
    both = torch.cat((edges, edges.flip(0)), 1)
    order = (both[0] * n + both[1]).argsort()
    row, col = both[0][order], both[1][order]
    ptr = F.pad(torch.bincount(row, minlength=n).cumsum(0), (1, 0))
    degree = ptr.diff()
    # PageRank in whole numbers: sums in any order are the same.
    rank = torch.full((n,), 1 << 30, device=DEV, dtype=torch.int64)
    for _ in range(15):
        share = (rank * 85 // 100) // degree.clamp(min=1)
        rank = torch.zeros_like(rank).index_add_(0, col, share[row]) + (1 << 30) * 15 // 100
    label, rounds = torch.arange(n, device=DEV), 0
    while True:
        new = label.scatter_reduce(0, row, label[col], "amin")
        new, rounds = new[new], rounds + 1
        if torch.equal(new, label):
            break
        label = new
    level, front, depth = torch.full((n,), -1, device=DEV), torch.tensor([int(degree.argmax())], device=DEV), 0
    while len(front):  # breadth first; the host looks at the size of each front
        level[front] = depth
        size = degree[front]
        start = torch.repeat_interleave(ptr[front] - F.pad(size.cumsum(0), (1, -1)), size)
        nxt = col[start + torch.arange(int(size.sum()), device=DEV)]
        front, depth = torch.unique(nxt[level[nxt] < 0]), depth + 1
    adj = torch.sparse_csr_tensor(ptr, col, torch.ones(len(col), device=DEV), (n, n))
    feats = torch.randint(-8, 9, (n, 16), generator=gen(8)).float().to(DEV)  # whole numbers again
    hop = adj @ feats
    hop2 = torch.sparse.mm(adj, hop.remainder(16))
    # GraphSAGE on sampled neighbours
    torch.manual_seed(9)
    w1, w2 = nn.Linear(32, 32).to(DEV), nn.Linear(48, 8).to(DEV)
    opt, losses = torch.optim.AdamW([*w1.parameters(), *w2.parameters()], lr=1e-2), []
    for step in range(15):
        seed = torch.randint(0, n, (512,), generator=gen(50 + step)).to(DEV)
        pick = (torch.rand(512, 10, generator=gen(90 + step)).to(DEV) * degree[seed][:, None]).long()
        near = torch.where(degree[seed][:, None] > 0, col[(ptr[seed][:, None] + pick).clamp(max=len(col) - 1)], seed[:, None])
        h = F.relu(w1(torch.cat((feats[near], (hop / degree.clamp(min=1)[:, None])[near]), -1)))
        size = torch.full((512,), 10, device=DEV)
        mean = torch.segment_reduce(h.reshape(5120, 32), "mean", lengths=size, axis=0)
        loss = F.cross_entropy(w2(torch.cat((feats[seed], mean), 1)), seed % 8)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    print("graph", rounds > 1, depth > 1, digest(rank, label, level, hop, hop2), digest(torch.stack(losses), w1.weight))


torch.use_deterministic_algorithms(True, warn_only=True)
for f in (ranking, big_table, two_towers, index, graph):
    try:
        f()
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))
STATE.clear()
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
