# CUDA graphs three ways: make_graphed_callables for parts of a network with a data-dependent branch, a whole training
# step (capturable Adam, learning rate in a tensor) with eager evaluation in between, and one graph per batch size,
# all in one memory pool, replayed on changing streams.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.manual_seed(12)
D, B = 128, 96


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def data(i, n=B):
    g = torch.Generator().manual_seed(i)
    return torch.randn(n, D, generator=g), torch.randn(n, 4, generator=g)


class Block(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.norm, self.a, self.b, self.drop = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D), nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.b(F.gelu(self.a(self.norm(x)))))


def callables():
    torch.manual_seed(1)
    stem, left, right, head = Block(0.1).cuda(), Block(0.0).cuda(), Block(0.2).cuda(), nn.Linear(D, 4).cuda()
    params = [p for m in (stem, left, right, head) for p in m.parameters()]
    opt = torch.optim.SGD(params, lr=0.05, momentum=0.9)
    x = torch.randn(B, D, device="cuda")
    hidden = lambda: torch.randn(B, D, device="cuda", requires_grad=True)
    loss_fn = lambda p, t: F.mse_loss(p, t)
    pred, want = torch.randn(B, 4, device="cuda", requires_grad=True), torch.randn(B, 4, device="cuda")
    stem, left, right, loss_fn = torch.cuda.make_graphed_callables(
        (stem, left, right, loss_fn), ((x,), (hidden(),), (hidden(),), (pred, want)))
    losses, way = [], ""
    for i in range(24):
        xh, th = data(i)
        opt.zero_grad(set_to_none=True)
        h = stem(xh.cuda())
        go_left = (h[0].sum() > 0).item()
        way += "LR"[not go_left]
        h = left(h) if go_left else right(h)
        loss = loss_fn(head(h), th.cuda())
        loss.backward()
        opt.step()
        losses.append(loss.detach().clone())
    print("callables", way, "%.4f" % losses[-1].item(), digest(*losses), digest(*params))


def whole_step():
    torch.manual_seed(2)
    net = nn.Sequential(Block(0.1), Block(0.1), nn.Linear(D, 4)).cuda()
    lr = torch.tensor(1e-3, device="cuda")
    opt = torch.optim.Adam(net.parameters(), lr=lr, capturable=True)
    sx, st = torch.zeros(B, D, device="cuda"), torch.zeros(B, 4, device="cuda")
    sx.copy_(data(0)[0])
    st.copy_(data(0)[1])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            F.mse_loss(net(sx), st).backward()
            opt.step()
    torch.cuda.current_stream().wait_stream(side)
    opt.zero_grad(set_to_none=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = F.mse_loss(net(sx), st)
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
        opt.step()
    hist, evals = [], []
    for i in range(40):
        xh, th = data(100 + i % 10)
        sx.copy_(xh.pin_memory(), non_blocking=True)
        st.copy_(th.pin_memory(), non_blocking=True)
        if i % 10 == 0:
            lr.mul_(0.7)
        g.replay()
        hist += [loss.clone(), norm.clone()]
        if i % 8 == 7:  # eager work between replays, with other sizes
            net.eval()
            with torch.no_grad():
                evals.append(net(data(900 + i, 33 + i)[0].cuda()).mean(0))
            net.train()
    print("whole step %.4f -> %.4f" % (hist[0].item(), hist[-2].item()), digest(*hist), digest(*evals), digest(*net.parameters()))


def many_graphs():
    torch.manual_seed(3)
    net = nn.Sequential(*[Block(0.0) for _ in range(4)]).cuda().eval()
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    with torch.no_grad():
        for n in (256, 128, 64, 16, 4, 1):  # the biggest first, as servers do
            x = torch.zeros(n, D, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                net(x)
            torch.cuda.current_stream().wait_stream(side)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, pool=pool):
                y = net(x)
                top = y.square().sum(1).topk(min(3, n)).values
            graphs[n] = (g, x, y, top)
        streams, out = [torch.cuda.Stream() for _ in range(3)], []
        last = torch.cuda.current_stream()
        for i in range(60):
            want = (i * 37) % 200 + 1
            n = min(k for k in graphs if k >= want)
            g, x, y, top = graphs[n]
            s = streams[i % 3]
            s.wait_stream(last)  # the graphs share memory: one at a time
            last = s
            with torch.cuda.stream(s):
                x[:want].copy_(data(i, want)[0])
                x[want:].zero_()
                g.replay()
                out += [y[:want].clone(), top.clone()]
                if i % 5 == 0:
                    out.append(net(out[-2]))  # eager, on the same weights
        torch.cuda.synchronize()
        first = digest(*out)
        with torch.no_grad():  # weights changed in place are seen by the graphs
            for p in net.parameters():
                p.mul_(0.5)
        graphs[16][0].replay()
        second = digest(graphs[16][2])
    for n in (1, 256):  # some graphs go away
        del graphs[n]
    graphs[64][0].replay()
    torch.cuda.synchronize()
    print("many graphs", first, second, digest(graphs[64][2]))


for part in (callables, whole_step, many_graphs):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
