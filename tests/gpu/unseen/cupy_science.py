# CuPy as scientific users take it: FFT plans, sparse matrices and solvers, seeded random numbers, dense solvers,
# sorting, histograms, image and signal filters, and asynchronous transfers.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_cupy_science")
import hashlib
import numpy as np
import cupy as cp
import cupyx
import cupyx.scipy.fft as cfft
import cupyx.scipy.linalg as clinalg
import cupyx.scipy.ndimage as ndi
import cupyx.scipy.signal as sig
import cupyx.scipy.sparse as sp
import cupyx.scipy.sparse.linalg as spl


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(cp.asnumpy(a)).tobytes())
    return h.hexdigest()[:16]


def optional(what, f):
    try:
        return f()
    except Exception as e:
        print("skipped:", what, type(e).__name__)


def data(seed, *shape):
    return cp.asarray(np.random.default_rng(seed).standard_normal(shape))


def fft():
    x = data(1, 6, 64, 90).astype(cp.complex64)
    plan = cfft.get_fft_plan(x, axes=(1, 2))
    with plan:
        f = cfft.fft2(x, axes=(1, 2))
    g = cfft.ifft2(f * 2, axes=(1, 2), plan=plan)
    r = cp.fft.rfft(data(2, 10, 1001))  # an odd length
    d = cfft.dct(data(3, 8, 128), type=2, norm="ortho")
    fir = cp.fft.irfft(r, n=1001)
    big = cp.fft.fftn(data(4, 32, 32, 32))
    print("fft", digest(f, g), digest(r, fir), digest(d), digest(big), "close", bool(cp.allclose(g, x * 2, atol=1e-3)))


def sparse():
    rng = np.random.default_rng(5)
    n, nnz = 3000, 40_000
    i, j = rng.integers(0, n, (2, nnz))
    v = rng.integers(-3, 4, nnz).astype(np.float64)  # whole numbers: exact in any order
    a = sp.coo_matrix((cp.asarray(v), (cp.asarray(i), cp.asarray(j))), shape=(n, n)).tocsr()
    a.sum_duplicates()
    d = cp.asarray(rng.integers(-4, 5, (n, 20)).astype(np.float64))
    p, q = a @ d, a.T.tocsr() @ d[:, 0]
    sq = (a @ a).tocsr()
    sq.sort_indices()
    print("sparse", digest(p), digest(q), digest(sq.indptr, sq.indices, sq.data), "sums", int(a.sum()), int((a + a.T).nnz))
    # a 2-d Laplacian as a stencil, solved without a library's matrix product
    m = 48

    def lap(x):
        u = x.reshape(m, m)
        out = 4.1 * u
        out[1:] -= u[:-1]
        out[:-1] -= u[1:]
        out[:, 1:] -= u[:, :-1]
        out[:, :-1] -= u[:, 1:]
        return out.ravel()

    op = spl.LinearOperator((m * m, m * m), matvec=lap, dtype=cp.float64)
    b = data(6, m * m)
    x, info = spl.cg(op, b, maxiter=60)
    y, info2 = spl.gmres(op, b, restart=15, maxiter=30)
    print("solvers", info >= 0, digest(x), info2 >= 0, digest(y))
    tri = sp.csr_matrix(sp.diags([cp.full(499, 0.5), cp.ones(500)], [-1, 0]))
    t = optional("triangular solve", lambda: spl.spsolve_triangular(tri, data(7, 500), lower=True))
    w = optional("spsolve", lambda: spl.spsolve(tri, data(8, 500)))
    print("direct", *[digest(z) for z in (t, w) if z is not None])


def random():
    out = []
    for bits in (cp.random.XORWOW, cp.random.Philox4x3210, cp.random.MRG32k3a):
        g = cp.random.Generator(bits(seed=123))
        out.append(digest(g.random(1000), g.standard_normal(501, dtype=cp.float32), g.integers(0, 1000, 333), g.exponential(2.0, 77)))
    rs = cp.random.RandomState(99)
    out.append(digest(rs.rand(10, 10), rs.randn(11), rs.uniform(-1, 1, 64), rs.lognormal(size=31)))
    cp.random.seed(5)
    a = cp.random.permutation(2000)
    cp.random.shuffle(a)
    out.append(digest(a, cp.random.randint(0, 50, 100), cp.random.choice(cp.arange(100), 20)))
    print("random", *out)


