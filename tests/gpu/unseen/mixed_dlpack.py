# PyTorch and CuPy on the same memory (DLPack, __cuda_array_interface__), streams with priorities shared between both,
# pinned tensors that the CPU writes through numpy between launches, events for order and time.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("CUPY_CACHE_DIR", "/tmp/cupy_cache_py_mixed_dlpack")
import hashlib
import threading
import numpy as np
import torch
import cupy as cp

torch.use_deterministic_algorithms(True)
torch.manual_seed(77)


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        a = a.detach().cpu().numpy() if isinstance(a, torch.Tensor) else cp.asnumpy(a)
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()[:16]


WAVE = cp.RawKernel(r"""
extern "C" __global__ void wave(const float* now, const float* old, float* next, int w, int h, float c) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x;
    float n = y > 0 ? now[i - w] : 0, s = y + 1 < h ? now[i + w] : 0;
    float l = x > 0 ? now[i - 1] : 0, r = x + 1 < w ? now[i + 1] : 0;
    next[i] = 2 * now[i] - old[i] + c * (n + s + l + r - 4 * now[i]);
}""", "wave")


def simulate_and_learn():
    """CuPy's kernel makes the data in PyTorch's tensors; PyTorch trains on them; both on one stream of PyTorch."""
    w, h = 128, 96
    s = torch.cuda.Stream(priority=-1)
    bufs = [torch.zeros(h, w, device="cuda") for _ in range(3)]
    bufs[1][40:50, 60:70] = 1.0
    views = [cp.from_dlpack(b) for b in bufs]
    net = torch.nn.Sequential(torch.nn.Linear(w, 64), torch.nn.Tanh(), torch.nn.Linear(64, w)).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    torch.cuda.synchronize()
    with torch.cuda.stream(s), cp.cuda.ExternalStream(s.cuda_stream):
        for i in range(30):
            old, now, nxt = (views[(i + k) % 3] for k in range(3))
            WAVE((8, 6), (16, 16), (now, old, nxt, np.int32(w), np.int32(h), np.float32(0.2)))
            if i % 3 == 2:
                loss = (net(bufs[(i + 1) % 3]) - bufs[(i + 2) % 3]).square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
    s.synchronize()
    print("simulate", digest(*bufs), "loss %.7f" % loss.item(), digest(*net.parameters()))


def pinned_by_cpu():
    """One pinned buffer, written again and again by the CPU; an event says when it may be."""
    host = torch.zeros(4, 4096, pin_memory=True)
    view = host.numpy()  # the same memory
    back = torch.empty(4096, pin_memory=True)
    high, low = torch.cuda.Stream(priority=-1), torch.cuda.Stream(priority=0)
    free = [torch.cuda.Event() for _ in range(4)]
    dev = torch.empty(4, 4096, device="cuda")
    acc = torch.zeros(4096, device="cuda")
    torch.cuda.synchronize()
    rng = np.random.default_rng(3)
    for i in range(24):
        k = i % 4
        free[k].synchronize()  # the copy out of this slot has run
        view[k, :] = rng.standard_normal(4096, dtype=np.float32)
        view[k, i::100] = i
        high.wait_stream(low)
        with torch.cuda.stream(high):
            dev[k].copy_(host[k], non_blocking=True)
            free[k].record(high)
        low.wait_event(free[k])
        with torch.cuda.stream(low):
            acc.mul_(0.75).add_(dev[k])
    with torch.cuda.stream(low):
        back.copy_(acc, non_blocking=True)
    low.synchronize()
    back.numpy()[:10] = 0  # by the CPU too, then up again without a new buffer
    acc.copy_(back, non_blocking=True)
    torch.cuda.synchronize()
    print("pinned", digest(acc), hashlib.sha256(back.numpy().tobytes()).hexdigest()[:16])


def both_ways():
    x = torch.randn(64, 300, device="cuda")
    c = cp.asarray(x)  # __cuda_array_interface__
    c[:, ::3] *= 2
    cp.cuda.Device().synchronize()
    t = torch.from_dlpack(cp.sort(c, axis=1)[:, 10:-10].copy())
    t.neg_()
    u = torch.as_tensor(cp.arange(60, dtype=cp.float16).reshape(3, 20), device="cuda")
    m = (t[:20].half() @ torch.ones(t.shape[1], 3, device="cuda").half()) @ u
    z = torch.from_dlpack(cp.fft.rfft(cp.from_dlpack(t)))
    torch.cuda.synchronize()
    ptr = cp.ndarray((300,), cp.float32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(x.data_ptr(), x.nbytes, x), 1200))
    ptr += 1  # row 1 of x
    cp.cuda.Device().synchronize()
    numpy_side = np.from_dlpack(x.cpu())
    print("both ways", digest(x, t, m), digest(z.abs()), float(numpy_side[1].sum()) == float(x[1].cpu().numpy().sum()))


def torch_allocator_for_cupy():
    """CuPy takes its memory from PyTorch's caching allocator."""
    def alloc(size, device_id):
        return torch.cuda.caching_allocator_alloc(max(size, 1), device_id, torch.cuda.current_stream().cuda_stream)

    def release(ptr, device_id):
        torch.cuda.caching_allocator_delete(ptr)

    torch_malloc = cp.cuda.PythonFunctionAllocator(alloc, release)
    cp.cuda.set_allocator(torch_malloc.malloc)
    try:
        a = cp.linspace(0, 1, 100_000, dtype=cp.float32)
        b = [cp.sqrt(a[:: k + 1]) for k in range(6)]
        r = digest(*b, cp.cumsum(cp.arange(5000)))
        del a, b
    finally:
        cp.cuda.set_allocator(cp.get_default_memory_pool().malloc)
    print("shared allocator", r)


def two_libraries_two_threads():
    out, start, stop = {}, torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def with_torch():
        s = torch.cuda.Stream(priority=-1)
        with torch.cuda.stream(s):
            start.record(s)
            a = torch.ones(200, 200, device="cuda")
            for i in range(40):
                a = torch.tanh(a @ a.T / 200) + i % 3
            stop.record(s)
        s.synchronize()
        out["torch"] = digest(a)

    def with_cupy():
        s = cp.cuda.Stream(non_blocking=True)
        with s:
            b = cp.arange(40_000, dtype=cp.float64).reshape(200, 200) / 40_000
            for i in range(40):
                b = cp.roll(cp.sin(b) * 1.5, i, axis=i % 2)
                if i % 13 == 0:
                    b.sum().get()
            s.synchronize()
            out["cupy"] = digest(b)

    ts = [threading.Thread(target=f) for f in (with_torch, with_cupy)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    print("threads", sorted(out.items()), "timed", start.elapsed_time(stop) > 0)


for part in (simulate_and_learn, pinned_by_cpu, both_ways, torch_allocator_for_cupy, two_libraries_two_threads):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
