# Second-order methods and compiled control flow: Gauss-Newton by torch.func, L-BFGS, Shampoo with batched eigenvectors, Newton by conjugate
# gradients, MAML through functional_call, a neural ODE with an adjoint of its own, Gaussian processes; and torch.compile with a pool of
# compiling processes around cond, while_loop and scan, compiled optimizers and gradients, tuning by timing (on whole numbers), stances.
import os
import tempfile
CACHE = tempfile.mkdtemp(prefix="second_order_")
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = CACHE, CACHE + "/triton"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
import hashlib
import shutil
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

NAME, TOTAL, DEV = "torch_second_order", hashlib.sha256(), "cuda"


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().resolve_conj().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def data(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEV, dtype)


def mlp(seed, *sizes):
    torch.manual_seed(seed)
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1]).to(DEV)


def gauss_newton():
    """200 curves of four parameters each, fitted at once; the damping of each depends on whether its step was good."""
    t = torch.linspace(0, 3, 60, device=DEV, dtype=torch.float64)
    curve = lambda p: p[0] * torch.exp(-p[1] * t) * torch.cos(p[2] * t) + p[3]
    truth = data(1, 200, 4, dtype=torch.float64).abs() + 0.5
    seen = vmap(curve)(truth) + 0.01 * data(2, 200, 60, dtype=torch.float64)
    p, damp = truth * 1.2, torch.full((200, 1, 1), 1e-2, device=DEV, dtype=torch.float64)
    res = lambda q, y: curve(q) - y
    for _ in range(15):
        r, j = vmap(res)(p, seen), vmap(jacrev(res))(p, seen)
        a = j.mT @ j + damp * torch.eye(4, device=DEV, dtype=torch.float64)
        q = p - torch.cholesky_solve((j.mT @ r[..., None]), torch.linalg.cholesky(a)).squeeze(-1)
        good = vmap(res)(q, seen).square().sum(1) < r.square().sum(1)
        p, damp = torch.where(good[:, None], q, p), torch.where(good[:, None, None], damp / 3, damp * 4)
    h = vmap(hessian(lambda q, y: res(q, y).square().sum()))(p, seen)
    flat = torch.linalg.lstsq(vmap(jacfwd(curve))(p), seen[..., None]).solution
    print("gauss-newton", bool((p - truth).abs().median() < 0.05), digest(p, h, flat))


def lbfgs_and_shampoo():
    net, x = mlp(3, 8, 32, 1), data(4, 256, 8)
    y = (x.square().sum(1, keepdim=True) / 8).sin()
    opt, calls = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=12, history_size=6, line_search_fn="strong_wolfe"), []

    def closure():
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(5):
        opt.step(closure)
    print("l-bfgs", calls[-1] < calls[0], digest(*net.parameters()))
    w = [p.detach().clone().requires_grad_() for p in (data(5, 6, 48, 40) / 6, data(6, 6, 40, 24) / 6)]
    pre = [[torch.eye(n, device=DEV).expand(6, n, n) * 1e-3 for n in p.shape[1:]] for p in w]
    a, b = data(7, 6, 128, 48), data(8, 6, 128, 24)
    for step in range(20):
        loss = ((a @ w[0]).relu() @ w[1] - b).square().mean((1, 2)).sum()
        for p, lr, g in zip(w, pre, torch.autograd.grad(loss, w)):
            lr[0], lr[1] = lr[0] + g @ g.mT, lr[1] + g.mT @ g
            roots = []
            for m in lr:
                e, v = torch.linalg.eigh(m)
                roots.append((v * e.clamp(min=1e-6).pow(-0.25)[:, None]) @ v.mT)
            with torch.no_grad():
                p -= 0.05 * roots[0] @ g @ roots[1]
    print("shampoo %.3f" % loss.item(), digest(*w))


def newton_and_maml():
    net, x, y = mlp(9, 6, 24, 3), data(10, 128, 6), data(11, 128, 3)
    params = {k: v.detach() for k, v in net.named_parameters()}
    loss = lambda p: (functional_call(net, p, (x,)) - y).square().mean() + 0.02 * sum(v.square().sum() for v in p.values())
    add = lambda a, b, c: {k: a[k] + c * b[k] for k in a}
    dot = lambda a, b: sum((a[k] * b[k]).sum() for k in a)
    for _ in range(5):
        g = grad(loss)(params)
        s, r = {k: torch.zeros_like(v) for k, v in g.items()}, {k: -v for k, v in g.items()}
        d, rr = r, dot(r, r)
        for _ in range(10):
            hd = add(jvp(grad(loss), (params,), (d,))[1], d, 0.1)
            c = rr / dot(d, hd).clamp(min=1e-9)
            s, r = add(s, d, c), add(r, hd, -c)
            new = dot(r, r)
            d, rr = add(r, d, new / rr), new
        params = add(params, s, 0.5)
    print("newton", digest(*params.values()))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, fused=True)

    def adapted(p, tx, ty):
        for _ in range(3):
            g = grad(lambda q: F.mse_loss(functional_call(net, q, (tx,)), ty))(p)
            p = {k: v - 0.1 * g[k] for k, v in p.items()}
        return F.mse_loss(functional_call(net, p, (tx + 0.1,)), ty)

    for step in range(8):
        outer = vmap(adapted, (None, 0, 0))(dict(net.named_parameters()), data(20 + step, 16, 20, 6), data(40 + step, 16, 20, 3)).mean()
        opt.zero_grad()
        outer.backward()
        opt.step()
    stacked, buffers = stack_module_state([mlp(60 + i, 6, 24, 3) for i in range(9)])
    many = vmap(lambda p, b: functional_call(net, (p, b), (x,)))(stacked, buffers)
    print("maml", digest(outer, *net.parameters(), many))


