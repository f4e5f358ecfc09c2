# CuPy: sparse matrices and solvers, linear algebra, random generators, sorting and searching, convolutions
import cupy as cp
import cupyx.scipy.ndimage as nd
import cupyx.scipy.sparse as sp
from cupyx.scipy.sparse.linalg import cg

n = 400
a = sp.diags([-1, 4, -1], [-1, 0, 1], shape=(n, n), format="csr")
b = cp.ones(n)
x, info = cg(a, b)
print("cg", info, round(float(x.sum()), 3), (a @ a).nnz, round(float((a.T @ b)[0]), 3))
rng = cp.random.Generator(cp.random.XORWOW(31))
r = rng.random((256, 256))
print("random", round(float(r.mean()), 2), int(cp.searchsorted(cp.sort(r.ravel()), 0.5)) > 30000)
print("linear", round(float(cp.linalg.svd(r, compute_uv=False)[0]), 3), round(float(cp.linalg.eigh(r @ r.T)[0][-1]), 2), bool(cp.allclose(cp.linalg.inv(r) @ r, cp.eye(256), atol=1e-6)))
print("image", round(float(nd.gaussian_filter(r, 2).std()), 4), int(nd.label(r > 0.9)[1]) > 0)
print("keys", int(cp.unique((r * 100).astype(cp.int32)).size), cp.lexsort(cp.stack([r[0], r[1]]))[:4].tolist())
