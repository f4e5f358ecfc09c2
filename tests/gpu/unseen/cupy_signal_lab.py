# CuPy as a signal laboratory: splines and interpolators, filters, spectra and peaks, labelled images and morphology, sparse eigenproblems
# and least squares, special functions and statistics, generators of three kinds of random numbers, vectorised and generalised functions
# written in Python, ufuncs with where and out, scatters of whole numbers; batches go up from a pinned pool while others are at work.
import os
import tempfile
CACHE = tempfile.mkdtemp(prefix="cupy_signal_")
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["CUPY_CACHE_DIR"] = CACHE
import hashlib
import shutil
import numpy as np
import cupy as cp
import cupyx
import cupyx.scipy.ndimage as ndi
import cupyx.scipy.signal as sig
import cupyx.scipy.sparse as sp
import cupyx.scipy.sparse.linalg as spl
import cupyx.scipy.special as special

NAME, TOTAL = "cupy_signal_lab", hashlib.sha256()
LARGEST = cp.ReductionKernel("X x", "Y y", "x", "max(a, b)", "y = a", "-1e30", "largest_of_window")


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        raw = np.ascontiguousarray(cp.asnumpy(a)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def data(seed, *shape):
    return cp.asarray(np.random.default_rng(seed).standard_normal(shape))


def interpolation():
    from cupyx.scipy import interpolate as ip
    x = cp.linspace(0, 10, 60)
    y = cp.sin(x) + 0.1 * data(1, 60)
    t = cp.linspace(0.01, 9.99, 2000)
    spline, pchip, akima = ip.make_interp_spline(x, y, k=3), ip.PchipInterpolator(x, y), ip.Akima1DInterpolator(x, y)
    out = [spline(t), spline.derivative()(t), spline.antiderivative()(t), pchip(t), akima(t), ip.CubicSpline(x, y)(t)]
    grid = ip.RegularGridInterpolator((x[:20], x[:30], x[:15]), data(2, 20, 30, 15), method="linear")
    out.append(grid(cp.random.default_rng(3).random((5000, 3)) * 2))
    out.append(ip.RBFInterpolator(data(4, 80, 2), data(5, 80), kernel="thin_plate_spline", smoothing=0.1)(data(6, 300, 2)))
    print("interpolation", digest(*out[:6]), digest(out[6]), bool(cp.isfinite(out[7]).all()))


def filters():
    x = cp.cumsum(cp.asarray(np.random.default_rng(7).integers(-3, 4, (6, 8192))), axis=1).astype(cp.float64) / 16
    sos = sig.butter(4, 0.2, output="sos")
    b, a = sig.butter(3, [0.1, 0.4], "bandpass")
    out = [sig.sosfilt(sos, x), sig.sosfiltfilt(sos, x), sig.lfilter(b, a, x), sig.filtfilt(b, a, x), sig.savgol_filter(x, 21, 3),
           sig.resample_poly(x, 3, 2, axis=1), sig.decimate(x, 4), sig.detrend(x), sig.hilbert(x), sig.medfilt(x[0], 9),
           sig.upfirdn(cp.ones(5), x, 2, 3)]
    f, t, z = sig.stft(x, nperseg=256)
    out += [z, sig.istft(z)[1], sig.welch(x, nperseg=512)[1], sig.csd(x[:3], x[3:], nperseg=512)[1], sig.spectrogram(x[0])[2]]
    peaks, props = sig.find_peaks(x[0], height=0.5, prominence=1.0, distance=20)
    print("filters", len(out), digest(*out), "peaks", len(peaks) > 0, digest(peaks, props["prominences"]))
    print("windows", digest(*(sig.get_window(w, 129) for w in ("hann", "blackmanharris", ("kaiser", 8.0), "flattop", ("tukey", 0.3)))),
          digest(sig.chirp(cp.linspace(0, 1, 999), 5, 1, 200)),
          digest(sig.convolve2d(x[:, :300], x[:3, :5], "same"), sig.correlate(x[0], x[1, :100], "valid")))


def images():
    blobs = ndi.gaussian_filter(data(8, 300, 400), 4)
    mask = blobs > 0.05
    labels, n = ndi.label(mask, structure=cp.ones((3, 3)))
    index = cp.arange(1, n + 1)
    whole = (blobs * 4096).round()  # sums of whole numbers are exact in any order
    out = [labels, ndi.sum_labels(whole, labels, index), ndi.maximum(whole, labels, index), ndi.minimum_position(whole, labels, 3),
           ndi.binary_fill_holes(mask), ndi.binary_opening(mask, iterations=2), ndi.grey_dilation(whole, (5, 5)),
           ndi.white_tophat(whole, 7),
           ndi.distance_transform_edt(mask), ndi.zoom(blobs, 0.7, order=3), ndi.rotate(blobs, 17, reshape=False), ndi.sobel(blobs),
           ndi.median_filter(whole, 5), ndi.percentile_filter(whole, 30, 7), ndi.spline_filter(blobs), ndi.gaussian_laplace(blobs, 2),
           ndi.generic_filter(whole, LARGEST, 3), ndi.histogram(whole, -2000, 2000, 40)]
    print("images labels", n > 10, digest(*[o if isinstance(o, cp.ndarray) else np.asarray([int(v) for v in o]) for o in out]))


def sparse():
    n = 60
    one = sp.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1], format="csr")
    lap = (sp.kron(one, sp.identity(n)) + sp.kron(sp.identity(n), one)).tocsr()
    b, shift = data(9, n * n), lap + 0.5 * sp.identity(n * n, format="csr")
    e, v = spl.eigsh(lap, k=4, which="LA", v0=b.copy())
    norms = [float(cp.linalg.norm(lap @ v - v * e)) < 1e-4]
    for name, solve in (("gmres", lambda: spl.gmres(shift, b, rtol=1e-8, restart=30)[0]), ("cg", lambda: spl.cg(shift, b, rtol=1e-10)[0]),
                        ("minres", lambda: spl.minres(shift, b, tol=1e-10)[0]), ("cgs", lambda: spl.cgs(shift, b, rtol=1e-10)[0]),
                        # Not lsmr: products with the transposed matrix are added up by atomics.
                        ("spsolve", lambda: spl.spsolve(shift, b)),
                        ("lu", lambda: spl.splu(shift.tocsc()).solve(b)),
                        ("triangle", lambda: spl.spsolve_triangular(sp.tril(shift, format="csr"), b))):
        try:
            x = solve()
            a = sp.tril(shift, format="csr") if name == "triangle" else shift
            norms.append((name, bool(cp.linalg.norm(a @ x - b) < 1e-3)))
        except Exception as err:
            print("skipped: sparse %s: %s" % (name, type(err).__name__))
    i, j = np.random.default_rng(10).integers(0, 500, (2, 6000))
    m = sp.coo_matrix((cp.ones(6000), (cp.asarray(i), cp.asarray(j))), shape=(500, 500)).tocsr()  # whole numbers, twice at some places
    m.sum_duplicates()
    p = (m @ m.T).tocsr()
    p.sort_indices()
    print("sparse", norms, digest(m.indptr, m.indices, m.data),
          digest(p.indptr, p.indices, p.data, m.max(axis=0).toarray(), m.getrow(7).toarray()))


