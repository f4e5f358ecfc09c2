# A mixture of experts the way serving engines write it: grouped matrix products in Triton through arrays of pointers made
# on the host, on the device, packed together with other bits, or as differences; tensor-map descriptors from the host and
# made by kernels; fp8, int8 and grouped products of the libraries; dependent and cooperative launches.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/triton_cache_py_torch_moe_pointers")
import hashlib
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
DEV, D, HID, EXPERTS = "cuda", 128, 256, 8


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def data(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEV, dtype)


@triton.jit
def grouped(a_ptrs, b_ptrs, c_ptrs, rows, K, N, PACKED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One program per tile of each group; the bases come out of memory as integers."""
    g = tl.program_id(2)
    m = tl.load(rows + g)
    if tl.program_id(0) * BM < m:
        pa, pb, pc = tl.load(a_ptrs + g), tl.load(b_ptrs + g), tl.load(c_ptrs + g)
        if PACKED:  # the group's number stands in the upper sixteen bits
            pa, pb, pc = pa & 0xFFFFFFFFFFFF, pb & 0xFFFFFFFFFFFF, pc & 0xFFFFFFFFFFFF
        a, b, c = pa.to(tl.pointer_type(tl.float16)), pb.to(tl.pointer_type(tl.float16)), pc.to(tl.pointer_type(tl.float16))
        i, j, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k0 in range(0, K, BK):
            x = tl.load(a + i[:, None] * K + (k0 + k)[None, :], mask=i[:, None] < m, other=0.0)
            y = tl.load(b + (k0 + k)[:, None] * N + j[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + i[:, None] * N + j[None, :], acc.to(tl.float16), mask=i[:, None] < m)


@triton.jit
def make_pointers(base, offsets, out, stride, tag, n, B: tl.constexpr):
    i = tl.arange(0, B)
    o = tl.load(offsets + i, mask=i < n, other=0)
    p = base.to(tl.int64) + o * stride
    tl.store(out + i, p | (i.to(tl.int64) << 48) * tag, mask=i < n)


def run_grouped(a, b, c, rows, k, n, packed):
    grid = (triton.cdiv(int(max(rows)), 32), n // 64, len(rows))
    grouped[grid](a, b, c, torch.tensor(rows, dtype=torch.int32, device=DEV), k, n, PACKED=packed, BM=32, BN=64, BK=32)


def route(x, w_gate, k=2):
    """Tokens sorted by expert; the weights of each token's experts."""
    p = (x.float() @ w_gate).softmax(-1)
    weight, expert = p.topk(k)
    order = expert.reshape(-1).sort(stable=True).indices
    counts = torch.stack([(expert == e).sum() for e in range(EXPERTS)])
    return weight / weight.sum(-1, keepdim=True), order, counts


def experts():
    up = [data(10 + e, D, HID, dtype=torch.float16) / 11 for e in range(EXPERTS)]  # each an allocation of its own
    down = torch.stack([data(30 + e, HID, D, dtype=torch.float16) / 16 for e in range(EXPERTS)])  # all in one
    gate = data(50, D, EXPERTS)
    tables = {"host": torch.tensor([w.data_ptr() for w in up], dtype=torch.int64).pin_memory()}
    tables["device"] = tables["host"].to(DEV, non_blocking=True)
    spread = tables["host"].clone()
    spread[1:] -= tables["host"][:-1]  # differences of addresses, to be summed up on the device
    x = data(60, 300, D, dtype=torch.float16)
    for layer in range(12):
        weight, order, counts = route(x, gate)
        rows = counts.tolist()
        sorted_x = x.repeat_interleave(2, 0)[order].contiguous()
        begin = F.pad(counts.cumsum(0), (1, 0))[:-1].contiguous()
        pa, pc, pd = (torch.zeros(EXPERTS, dtype=torch.int64, device=DEV) for _ in range(3))
        mid, out = torch.zeros(len(order), HID, dtype=torch.float16, device=DEV), torch.zeros_like(sorted_x)
        packed = layer % 2 == 1
        for base, table, width in ((sorted_x, pa, D), (mid, pc, HID)):
            make_pointers[(1,)](base, begin, table, width * 2, int(packed), EXPERTS, B=16)
        pb = (tables["device"], tables["host"], spread.to(DEV).cumsum(0))[layer % 3]  # pinned memory read in place by turns
        run_grouped(pa, pb, pc, rows, D, HID, packed)
        mid = F.silu(mid)
        make_pointers[(1,)](mid, begin, pc, HID * 2, 0, EXPERTS, B=16)
        make_pointers[(1,)](out, begin, pa, D * 2, 0, EXPERTS, B=16)
        make_pointers[(1,)](down, torch.arange(EXPERTS, device=DEV), pd, HID * D * 2, 0, EXPERTS, B=16)
        run_grouped(pc, pd, pa, rows, HID, D, False)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=DEV)
        y = (out[back].view(-1, 2, D) * weight[..., None].half()).sum(1)
        x = F.layer_norm((x + y).float(), (D,)).half()
        if layer % 4 == 3:  # an expert is swapped: new memory, the same table, changed in one place
            e = layer % EXPERTS
            up[e] = data(100 + layer, D, HID, dtype=torch.float16) / 11
            torch.cuda.synchronize()  # nobody reads the table on the host now
            tables["host"][e] = up[e].data_ptr()
            tables["device"].copy_(tables["host"])
            spread = torch.cat([tables["host"][:1], tables["host"].diff()])
            print("layer", layer, rows, digest(x))


@triton.jit
def by_descriptor(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([i, k]), b.load([j, k]).T, acc)
    c.store([i, j], acc.to(tl.float16))


