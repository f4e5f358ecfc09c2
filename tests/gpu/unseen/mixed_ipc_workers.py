# Several processes on one GPU: tensors go to workers and come back through CUDA's inter-process memory (PyTorch's queues),
# a raw buffer of CuPy's is written by another process and waited for by an inter-process event, two workers own a half each
# of weights that the parent trains on, and one worker only computes features and returns them by a pipe.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_mixed_ipc_workers")
import hashlib
import numpy as np
import torch
import torch.multiprocessing as mp

N = 50_000


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        t = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
        h.update(np.ascontiguousarray(t).tobytes())
    return h.hexdigest()[:16]


def settle():
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False


def changer(k, todo, done):
    """Takes tensors of the parent's and changes them where they are."""
    settle()
    while True:
        job = todo.get()
        if job is None:
            return
        i, t = job
        t.mul_(3).add_(i * 7 + k).remainder_(10007)
        if i % 2:
            t.copy_(t.flip(0))
        torch.cuda.synchronize()
        del t, job
        done.put(i)


def maker(count, out, ack):
    """Makes tensors of its own and lends them to the parent, one after the other."""
    settle()
    w = torch.from_numpy(np.random.default_rng(1).standard_normal((200, 200), dtype=np.float32)).cuda() / 14
    x, kept = torch.eye(200, device="cuda"), []
    for i in range(count):
        x = torch.tanh(x @ w + 0.1 * i)
        kept.append(x.clone())
        torch.cuda.synchronize()
        out.put((i, kept[-1]))
        ack.get()
        kept[-1].zero_()  # the parent has copied it
        if i % 3 == 2:
            kept.clear()
    out.put(None)
    ack.get()


def raw(pipe):
    """Opens the parent's buffer by its handle, writes to it when told, and records an event that the parent waits for."""
    try:
        import cupy as cp
        from cupy.cuda import runtime
        memory, s = runtime.ipcOpenMemHandle(pipe.recv()), cp.cuda.Stream(non_blocking=True)
        a = cp.ndarray(N, cp.int32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(memory, N * 4, None, 0), 0))
        event = runtime.eventCreateWithFlags(runtime.eventInterprocess | runtime.eventDisableTiming)
        pipe.send(runtime.ipcGetEventHandle(event))
        while (k := pipe.recv()) is not None:
            with s:
                a[...] = (a * 31 + cp.arange(N, dtype=cp.int32) % (k + 2)) % 99991
                a[k::17] = cp.sort(a[k::17])
            runtime.eventRecord(event, s.ptr)
            pipe.send(k)
        s.synchronize()
        runtime.ipcCloseMemHandle(memory)
        pipe.send("closed")
    except Exception as e:
        pipe.send(type(e).__name__)


def owner(k, weights, todo, done):
    """Updates its half of shared weights from gradients that the parent left in shared memory too."""
    settle()
    p, g = weights
    half = slice(k * 32, (k + 1) * 32)
    momentum = torch.zeros_like(p[half])
    while todo.get() is not None:
        momentum.mul_(0.9).add_(g[half])
        p[half].sub_(momentum, alpha=0.05)
        torch.cuda.synchronize()
        done.put(k)
    del p, g, weights


def features(pipe):
    """Shares nothing but the GPU itself."""
    settle()
    f = torch.from_numpy(np.random.default_rng(2).standard_normal((64, 300), dtype=np.float32)).cuda()
    while (x := pipe.recv()) is not None:
        pipe.send(torch.relu(torch.from_numpy(x).cuda() @ f).cpu().numpy())


def start(ctx, f, *args):
    p = ctx.Process(target=f, args=args, daemon=True)
    p.start()
    return p