def dense():
    a = data(9, 150, 150)
    s = a @ a.T + 150 * cp.eye(150)
    w, v = cp.linalg.eigh(s)
    u, t, vt = cp.linalg.svd(a[:, :80], full_matrices=False)
    q, r = cp.linalg.qr(a[:, :100])
    c = cp.linalg.cholesky(s)
    x = cp.linalg.solve(s, a[:, :7])
    lu = clinalg.lu_factor(a)
    y = clinalg.lu_solve(lu, a[:, :3])
    z = clinalg.solve_triangular(c, a[:, :5], lower=True)
    inv = cp.linalg.inv(cp.stack([s[:40, :40], s[40:80, 40:80]]))
    ls = cp.linalg.lstsq(a[:, :30], a[:, 31], rcond=None)[0]
    print("dense", digest(w, cp.abs(v)), digest(t), digest(q, r), digest(c, x), digest(lu[0], y, z), digest(inv, ls),
          "det %.6f" % float(cp.linalg.slogdet(s)[1]))
    e = cp.einsum("bij,bjk,kl->bil", data(10, 5, 20, 30), data(11, 5, 30, 10), data(12, 10, 6))
    k = cp.kron(a[:10, :10], cp.tensordot(a[:4], a[:, :4], axes=([1], [0])))
    print("products", digest(e), digest(k), digest(cp.linalg.matrix_power(s[:20, :20] / 150, 5)))


def sorting():
    k = cp.asarray(np.random.default_rng(13).integers(0, 10_000, 100_000))
    u, first, inv, cnt = cp.unique(k, return_index=True, return_inverse=True, return_counts=True)
    order = cp.lexsort(cp.stack([k % 97, k // 97]))
    hist, edges = cp.histogram(k, bins=50)
    acc = cp.zeros(100, cp.int64)
    cupyx.scatter_add(acc, k % 100, k)
    part = cp.sort(cp.partition(k, 500)[:500])
    idx = cp.searchsorted(cp.sort(k), cp.arange(0, 10_000, 37))
    h2 = cp.histogram2d(k[:5000].astype(float), (k[5000:10_000] % 77).astype(float), bins=(8, 9))[0]
    print("sorting", len(u), digest(u, inv, cnt), digest(k[order]), digest(hist, edges, acc), digest(part, idx, h2),
          digest(cp.bincount(k % 64), cp.nonzero(k > 9990)[0], cp.argmax(k), cp.percentile(k, [5, 50, 99])))


def images():
    img = data(14, 120, 144).astype(cp.float32)
    sm = ndi.gaussian_filter(img, 2.0)
    med = ndi.median_filter(img, size=5)
    edge = cp.hypot(ndi.sobel(sm, 0), ndi.sobel(sm, 1))
    lab, count = ndi.label(sm > 0.05)
    rot = ndi.rotate(img, 30, order=1, reshape=False)
    zoom = ndi.zoom(img, 1.5, order=3)
    mor = ndi.binary_dilation(sm > 0.1, iterations=2)
    co = cp.stack(cp.meshgrid(cp.linspace(0, 119, 50), cp.linspace(0, 143, 60), indexing="ij"))
    print("images", digest(sm, med), digest(edge), int(count), int((lab > 0).sum()), digest(rot), digest(zoom), digest(mor),
          digest(ndi.map_coordinates(img, co, order=1)))


def signals():
    x = data(15, 4000)
    taps = sig.firwin(65, 0.2)
    y = sig.fftconvolve(x, taps, mode="same")
    c = sig.correlate(x[:500], y[:100], mode="valid")
    im = sig.convolve2d(data(16, 60, 50), data(17, 5, 7), mode="same")
    print("signals", digest(y), digest(c), digest(im), digest(sig.medfilt(x, 7)), digest(sig.hilbert(x[:1024])))
    sos = optional("sosfilt", lambda: sig.sosfilt(sig.butter(4, 0.1, output="sos"), x))
    sg = optional("savgol_filter", lambda: sig.savgol_filter(x, 21, 3))
    rs = optional("resample_poly", lambda: sig.resample_poly(x, 3, 2))
    print("more signals", *[digest(z) for z in (sos, sg, rs) if z is not None])


def transfers():
    rng = np.random.default_rng(18)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    up = [cupyx.empty_pinned((256, 257), dtype=np.float32) for _ in range(2)]
    down = [cupyx.empty_pinned((256, 256), dtype=np.float32) for _ in range(2)]
    dev = [cp.empty((256, 257), cp.float32) for _ in range(2)]
    cp.cuda.Device().synchronize()
    seen = hashlib.sha256()
    for i in range(10):  # double buffering: a buffer is written again only when its stream is done with it
        k, s = i % 2, streams[i % 2]
        s.synchronize()
        if i >= 2:
            seen.update(down[k].tobytes())
        up[k][...] = rng.standard_normal((256, 257), dtype=np.float32)
        with s:
            dev[k].set(up[k], stream=s)
            r = dev[k][:, :256].copy()
            r = cp.tanh(r) + r.T[::-1]
            r.get(stream=s, out=down[k], blocking=False)
    for s, d in zip(streams, down):
        s.synchronize()
        seen.update(d.tobytes())
    plain = cp.asnumpy(cp.asarray(np.arange(1_000_000)[::3]) * 2)
    strided = dev[0].T[3:50:4, ::5].get(order="F")
    print("transfers", seen.hexdigest()[:16], int(plain.sum()), hashlib.sha256(strided.tobytes()).hexdigest()[:16])


for part in (fft, sparse, random, dense, sorting, images, signals, transfers):
    optional(part.__name__, part)
cp.cuda.Device().synchronize()