@triton.jit
def descriptors_inside(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The tensor maps are written into scratch memory by the kernel itself."""
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        i, j = tile // tl.cdiv(N, BN) * BM, tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([i, k]), db.load([j, k]).T, acc)
        dc.store([i, j], acc.to(tl.float16))


def tensor_maps():
    from triton.tools.tensor_descriptor import TensorDescriptor
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=DEV))
    m, n, k, out = 512, 384, 256, []
    for turn in range(6):  # freed and allocated anew, so that addresses come again with other shapes
        k = 256 if turn % 2 else 192
        a, b, c = data(turn, m, k, dtype=torch.float16) / 8, data(9 + turn, n, k, dtype=torch.float16) / 8, torch.zeros(m, n, dtype=torch.float16, device=DEV)
        if turn % 3 == 2:
            descriptors_inside[(40,)](a, b, c, m, n, k, BM=64, BN=64, BK=64)
        else:
            da, db, dc = (TensorDescriptor.from_tensor(t, [64, 64]) for t in (a, b, c))
            by_descriptor[(m // 64, n // 64)](da, db, dc, k, BM=64, BN=64, BK=64)
        out.append(c)
        assert torch.allclose(c.float(), a.float() @ b.float().T, atol=0.1)
        del a, b
    g = torch.cuda.CUDAGraph()  # the maps' contents are parameters of a node
    a, b, c = data(70, m, 256, dtype=torch.float16) / 8, data(71, n, 256, dtype=torch.float16) / 8, torch.zeros(m, n, dtype=torch.float16, device=DEV)
    maps = [TensorDescriptor.from_tensor(t, [64, 64]) for t in (a, b, c)]
    torch.cuda.synchronize()
    with torch.cuda.graph(g):
        by_descriptor[(m // 64, n // 64)](*maps, 256, BM=64, BN=64, BK=64)
    for i in range(5):
        g.replay()
        a.copy_(F.normalize(c.float() @ b.float(), dim=1) * 3)
    print("tensor maps", digest(*out), digest(c))


def libraries():
    a, b = data(1, 64, D), data(2, HID, D)
    scale = lambda t: (t.abs().amax() / 448).clamp(min=1e-6)
    try:
        sa, sb = scale(a), scale(b)
        y = torch._scaled_mm((a / sa).to(torch.float8_e4m3fn), (b / sb).to(torch.float8_e4m3fn).t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16)
        ra, rb = a.abs().amax(1, keepdim=True) / 448, b.abs().amax(1, keepdim=True) / 448
        z = torch._scaled_mm((a / ra).to(torch.float8_e4m3fn), (b / rb).to(torch.float8_e4m3fn).t(), scale_a=ra, scale_b=rb.t().contiguous(), out_dtype=torch.bfloat16)
        print("fp8", digest(y, z), round(float((y - a @ b.t()).abs().max()), 2))
    except Exception as e:
        print("skipped: fp8", type(e).__name__)
    q = lambda t: (t * 20).round().clamp(-127, 127).to(torch.int8)
    print("int8", digest(torch._int_mm(q(a), q(b).t())))
    try:
        offs = torch.tensor([16, 16, 40, 64], dtype=torch.int32, device=DEV)
        w = data(3, 4, D, HID, dtype=torch.bfloat16)
        print("grouped", digest(*[torch._grouped_mm(a.bfloat16() * s, w, offs=offs) for s in (1, 2, 3)]))
    except Exception as e:
        print("skipped: grouped", type(e).__name__)
    lu, piv = torch.linalg.lu_factor(data(4, 30, 40, 40))
    print("batched", digest(lu, piv), digest(torch.linalg.lu_solve(lu, piv, data(5, 30, 40, 3))), digest(torch.linalg.inv(data(6, 17, 24, 24))))


@triton.jit
def mixing(x, n, c, B: tl.constexpr, PDL: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if PDL:
        tl.extra.cuda.gdc_wait()
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(x + i, v * 31 + (v >> 5) + c, mask=i < n)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def meeting(x, barrier, n, rounds, B: tl.constexpr):
    """All programs are resident (cooperative launch) and meet between the rounds."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    for r in range(rounds):
        v = tl.load(x + (i + B) % n + (r % 2) * n, volatile=True)
        tl.store(x + i + (1 - r % 2) * n, v * 5 + r)
        tl.debug_barrier()
        tl.atomic_add(barrier, 1, sem="acq_rel", scope="gpu")
        while tl.atomic_add(barrier, 0, sem="acq_rel", scope="gpu") < (r + 1) * tl.num_programs(0):
            pass
        tl.debug_barrier()


def launches():
    n = 64 * 512
    x = torch.arange(n, dtype=torch.int32, device=DEV)
    for name, options in (("pdl", {"launch_pdl": True, "PDL": True}), ("plain", {"PDL": False})):
        try:
            for c in range(30):
                mixing[(n // 512,)](x, n, c, B=512, **options)
            print(name, digest(x))
        except Exception as e:
            print("skipped:", name, type(e).__name__)
    try:
        y, bar = torch.arange(2 * n, dtype=torch.int32, device=DEV), torch.zeros(1, dtype=torch.int32, device=DEV)
        for _ in range(3):
            bar.zero_()
            meeting[(64,)](y, bar, n, 20, B=512, launch_cooperative_grid=True)
        print("cooperative", digest(y))
    except Exception as e:
        print("skipped: cooperative", type(e).__name__)


for part in (experts, tensor_maps, libraries, launches):
    try:
        part()
    except Exception as e:
        print("skipped:", part.__name__, type(e).__name__, str(e).splitlines()[:1])
torch.cuda.synchronize()