class Flow(torch.autograd.Function):
    """Euler steps forward; the backward pass runs the flow back and keeps nothing."""

    @staticmethod
    def forward(ctx, x, f, steps, *params):
        ctx.f, ctx.steps = f, steps
        with torch.no_grad():
            for _ in range(steps):
                x = x + f(x) / steps
        ctx.save_for_backward(x, *params)
        return x

    @staticmethod
    def backward(ctx, a):
        x, *params = ctx.saved_tensors
        total = [torch.zeros_like(p) for p in params]
        for _ in range(ctx.steps):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                y = ctx.f(x)
                ga, *gp = torch.autograd.grad(y, [x, *params], a / ctx.steps)
            x, a = x - y.detach() / ctx.steps, a + ga
            torch._foreach_add_(total, gp)
        return a, None, None, *total


def ode_and_process():
    f, x = mlp(70, 2, 64, 2), data(71, 512, 2)
    y = x @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]], device=DEV)
    opt = torch.optim.Adamax(f.parameters(), lr=2e-2)
    for _ in range(12):
        loss = F.mse_loss(Flow.apply(x, f, 10, *f.parameters()), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    s = torch.linspace(0, 6, 160, device=DEV, dtype=torch.float64)
    z, theta = s.sin() + 0.1 * data(72, 160, dtype=torch.float64), torch.zeros(3, device=DEV, dtype=torch.float64, requires_grad=True)
    kernel = lambda a, b, th: th[0].exp() * torch.exp(-0.5 * (a[:, None] - b).square() / th[1].exp())
    for _ in range(20):
        chol = torch.linalg.cholesky(kernel(s, s, theta) + (theta[2] - 3).exp() * torch.eye(160, device=DEV, dtype=torch.float64))
        fit = 0.5 * z @ torch.cholesky_solve(z[:, None], chol).squeeze(1) + chol.diagonal().log().sum()
        with torch.no_grad():
            theta -= 0.01 * torch.autograd.grad(fit, theta)[0].clamp(-10, 10)
    q, r = torch.linalg.qr(data(73, 5, 64, 20).mT @ data(74, 5, 64, 20))
    print("ode %.3f process" % loss.item(), digest(*f.parameters()), digest(theta, chol), digest(r.diagonal(dim1=1, dim2=2).abs(), q.abs()))


def compiled_control():
    from torch._higher_order_ops.while_loop import while_loop

    @torch.compile(fullgraph=True)
    def f(x):
        x = torch.cond(x.sum() > 0, lambda v: v.sin() * 2, lambda v: v.cos() - 1, (x,))
        count = torch.zeros((), dtype=torch.int64, device=DEV)
        return while_loop(lambda i, v: (i < 9) & (v.abs().max() > 0.5), lambda i, v: (i + 1, v * 0.8 - 0.01), (count, x))

    print("compiled control", digest(*(t for i in range(4) for t in f(data(80 + i, 300) + (i % 2) - 0.5))))


def compiled_scan():
    from torch._higher_order_ops.associative_scan import associative_scan
    g = torch.compile(lambda a, b: associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), dim=1), fullgraph=True)
    print("compiled scan", digest(*g(torch.sigmoid(data(85, 16, 200, 8)), data(86, 16, 200, 8))))


def compiled_steps():
    net = mlp(90, 16, 64, 64, 4)
    opt = torch.optim.AdamW(net.parameters(), lr=torch.tensor(1e-3, device=DEV), foreach=True, capturable=True)
    step, model = torch.compile(opt.step), torch.compile(net, dynamic=True)
    for i, n in enumerate((32, 50, 64, 32, 7)):
        x = data(91 + i, n, 16)
        loss = model(x).square().mean() + (model(x * 2).amax() if x[0, 0].item() > 0 else 0.0)
        loss.backward()
        step()
        opt.zero_grad()
    with torch.compiler.set_stance("force_eager"):
        eager = model(data(97, 10, 16))
    h = torch.compile(vmap(jacrev(lambda v: torch.tanh(v @ v.outer(v)).sum() + v.prod())))(data(98, 40, 6))
    pull = torch.compile(lambda v: vjp(torch.special.i0e, v)[1](torch.ones_like(v))[0])(data(99, 1000))
    print("compiled steps", digest(loss, eager, *net.parameters()), digest(h, pull))


def compiled_by_timing():
    torch.use_deterministic_algorithms(False)  # else nothing is tuned
    try:
        f = torch.compile(lambda a, b: (a @ b + 1).relu(), mode="max-autotune-no-cudagraphs", dynamic=False)
        ints = lambda s, *shape: torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(s)).to(DEV, torch.float16)
        print("compiled by timing", digest(*(f(ints(i, 256, 96), ints(i + 1, 96, 160)) for i in range(3))))
    finally:
        torch.use_deterministic_algorithms(True, warn_only=True)


torch.use_deterministic_algorithms(True, warn_only=True)
try:
    for f in (gauss_newton, lbfgs_and_shampoo, newton_and_maml, ode_and_process, compiled_control, compiled_scan, compiled_steps,
              compiled_by_timing):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
finally:
    shutil.rmtree(CACHE, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