def change_in_place(ctx):
    todo, done = [ctx.Queue() for _ in range(2)], [ctx.Queue() for _ in range(2)]
    procs = [start(ctx, changer, k, todo[k], done[k]) for k in range(2)]
    pool = [torch.arange(N + 1000 * i, device="cuda", dtype=torch.int64) for i in range(4)]
    seen = []
    for i in range(16):
        t = pool[i % 4]
        t.add_(i)
        torch.cuda.synchronize()
        todo[i % 2].put((i, t))
        assert done[i % 2].get(timeout=120) == i
        seen.append(t.sum().item())  # what another process has made of it
        t.bitwise_xor_(i)
    for q in todo:
        q.put(None)
    for p in procs:
        p.join(30)
    print("changed in place", seen[:3], hashlib.sha256(repr(seen).encode()).hexdigest()[:16], digest(*pool))


def lent(ctx):
    out, ack, count = ctx.Queue(), ctx.Queue(), 9
    p, mine = start(ctx, maker, count, out, ack), []
    while (job := out.get(timeout=120)) is not None:
        i, t = job
        mine.append(t.clone() * (1 + i))
        if i % 2:
            mine[-1] += t.t()
        torch.cuda.synchronize()
        del t, job
        ack.put(i)
    ack.put(None)
    p.join(30)
    print("lent", len(mine), digest(*mine))


def raw_buffer(ctx):
    import cupy as cp
    from cupy.cuda import runtime
    ours, theirs = ctx.Pipe()
    p = start(ctx, raw, theirs)
    memory, s = runtime.malloc(N * 4), cp.cuda.Stream(non_blocking=True)
    a = cp.ndarray(N, cp.int32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(memory, N * 4, None, 0), 0))
    a[...] = cp.arange(N, dtype=cp.int32)
    cp.cuda.Device().synchronize()
    ours.send(runtime.ipcGetMemHandle(memory))
    handle = ours.recv()
    if isinstance(handle, str):
        raise RuntimeError(handle)
    event, seen = runtime.ipcOpenEventHandle(handle), []
    for k in range(10):
        ours.send(k)
        if ours.recv() != k:
            raise RuntimeError("worker")
        runtime.streamWaitEvent(s.ptr, event)
        with s:
            seen.append(a[::3].copy())
            a += k
        s.synchronize()
    ours.send(None)
    end = ours.recv()
    p.join(30)
    print("raw buffer", end, hashlib.sha256(b"".join(x.get().tobytes() for x in seen)).hexdigest()[:16])
    del a
    runtime.eventDestroy(event)
    runtime.free(memory)


def shared_weights(ctx):
    p, g = torch.zeros(64, 40, device="cuda"), torch.zeros(64, 40, device="cuda")
    x = torch.from_numpy(np.random.default_rng(3).standard_normal((500, 40), dtype=np.float32)).cuda()
    goal = torch.sin(x @ torch.from_numpy(np.random.default_rng(4).standard_normal((40, 64), dtype=np.float32)).cuda())
    torch.cuda.synchronize()
    todo, done = [ctx.Queue() for _ in range(2)], ctx.Queue()
    procs = [start(ctx, owner, k, (p, g), todo[k], done) for k in range(2)]
    losses = []
    for step in range(25):
        w = p.clone().requires_grad_()
        loss = (torch.tanh(x @ w.t()) - goal).square().mean() * 20
        loss.backward()
        g.copy_(w.grad)
        torch.cuda.synchronize()
        for q in todo:
            q.put(step)
        for _ in range(2):
            done.get(timeout=120)
        losses.append(loss.item())
    for q in todo:
        q.put(None)
    for q in procs:
        q.join(30)
    print("shared weights %.4f -> %.4f" % (losses[0], losses[-1]), digest(p))


def by_pipe(ctx):
    ours, theirs = ctx.Pipe()
    p, x, out = start(ctx, features, theirs), np.random.default_rng(5).standard_normal((90, 64), dtype=np.float32), []
    for _ in range(8):
        ours.send(x)
        y = torch.from_numpy(ours.recv()).cuda()
        out.append(y)
        x = torch.nn.functional.normalize(y[:, :64] - y[:, 64:128]).cpu().numpy()
    ours.send(None)
    p.join(30)
    print("by pipe", digest(*out))


def main():
    settle()
    ctx = mp.get_context("spawn")
    for part in (by_pipe, change_in_place, lent, shared_weights, raw_buffer):
        try:
            part(ctx)
        except Exception as e:
            print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
