# Numerical work in PyTorch: wave equations by complex Fourier transforms in double precision, sparse products, scatter
# and gather, batched factorisations, sorting and sets, random streams that are saved and restored, foreach operations.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import torch

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(15)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def gen(seed):
    return torch.Generator("cuda").manual_seed(seed)


def schroedinger():
    """Split steps of a nonlinear Schroedinger equation in two dimensions; three potentials on three streams."""
    n, dt = 192, 0.005
    k = torch.fft.fftfreq(n, 1 / n, device="cuda", dtype=torch.float64)
    kinetic = torch.exp(-0.5j * dt * (k[:, None] ** 2 + k ** 2))
    x = torch.linspace(-3.14159, 3.14159, n, device="cuda", dtype=torch.float64)
    psi0 = torch.exp(-4 * ((x[:, None] - 0.5) ** 2 + x ** 2)) * torch.exp(5j * x)
    torch.cuda.synchronize()
    fields, norms = [], []
    for m in range(3):
        with torch.cuda.stream(torch.cuda.Stream()):
            v = (m + 1) * (x[:, None] ** 2 + 0.3 * x ** 2)
            psi = psi0.clone()
            for i in range(60):
                psi = psi * torch.exp(-0.5j * dt * (v + psi.abs() ** 2))
                psi = torch.fft.ifft2(torch.fft.fft2(psi) * kinetic)
                psi = psi * torch.exp(-0.5j * dt * (v + psi.abs() ** 2))
                if i % 20 == 19:
                    norms.append((psi.abs() ** 2).sum())
            fields.append(psi)
    torch.cuda.synchronize()
    ratio = norms[-1] / (psi0.abs() ** 2).sum()
    print("schroedinger", digest(*fields), digest(*norms), "norm kept", abs(ratio.item() - 1) < 1e-8)


def heat_real():
    """Real transforms of many lengths, and a short-time transform."""
    out = []
    for n in (64, 100, 81, 97, 1000, 1 << 13):
        u = torch.rand(5, n, device="cuda", generator=gen(n))
        f = torch.fft.rfft(u, norm="ortho")
        f = f * torch.exp(-0.01 * torch.arange(f.shape[1], device="cuda") ** 2 / n)
        out += [torch.fft.irfft(f, n=n, norm="ortho"), torch.fft.hfft(f), torch.fft.fftshift(f).abs()]
    s = torch.stft(torch.sin(torch.arange(8000, device="cuda") ** 2 / 9000), 256, 64, window=torch.hann_window(256, device="cuda"), return_complex=True)
    print("real transforms", digest(*out), digest(s))


def sparse_products():
    """Whole numbers, so that no order of summation shows."""
    g = gen(1)
    dense = torch.randint(-9, 10, (400, 300), device="cuda", generator=g) * (torch.rand(400, 300, device="cuda", generator=g) < 0.03)
    csr = dense.double().to_sparse_csr()
    b = torch.randint(-5, 6, (300, 20), device="cuda", generator=g).double()
    y, z = csr @ b, csr @ b[:, 0]
    coo = csr.to_sparse_coo().coalesce()
    t = torch.sparse.mm(coo.t().coalesce(), y)
    print("sparse", csr.col_indices().numel(), digest(y), digest(z), digest(t), bool((y == dense.double() @ b).all()))


def scatter_gather():
    g = gen(2)
    idx = torch.randint(0, 500, (20_000,), device="cuda", generator=g)
    val = torch.randn(20_000, device="cuda", generator=g)
    acc = torch.zeros(500, device="cuda").index_add_(0, idx, val)
    put = torch.zeros(500, device="cuda").index_put_((idx,), val, accumulate=True)
    rows = torch.zeros(500, 16, device="cuda").index_add_(0, idx[:3000], torch.randn(3000, 16, device="cuda", generator=g))
    sc = torch.zeros(500, device="cuda").scatter_add_(0, idx, val)
    whole = torch.zeros(500, dtype=torch.int64, device="cuda").scatter_add_(0, idx, torch.arange(20_000, device="cuda"))
    got = rows.gather(0, idx[:800].view(50, 16))
    emb = torch.nn.Embedding(500, 24).cuda()
    emb(idx[:4000]).square().sum().backward()
    mask = torch.zeros(300, 70, device="cuda").masked_scatter_(torch.rand(300, 70, device="cuda", generator=g) < 0.4, val.repeat(2))
    print("scatter", digest(acc, put, sc), digest(rows, got), digest(whole), digest(emb.weight.grad), digest(mask))