def functions():
    x = cp.linspace(0.05, 12, 4000)
    out = [special.gammaln(x), special.digamma(x), special.j0(x), special.i1e(x), special.erfcx(-x / 9), special.gammainc(x, x[::-1]),
           special.betainc(x, 2.0, x / 13), special.zeta(x + 1.1), special.ndtri(x / 13), special.xlogy(x, x), special.expit(x),
           special.k0(x)]

    @cp.fuse(kernel_name="blend")
    def blend(a, b):
        z = cp.where(a > b, cp.sqrt(cp.abs(a)), b * b)
        return cp.minimum(cp.maximum(z, 0.1), 5.0) - a

    out += [blend(x, x[::-1].copy()), cp.apply_along_axis(lambda r: cp.sort(r)[::2], 1, x.reshape(40, 100))]
    where = cp.zeros_like(x)
    cp.log(x, out=where)
    ids = cp.asarray(np.random.default_rng(11).integers(0, 50, 100_000).astype(np.int32))
    bins = cp.zeros(50, cp.int32)
    cp.add.at(bins, ids, 3)
    cupyx.scatter_max(bins, ids[:100], ids[:100] * 1000)
    h, edges = cp.histogramdd(cp.stack((x, x[::-1], cp.sin(x)), 1), bins=(5, 6, 7))
    out += [where, bins, h, cp.digitize(x, edges[0]), cp.lexsort(cp.stack((ids[:999], -ids[1000:1999]))),
            cp.packbits((ids % 2).astype(bool)),
            cp.partition(ids[:5000], 100)[:100].sum(), *cp.unique(ids[:500], return_inverse=True, return_counts=True),
            cp.polyval(cp.array([1.0, -2, 3]), x), cp.median(x), cp.percentile(x, 33)]
    m = cp.asarray(np.random.default_rng(12).integers(-5, 6, (40, 30))).astype(cp.float64)
    print("functions", len(out), digest(*out, cp.einsum("ij,kj->ik", m, m)))


