# CuPy as a data warehouse: a CSV file is mapped, goes up in pieces through two pinned buffers and is parsed by kernels (lines found by scans,
# numbers and words by threads); joins, groups, windows and quantiles by sorts; a compressed column format written to a file and read back; a
# hash table of integers with atomics; CUB and templates in raw modules; a query as a graph that runs again on new pieces; threads, dlpack.
import os
import tempfile
FOLDER = tempfile.mkdtemp(prefix="cupy_table_")
os.environ["CUPY_CACHE_DIR"] = os.path.join(FOLDER, "cache")
import hashlib
import mmap
import shutil
import threading
import numpy as np
import cupy as cp
import cupyx

NAME, TOTAL = "cupy_table_etl", hashlib.sha256()
ROWS, PIECE, STATE = 120_000, 1 << 20, {}

SOURCE = r"""
extern "C" {
// One thread a line: "id,word,price,quantity". Prices have two decimals and are kept as cents; words become hashes.
__global__ void parse(const char* text, const long long* ends, int lines, long long* id, unsigned long long* word, int* cents, short* quantity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lines) return;
    const char* p = text + (i ? ends[i - 1] + 1 : 0);
    long long n = 0;
    for (; *p != ','; p++) n = n * 10 + (*p - '0');
    id[i] = n;
    unsigned long long h = 1469598103934665603ull;
    for (p++; *p != ','; p++) h = (h ^ (unsigned char)*p) * 1099511628211ull;
    word[i] = h;
    int sign = 1, c = 0;
    p++;
    if (*p == '-') { sign = -1; p++; }
    for (; *p != ','; p++) if (*p != '.') c = c * 10 + (*p - '0');
    cents[i] = sign * c;
    int q = 0;
    for (p++; *p != '\n'; p++) q = q * 10 + (*p - '0');
    quantity[i] = (short)q;
}
__constant__ unsigned int salt[4];
// Open addressing; which slot a key gets may differ from run to run, so the table is sorted before it is looked at.
__global__ void insert(const long long* keys, const int* values, int n, unsigned long long* slots, unsigned long long* sums, int* counts, int mask) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long k = (unsigned long long)keys[i] + 1;
        unsigned int at = (unsigned int)((k * 0x9E3779B97F4A7C15ull) >> 33) ^ salt[k & 3];
        for (;; at++) {
            unsigned long long before = atomicCAS(&slots[at & mask], 0ull, k);
            if (before == 0ull || before == k) {
                atomicAdd(&sums[at & mask], (unsigned long long)(long long)values[i]);
                atomicAdd(&counts[at & mask], 1);
                break;
            }
        }
    }
}
}
"""
TEMPLATE = r"""
template <typename T, int BITS> __global__ void pack(const T* x, unsigned int* out, int n, T least) {
    // BITS for each number, 32 numbers by a warp, written as BITS whole words
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, i = warp * 32 + lane;
    unsigned int v = i < n ? (unsigned int)(x[i] - least) : 0u;
    for (int b = 0; b < BITS; b++) {
        unsigned int w = __ballot_sync(0xffffffffu, (v >> b) & 1u);
        if (lane == 0 && warp * 32 < n) out[warp * BITS + b] = w;
    }
}
template <typename T, int BITS> __global__ void unpack(const unsigned int* in, T* x, int n, T least) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int v = 0;
    for (int b = 0; b < BITS; b++) v |= ((in[(i / 32) * BITS + b] >> (i % 32)) & 1u) << b;
    x[i] = least + (T)v;
}
"""


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        raw = np.ascontiguousarray(cp.asnumpy(a)).tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def write_csv(path):
    rng = np.random.default_rng(1)
    words = ["w%d" % i + "xyz"[: i % 4] for i in range(400)]
    ids, which = rng.integers(0, 9000, ROWS), (400 * rng.random(ROWS) ** 2).astype(int)
    cents, many = rng.integers(-5000, 100_000, ROWS), rng.integers(1, 50, ROWS)
    with open(path, "w") as f:
        for i, w, c, q in zip(ids.tolist(), which.tolist(), cents.tolist(), many.tolist()):
            f.write("%d,%s,%s%d.%02d,%d\n" % (i, words[w], "-" if c < 0 else "", abs(c) // 100, abs(c) % 100, q))
    return ids, cents, many


def parse_file():
    path = os.path.join(FOLDER, "sales.csv")
    ids, cents, many = write_csv(path)
    module = cp.RawModule(code=SOURCE, options=("-std=c++17", "--use_fast_math"))
    kernel, up, work = module.get_function("parse"), cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    pinned, device = [cupyx.empty_pinned(PIECE, np.uint8) for _ in range(2)], [cp.empty(PIECE, cp.uint8) for _ in range(2)]
    free, parts = [None, None], []
    cp.cuda.Device().synchronize()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        at, k = 0, 0
        while at < len(m):
            end = min(at + PIECE, len(m))
            end = m.rfind(b"\n", at, end) + 1
            if free[k % 2] is not None:
                free[k % 2].synchronize()
            size = end - at
            pinned[k % 2][:size] = np.frombuffer(m[at:end], np.uint8)
            with up:
                if free[k % 2] is not None:
                    up.wait_event(free[k % 2])
                device[k % 2][:size].set(pinned[k % 2][:size], stream=up)
                sent = up.record()
            with work:
                work.wait_event(sent)
                text = device[k % 2][:size]
                ends = cp.flatnonzero(text == 10)
                n = len(ends)
                out = cp.empty(n, cp.int64), cp.empty(n, cp.uint64), cp.empty(n, cp.int32), cp.empty(n, cp.int16)
                kernel((-(-n // 128),), (128,), (text, ends, np.int32(n), *out))
                free[k % 2] = work.record()
            parts.append(out)
            at, k = end, k + 1
    work.synchronize()
    table = [cp.concatenate(c) for c in zip(*parts)]
    same = all((cp.asnumpy(a) == b).all() for a, b in zip((table[0], table[2], table[3]), (ids, cents, many)))
    STATE.update(module=module, id=table[0], word=table[1], cents=table[2], quantity=table[3])
    print("parse", k > 3, same, digest(*table))


def grouped():
    """Words to codes, sums by sorted runs, then a join with a second table by searching, windows of running sums, and ranks."""
    key, total = STATE["word"], STATE["cents"].astype(cp.int64) * STATE["quantity"]
    words, code, count = cp.unique(key, return_inverse=True, return_counts=True)
    order = cp.argsort(code, kind="stable")
    run = cp.cumsum(total[order])
    last = cp.cumsum(count) - 1
    sums = cp.diff(cp.concatenate((cp.zeros(1, cp.int64), run[last])))
    by_hand = cp.zeros(len(words), cp.int64)
    cupyx.scatter_max(by_hand, code, total)
    ids = cp.sort(cp.asarray(np.random.default_rng(2).choice(9000, 5000, replace=False)))
    rate = cp.asarray(np.random.default_rng(3).integers(1, 9, 5000))
    place = cp.minimum(cp.searchsorted(ids, STATE["id"]), len(ids) - 1)
    found = ids[place] == STATE["id"]
    joined = total[found] * rate[place[found]]
    seq = cp.lexsort(cp.stack((cp.arange(ROWS), STATE["id"])))
    who, amount = STATE["id"][seq], total[seq]
    start = cp.concatenate((cp.ones(1, bool), who[1:] != who[:-1]))
    running = cp.cumsum(amount)
    base = cp.flatnonzero(start)[cp.cumsum(start) - 1]
    window = running - cp.where(base > 0, running[base - 1], 0)
    rank = cp.arange(ROWS) - base
    top = cp.sort(cp.partition(total, ROWS - 100)[-100:])
    quant = cp.percentile(STATE["cents"], cp.asarray([1, 25, 50, 75, 99]), method="lower")
    pivot = cp.bincount(code % 20 * 12 + STATE["id"] % 12, minlength=240).reshape(20, 12)
    STATE.update(code=code, total=total)
    print("grouped", int(sums.sum()) == int(total.sum()), digest(words, count, sums, by_hand), digest(joined, window, rank, top, quant, pivot))


def hashed():
    """Salts in constant memory are written twice; the result must not depend on them."""
    module, results = STATE["module"], []
    insert, mask = module.get_function("insert"), (1 << 15) - 1
    salt = cp.ndarray(4, cp.uint32, memptr=module.get_global("salt"))
    for i in range(2):
        salt.set(np.arange(4, dtype=np.uint32) * np.uint32(77 + i))
        slots, sums, counts = cp.zeros(mask + 1, cp.uint64), cp.zeros(mask + 1, cp.uint64), cp.zeros(mask + 1, cp.int32)
        insert((64,), (256,), (STATE["id"], STATE["cents"], np.int32(ROWS), slots, sums, counts, np.int32(mask)))
        used = cp.flatnonzero(slots)
        order = used[cp.argsort(slots[used])]
        results.append((slots[order], sums[order].view(cp.int64), counts[order]))
    same = all(bool((a == b).all()) for a, b in zip(*results))
    print("hashed", same, len(results[0][0]), digest(*results[0]))


def columns_file():
    names = ["pack<int, 17>", "unpack<int, 17>", "pack<short, 6>", "unpack<short, 6>"]
    module = cp.RawModule(code=TEMPLATE, options=("-std=c++17",), name_expressions=names)
    path, whole = os.path.join(FOLDER, "columns.bin"), (ROWS + 31) // 32
    columns = (("cents", 17, np.int32, names[:2]), ("quantity", 6, np.int16, names[2:]))
    with open(path, "wb") as f:
        for name, bits, kind, (pack, _) in columns:
            x, out = STATE[name], cp.zeros(whole * bits, cp.uint32)
            module.get_function(pack)((-(-ROWS // 256),), (256,), (x, out, np.int32(ROWS), kind(int(x.min()))))
            f.write(out.get().tobytes())
    back, ok = [], []
    mapped, at = np.memmap(path, np.uint32, "r"), 0
    for name, bits, kind, (_, unpack) in columns:
        up, out = cp.asarray(np.asarray(mapped[at:at + whole * bits])), cp.empty(ROWS, kind)
        module.get_function(unpack)((-(-ROWS // 256),), (256,), (up, out, np.int32(ROWS), kind(int(STATE[name].min()))))
        at += whole * bits
        ok.append(bool((out == STATE[name]).all()))
        back.append(out)
    del mapped
    code = STATE["code"].astype(cp.int32)
    edge = cp.flatnonzero(cp.concatenate((cp.ones(1, bool), cp.sort(code)[1:] != cp.sort(code)[:-1])))
    length = cp.diff(cp.concatenate((edge, cp.asarray([ROWS]))))
    spread = cp.repeat(cp.sort(code)[edge], [int(n) for n in length.get()])
    print("columns", ok, os.path.getsize(path), digest(*back, length, spread, cp.packbits(code % 3 == 0)))


def blocks_by_cub():
    code = r"""
    #include <cub/block/block_scan.cuh>
    #include <cub/block/block_radix_sort.cuh>
    extern "C" __global__ void sorted(const int* x, int* y, int* s, int n) {
        typedef cub::BlockRadixSort<int, 128, 4> Sort;
        typedef cub::BlockScan<int, 128> Scan;
        __shared__ union { Sort::TempStorage a; Scan::TempStorage b; } t;
        int v[4], at = blockIdx.x * 512 + threadIdx.x * 4;
        for (int i = 0; i < 4; i++) v[i] = at + i < n ? x[at + i] : 2147483647;
        Sort(t.a).Sort(v);
        __syncthreads();
        for (int i = 0; i < 4; i++) { if (at + i < n) y[at + i] = v[i]; v[i] &= 1; }
        Scan(t.b).InclusiveSum(v, v);
        for (int i = 0; i < 4; i++) if (at + i < n) s[at + i] = v[i];
    }"""
    headers = os.path.join(os.path.dirname(cp.__file__), "_core", "include", "cupy", "_cccl")
    paths = tuple("-I" + os.path.join(headers, d) for d in ("cub", "thrust", "libcudacxx"))
    kernel = cp.RawModule(code=code, options=("-std=c++17",) + paths).get_function("sorted")
    x = STATE["cents"][:10_240]
    y, s = cp.empty_like(x), cp.empty_like(x)
    kernel((20,), (128,), (x, y, s, np.int32(10_240)))
    print("blocks", bool((y == cp.sort(x.reshape(20, 512), axis=1).ravel()).all()), digest(y, s))


def query_graph():
    """A query (filter, arithmetic, bins, a running maximum) captured once; new pieces are uploaded and it is launched again."""
    stream, n = cp.cuda.Stream(non_blocking=True), 8192
    cents, quantity, bins, best = cp.zeros(n, cp.int32), cp.zeros(n, cp.int16), cp.zeros(64, cp.int64), cp.zeros(n, cp.int64)
    query = cp.ElementwiseKernel("int32 c, int16 q, raw int64 low", "raw int64 bins, int64 best",
                                 "if (c > low[0]) { long long v = (long long)c * q;"
                                 " atomicAdd((unsigned long long*)&bins[c & 63], (unsigned long long)v); best = v > best ? v : best; }", "query")
    low = cp.zeros(1, cp.int64)
    query(cents, quantity, low, bins, best)  # compiled before the capture
    cp.right_shift(best, 0, out=best)
    cp.add(low, 100, out=low)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        query(cents, quantity, low, bins, best)
        cp.right_shift(best, 0, out=best)
        cp.add(low, 100, out=low)
        graph = stream.end_capture()
    staged, answers = [cupyx.empty_pinned(n, np.int32) for _ in range(2)], []
    bins.fill(0)
    best.fill(0)
    low.fill(0)
    source_c, source_q = cp.asnumpy(STATE["cents"]), STATE["quantity"]
    cp.cuda.Device().synchronize()
    done = [None, None]
    for i in range(14):
        if done[i % 2] is not None:
            done[i % 2].synchronize()
        staged[i % 2][:] = source_c[i * n:(i + 1) * n]
        with stream:
            cents.set(staged[i % 2], stream=stream)
            quantity.data.copy_from_device_async(source_q[i * n:(i + 1) * n].data, n * 2, stream)
            graph.launch(stream)
            done[i % 2] = stream.record()
        if i % 4 == 3:  # the host looks, and may raise the bar
            stream.synchronize()
            answers.append(int(bins.max()))
            if answers[-1] % 2:
                low += 1000
            cp.cuda.Device().synchronize()
    stream.synchronize()
    print("query graph", digest(bins, best, low, np.array(answers)))


def in_threads():
    """Four threads, each with a stream, a pool and a share of the rows; numpy sees pinned results, PyTorch's protocol carries a column."""
    results, errors = [None] * 4, []
    code, total = cp.asnumpy(STATE["code"]).astype(np.int32), cp.asnumpy(STATE["total"])

    def work(t):
        try:
            pool = cp.cuda.MemoryPool()
            with cp.cuda.using_allocator(pool.malloc), cp.cuda.Stream(non_blocking=True) as s:
                c, v = cp.asarray(code[t::4]), cp.asarray(total[t::4])
                for _ in range(5):
                    order = cp.lexsort(cp.stack((v, c.astype(cp.int64))))
                    c, v = c[order], v[order]
                    v = v ^ cp.cumsum(v)
                    c = (c * 5 + 1) % 401
                host = cupyx.empty_pinned(len(v), np.int64)
                v.get(stream=s, out=host, blocking=False)
                lent = cp.from_dlpack(c)
                s.synchronize()
                results[t] = host.copy(), lent.get(stream=s)
                s.synchronize()
                del c, v, order, lent
            pool.free_all_blocks()
        except Exception as e:
            errors.append(type(e).__name__)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("threads", sorted(errors), digest(*[a for r in results if r is not None for a in r]))


try:
    for f in (parse_file, grouped, hashed, columns_file, blocks_by_cub, query_graph, in_threads):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
    STATE.clear()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
