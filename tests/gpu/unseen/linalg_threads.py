# Numerical odds and ends: sparse CSR/COO products, FFT, linalg, scatter/gather, sort, unique, a custom autograd
# Function, and several Python threads that each work on a stream of their own.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import threading
import torch

torch.use_deterministic_algorithms(True, warn_only=True)
DEV = torch.device("cuda")


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        t = t.detach().cpu()
        t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        h.update(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def gen(seed):
    return torch.Generator().manual_seed(seed)


def sparse():
    # whole numbers: every order of summation gives the same bits
    n, nnz = 2000, 30000
    idx = torch.randint(0, n, (2, nnz), generator=gen(1))
    val = torch.randint(-4, 5, (nnz,), generator=gen(2)).float()
    coo = torch.sparse_coo_tensor(idx.to(DEV), val.to(DEV), (n, n)).coalesce()
    csr = coo.to_sparse_csr()
    d = torch.randint(-3, 4, (n, 48), generator=gen(3)).float().to(DEV)
    a, b, v = coo @ d, csr @ d, csr @ d[:, 0]
    print("sparse", digest(a), "equal", torch.equal(a, b) and torch.equal(v, a[:, 0]), "nnz", coo._nnz())
    x = (coo * 2 + coo.t()).coalesce()
    print("sparse sum", digest(x.indices(), x.values()), digest(torch.sparse.sum(x, 0).to_dense()))
    try:
        y = torch.sparse.mm(csr, csr)
        print("sparse x sparse", digest(y.crow_indices(), y.to_dense()[:100]))
    except RuntimeError as e:
        print("skipped: sparse x sparse", type(e).__name__)


def fft():
    x = torch.randn(8, 96, 120, generator=gen(4)).to(DEV)
    f = torch.fft.rfft2(x, norm="ortho")
    back = torch.fft.irfft2(f, s=x.shape[-2:], norm="ortho")
    z = torch.fft.fft(torch.randn(5, 1009, generator=gen(5), dtype=torch.float64).to(DEV))  # prime length
    stft = torch.stft(x.reshape(4, -1), 256, hop_length=64, window=torch.hann_window(256, device=DEV), return_complex=True)
    print("fft", digest(f), digest(torch.fft.fftshift(z)), digest(stft), "close", torch.allclose(x, back, atol=1e-4))


def linalg():
    torch.backends.cuda.preferred_linalg_library("cusolver")
    a = torch.randn(6, 60, 60, generator=gen(6), dtype=torch.float64).to(DEV)
    s = a @ a.mT + 60 * torch.eye(60, device=DEV, dtype=torch.float64)
    c = torch.linalg.cholesky(s)
    q, r = torch.linalg.qr(a[:, :, :40])
    w, v = torch.linalg.eigh(s[0])
    sv = torch.linalg.svdvals(a[1])
    u, t, vh = torch.linalg.svd(a[2].float(), full_matrices=False)
    x = torch.linalg.solve(s, a)
    y = torch.cholesky_solve(a[0, :, :3], c[0])
    lu, piv = torch.linalg.lu_factor(a[3])
    tri = torch.linalg.solve_triangular(c, a, upper=False)
    print("linalg", digest(c, q, r), digest(w, v.abs()), digest(sv, t), digest(x, y), digest(lu, piv, tri))
    print("logdet %.6f" % torch.linalg.slogdet(s).logabsdet.sum().item(), "rank", int(torch.linalg.matrix_rank(a[0])),
          "inverse", digest(torch.linalg.inv(s)))


def indexing():
    keys = torch.randint(0, 500, (200_000,), generator=gen(7)).to(DEV)
    u, inv, cnt = torch.unique(keys, return_inverse=True, return_counts=True)
    srt, order = torch.sort(keys, stable=True)
    acc = torch.zeros(500, dtype=torch.int64, device=DEV).scatter_add_(0, keys, torch.arange(200_000, device=DEV))
    red = torch.full((500,), -1.0, device=DEV).scatter_reduce_(0, keys, torch.rand(200_000, generator=gen(8)).to(DEV), "amax")
    top = torch.topk(torch.randperm(50_000, generator=gen(9)).to(DEV), 100)
    nz = torch.nonzero(keys % 77 == 0)
    run = torch.unique_consecutive(srt // 9)
    hist = torch.bincount(keys, minlength=512)
    put = torch.zeros(1000, device=DEV).index_put_((keys[:5000] * 2,), torch.ones(5000, device=DEV), accumulate=True)
    b = torch.bucketize(torch.rand(1000, generator=gen(10)).to(DEV), torch.linspace(0, 1, 33, device=DEV))
    m = keys.reshape(400, 500).gather(1, torch.argsort(keys.reshape(400, 500), dim=1, stable=True))
    print("indexing", len(u), len(nz), digest(inv, cnt), digest(order, acc), digest(red, top.values), digest(run, hist, put, b, m))


class Clip(torch.autograd.Function):
    """Straight-through rounding with a clipped gradient, with tensors saved and a non-tensor argument."""

    @staticmethod
    def forward(ctx, x, scale, levels):
        ctx.save_for_backward(x, scale)
        ctx.levels = levels
        return (x / scale).round().clamp(-levels, levels) * scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        inside = (x / scale).abs() <= ctx.levels
        return g * inside, (g * torch.where(inside, (x / scale).round() - x / scale, x.sign() * ctx.levels)).sum(), None


def quantised():
    w = torch.randn(64, 64, generator=gen(11)).to(DEV).requires_grad_()
    s = torch.tensor(0.1, device=DEV, requires_grad=True)
    x, y = (torch.randn(128, 64, generator=gen(k)).to(DEV) for k in (12, 13))
    opt = torch.optim.LBFGS([w, s], lr=0.1, max_iter=5, history_size=4)

    def closure():
        opt.zero_grad()
        loss = (Clip.apply(x @ Clip.apply(w, s, 7), s * 4, 15) - y).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        loss = opt.step(closure)
    print("custom function %.5f" % loss.item(), digest(w, s))


def worker(k, out, barrier):
    stream = torch.cuda.Stream()
    g = torch.Generator(DEV).manual_seed(100 + k)
    with torch.cuda.stream(stream):
        barrier.wait()
        a = torch.randn(128 + 16 * k, 128, device=DEV, generator=g, requires_grad=True)
        for i in range(15):
            loss = (torch.fft.rfft(a @ a.mT).abs().mean() + torch.logsumexp(a, 1).mean())
            (grad,) = torch.autograd.grad(loss, a)
            with torch.no_grad():
                a -= 0.1 * grad
            if i % 5 == k % 5:
                a.detach().sum().item()  # a synchronisation at a different step in every thread
        host = torch.empty(a.shape, pin_memory=True).copy_(a.detach(), non_blocking=True)
        done = torch.cuda.Event()
        done.record(stream)
    done.synchronize()
    out[k] = digest(host)


def threads():
    out, barrier = [None] * 5, threading.Barrier(5)
    ts = [threading.Thread(target=worker, args=(k, out, barrier)) for k in range(5)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    print("threads", *out)


for f in (sparse, fft, linalg, indexing, quantised, threads):
    f()
torch.cuda.synchronize()