def from_python():
    @cp.vectorize
    def collatz(n):
        c = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            c += 1
        return c

    print("from Python", digest(collatz(cp.arange(1, 5000))))


def random_numbers():
    out = []
    for bits in (cp.random.XORWOW, cp.random.MRG32k3a, cp.random.Philox4x3210):
        g = cp.random.Generator(bits(seed=13))
        out += [g.random(999), g.integers(0, 1000, 999), g.standard_normal(1001), g.gamma(2.5, size=777), g.poisson(6.0, 777),
                g.beta(2.0, 3.0, 500),
                g.binomial(20, 0.3, 500), g.exponential(2.0, 500), g.geometric(0.2, 500), g.dirichlet(cp.array([1.0, 2.0, 3.0]), 100)]
    cp.random.seed(14)
    out += [cp.random.permutation(1000), cp.random.vonmises(0, 2, 400), cp.random.zipf(2.5, 400), cp.random.choice(500, 50, replace=False),
            cp.random.multivariate_normal(cp.zeros(3), cp.eye(3), 100), cp.random.wald(1.0, 2.0, 300), cp.random.standard_t(4, 300)]
    print("random numbers", len(out), digest(*out))


def batches():
    """Three streams, pinned arrays out of the pool of which every other one goes back as soon as its stream has passed."""
    streams, down = [cp.cuda.Stream(non_blocking=True) for _ in range(3)], cupyx.zeros_pinned((24, 4096), np.float64)
    window, kept, done = sig.get_window("hann", 4096), [], []
    cp.cuda.Device().synchronize()
    for i in range(24):
        up = cupyx.empty_pinned(8192, np.float32)
        up[:] = np.random.default_rng(100 + i).integers(-50, 51, 8192)
        with streams[i % 3] as s:
            x = cp.empty(8192, cp.float32)
            x.set(up, stream=s)
            y = cp.abs(cp.fft.fft(x.astype(cp.float64)[:4096] * window)) + x[4096:]
            y.get(stream=s, out=down[i], blocking=False)
            done.append(s.record())
        if i % 2:
            kept.append(up)
        else:
            s.synchronize()
        if i % 5 == 4:  # the next batch depends on what came down
            done[i - 2].synchronize()
            window = window * (1 + float(np.round(down[i - 2, 5])) / 1e6)
            cp.cuda.get_current_stream().synchronize()
    for e in done:
        e.synchronize()
    print("batches", digest(down))


try:
    for f in (interpolation, filters, images, sparse, functions, from_python, random_numbers, batches):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
finally:
    shutil.rmtree(CACHE, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