def batched_linalg():
    g = gen(3)
    a = torch.randn(30, 24, 24, device="cuda", dtype=torch.float64, generator=g)
    spd = a @ a.mT + 24 * torch.eye(24, device="cuda", dtype=torch.float64)
    b = torch.randn(30, 24, 4, device="cuda", dtype=torch.float64, generator=g)
    for name, f in (("solve", lambda: torch.linalg.solve(a, b)), ("cholesky", lambda: torch.cholesky_solve(b, torch.linalg.cholesky(spd))),
                    ("qr", lambda: torch.cat(torch.linalg.qr(a), -1)), ("eigvalsh", lambda: torch.linalg.eigvalsh(spd)),
                    ("svdvals", lambda: torch.linalg.svdvals(a[:6, :, :15])), ("lstsq", lambda: torch.linalg.lstsq(a[:, :, :9], b).solution),
                    ("expm", lambda: torch.linalg.matrix_exp(a / 20)), ("inv", lambda: torch.linalg.inv(spd.to(torch.complex128) + 1j)),
                    ("det", lambda: torch.stack(torch.linalg.slogdet(a))), ("tri", lambda: torch.linalg.solve_triangular(a.tril() + 9 * torch.eye(24, device="cuda"), b, upper=False)),
                    ("power", lambda: torch.linalg.matrix_power(a / 8, 7)), ("normal", lambda: torch.linalg.solve(spd.reshape(2, 360, 24).mT @ spd.reshape(2, 360, 24), b[:2]))):
        try:
            print("linalg", name, digest(f()))
        except Exception as e:
            print("skipped: linalg", name, type(e).__name__)


def sorting():
    g = gen(4)
    x = torch.randn(40, 3001, device="cuda", generator=g)
    k = torch.randint(0, 700, (50_000,), device="cuda", generator=g)
    u, inv, n = k.unique(return_inverse=True, return_counts=True)
    top = x.topk(17, dim=1)
    order = k.argsort(stable=True)
    med = x.abs().sort(1).values[:, 299]
    edges = torch.searchsorted(u, k[:1000])
    rows = torch.stack([k[:2000] % 7, k[:2000] % 5], 1).unique(dim=0)
    print("sorting", u.numel(), digest(u, inv, n), digest(*top), digest(order), digest(med), digest(edges, rows))


def random_streams():
    """Two independent generators and the default one, saved half way and taken up again."""
    a, b = gen(11), gen(12)
    draw = lambda: torch.cat([torch.randn(999, device="cuda", generator=a), torch.rand(57, device="cuda", generator=b), torch.randn(31, device="cuda"),
                              torch.empty(40, device="cuda").exponential_(2, generator=a), torch.randint(0, 99, (8,), device="cuda", generator=b).float(),
                              torch.bernoulli(torch.full((64,), 0.3, device="cuda")), torch.randperm(50, device="cuda", generator=a).float(), torch.randn(5).cuda()])
    first = draw()
    saved = a.get_state(), b.get_state(), torch.cuda.get_rng_state(), torch.get_rng_state()
    second = draw()
    with torch.random.fork_rng():
        torch.manual_seed(1000)
        aside = draw()[1056:1087]
    a.set_state(saved[0])
    b.set_state(saved[1])
    torch.cuda.set_rng_state(saved[2])
    torch.set_rng_state(saved[3])
    third = draw()
    print("random", digest(first), digest(second), digest(aside), "again", torch.equal(second, third), "new", not torch.equal(first, second))


def foreach():
    g = gen(5)
    ps = [torch.randn(1 + (i * 37) % 900, device="cuda", generator=g) for i in range(120)]
    vs = [torch.zeros_like(p) for p in ps]
    for i in range(20):
        gs = torch._foreach_sin(ps)
        torch._foreach_mul_(vs, 0.9)
        torch._foreach_addcmul_(vs, gs, gs, value=0.1)
        den = torch._foreach_add(torch._foreach_sqrt(vs), 1e-3)
        torch._foreach_addcdiv_(ps, gs, den, value=-0.01)
        norms = torch._foreach_norm(ps)
        torch._foreach_lerp_(ps, vs, 0.001)
    print("foreach", digest(*ps), digest(*norms))


for part in (schroedinger, heat_real, sparse_products, scatter_gather, batched_linalg, sorting, random_streams, foreach):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__)
