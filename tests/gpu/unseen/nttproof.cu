// A prover in the manner of STARKs: columns are interpolated and extended by number theoretic transforms (modulo 2^64 - 2^32 + 1), committed to by
// Merkle trees, combined and folded; after every root the host draws the next challenge from it, so each launch depends on what was read back. A
// nonce is searched in batches until a word that is copied back tells of one, and openings are gathered by indices from the transcript. The host
// then verifies the proof. Two provers, each with a thread and a stream; memory is given back out of order.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
typedef unsigned long long u64;

constexpr u64 P = 0xFFFFFFFF00000001ull, EPS = 0xFFFFFFFFull;
constexpr int LOG_N = 12, LOG_BIG = 14, SMALL = 1 << LOG_N, BIG = 1 << LOG_BIG, COLUMNS = 6, LAST = 32, QUERIES = 12, FOLDS = LOG_BIG - 5, HARD = 15;

__host__ __device__ inline u64 add(u64 a, u64 b) { u64 r = a + b; if (r < a) r += EPS; return r >= P ? r - P : r; }
__host__ __device__ inline u64 sub(u64 a, u64 b) { return a >= b ? a - b : a + (P - b); }
__host__ __device__ inline u64 mul(u64 a, u64 b)
{
#ifdef __CUDA_ARCH__
    u64 lo = a * b, hi = __umul64hi(a, b);
#else
    unsigned __int128 w = (unsigned __int128)a * b; u64 lo = (u64)w, hi = (u64)(w >> 64);
#endif
    u64 t = lo - (hi >> 32); if (t > lo) t -= EPS;          // 2^96 is -1
    u64 m = (hi & EPS) * EPS, r = t + m; if (r < m) r += EPS;   // 2^64 is 2^32 - 1
    return r >= P ? r - P : r;
}
__host__ __device__ inline u64 power(u64 a, u64 e) { u64 r = 1; for (; e; e >>= 1) { if (e & 1) r = mul(r, a); a = mul(a, a); } return r; }
__host__ __device__ inline u64 inverse(u64 a) { return power(a, P - 2); }
__host__ __device__ inline u64 root_of(int log_size) { return power(1753635133440165772ull, 1ull << (32 - log_size)); }

struct Digest { u64 s[4]; };
__host__ __device__ inline void absorb(Digest &d, u64 v)
{
    u64 x = add(d.s[0], v), x2 = mul(x, x), t = mul(mul(x2, x2), mul(x2, x));   // to the seventh, which is a permutation
    d.s[0] = add(d.s[1], t); d.s[1] = add(d.s[2], mul(t, 3)); d.s[2] = add(d.s[3], x2); d.s[3] = add(t, 0x1234567ull);
}
__host__ __device__ inline Digest join(const Digest &a, const Digest &b) { Digest d = {{1, 2, 3, 4}}; for (int i = 0; i < 4; i++) absorb(d, a.s[i]);
    for (int i = 0; i < 4; i++) absorb(d, b.s[i]); for (int i = 0; i < 4; i++) absorb(d, i); return d; }

__device__ u64 roots[BIG];
__global__ void make_roots() { int i = blockIdx.x * blockDim.x + threadIdx.x; roots[i] = power(root_of(LOG_BIG), i); }
__global__ void make_trace(u64 *v, u64 seed)                // each column is a sequence with a rule, from another start
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    v[c * SMALL + i] = power(add(seed * 7919 + c + 3, 0), (u64)i * (c + 1) + 5);
}
__global__ void reorder(u64 *to, const u64 *from, int log_size) { int i = blockIdx.x * blockDim.x + threadIdx.x, n = 1 << log_size;
    to[blockIdx.y * n + i] = from[blockIdx.y * n + (__brev(i) >> (32 - log_size))]; }
__global__ void spread(u64 *to, const u64 *coefficients, u64 shift, u64 scale)      // onto the larger domain, moved off the smaller one
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = __brev(i) >> (32 - LOG_BIG);
    to[blockIdx.y * BIG + i] = j < SMALL ? mul(mul(coefficients[blockIdx.y * SMALL + j], scale), power(shift, j)) : 0;
}
__device__ inline u64 twiddle(int k, int length, bool back) { int at = k * (BIG / length); return roots[back ? (BIG - at) % BIG : at]; }
__global__ void transform_small(u64 *v, int n, bool back)    // ten stages within the block
{
    __shared__ u64 s[1024];
    u64 *p = v + blockIdx.y * n + blockIdx.x * 1024; int t = threadIdx.x;
    s[t] = p[t]; s[t + 512] = p[t + 512];
    for (int length = 2; length <= 1024; length *= 2) {
        __syncthreads();
        int half = length / 2, k = t % half, at = t / half * length + k;
        u64 a = s[at], b = mul(s[at + half], twiddle(k, length, back));
        s[at] = add(a, b); s[at + half] = sub(a, b);
    }
    __syncthreads();
    p[t] = s[t]; p[t + 512] = s[t + 512];
}
__global__ void transform_stage(u64 *v, int n, int length, bool back)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, half = length / 2, k = t % half; u64 *p = v + blockIdx.y * n + t / half * length + k;
    u64 a = p[0], b = mul(p[half], twiddle(k, length, back)); p[0] = add(a, b); p[half] = sub(a, b);
}
__global__ void hash_leaves(Digest *tree, const u64 *v, int columns, int size)      // a leaf has what lies at x and at -x
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, leaves = size / 2;
    if (i >= leaves) return;
    Digest d = {{5, 6, 7, 8}};
    for (int c = 0; c < columns; c++) { absorb(d, v[c * size + i]); absorb(d, v[c * size + i + leaves]); }
    tree[leaves + i] = d;
}
__global__ void hash_level(Digest *tree, int count) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) tree[count + i] = join(tree[2 * (count + i)], tree[2 * (count + i) + 1]); }
__global__ void hash_top(Digest *tree, int count) { for (; count; count /= 2) { int i = threadIdx.x;
    if (i < count) tree[count + i] = join(tree[2 * (count + i)], tree[2 * (count + i) + 1]); __syncthreads(); } }
__global__ void combine(u64 *f, const u64 *v, u64 alpha) { int i = blockIdx.x * blockDim.x + threadIdx.x; u64 s = 0;
    for (int c = COLUMNS - 1; c >= 0; c--) s = add(mul(s, alpha), v[c * BIG + i]); f[i] = s; }
__host__ __device__ inline u64 fold_pair(u64 a, u64 b, u64 x, u64 beta) { u64 half = (P + 1) / 2;
    return add(mul(add(a, b), half), mul(beta, mul(mul(sub(a, b), half), inverse(x)))); }
__global__ void fold(u64 *to, const u64 *from, int size, u64 shift, u64 beta)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size / 2) to[i] = fold_pair(from[i], from[i + size / 2], mul(shift, roots[i * (BIG / size)]), beta);
}
__global__ void grind(u64 *lowest, Digest state, u64 first)
{
    u64 nonce = first + blockIdx.x * blockDim.x + threadIdx.x; absorb(state, nonce); absorb(state, 1); absorb(state, 2);
    if ((state.s[0] & ((1 << HARD) - 1)) == 0) atomicMin(lowest, nonce);
}
__global__ void open(u64 *out, int stride, const u64 *v, const Digest *tree, int columns, int size, const int *indices)
{
    int leaves = size / 2, i = indices[blockIdx.x] % leaves; u64 *o = out + blockIdx.x * stride; Digest *path = (Digest *)(o + 2 * columns);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) { o[2 * c] = v[c * size + i]; o[2 * c + 1] = v[c * size + i + leaves]; }
    int level = 0; for (int at = leaves + i; at > 1; at /= 2, level++) if (level % blockDim.x == threadIdx.x) path[level] = tree[at ^ 1];
}

struct Commitment { u64 *values; Digest *tree; int columns, size; Digest root; std::vector<u64> opened; int stride; };
struct Prover {
    cudaStream_t s; Digest transcript = {{9, 9, 9, 9}}; u64 *staging; int *indices; u64 *found, *found_device;
    Prover() { CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaMallocHost(&staging, 4096)); CK(cudaMalloc(&indices, QUERIES * 4));
        CK(cudaMalloc(&found_device, 8)); CK(cudaHostAlloc(&found, 8, cudaHostAllocDefault)); }
    ~Prover() { CK(cudaStreamDestroy(s)); CK(cudaFreeHost(staging)); CK(cudaFreeHost(found)); CK(cudaFree(indices)); CK(cudaFree(found_device)); }
    template <class T> T *take(size_t n) { T *p; CK(cudaMallocAsync(&p, n * sizeof(T), s)); return p; }
    u64 draw() { absorb(transcript, 77); return transcript.s[0]; }
    Commitment commit(u64 *v, int columns, int size)
    {
        Commitment c = {v, take<Digest>(size), columns, size}; int count = size / 2;
        hash_leaves<<<(count + 127) / 128, 128, 0, s>>>(c.tree, v, columns, size);
        for (count /= 2; count > 256; count /= 2) hash_level<<<count / 128, 128, 0, s>>>(c.tree, count);
        hash_top<<<1, 256, 0, s>>>(c.tree, count); CK(cudaGetLastError());
        CK(cudaMemcpyAsync(staging, &c.tree[1], sizeof(Digest), cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        memcpy(&c.root, staging, sizeof(Digest)); for (u64 w : c.root.s) absorb(transcript, w);
        return c;
    }
    void transform(u64 *v, int n, bool back)
    {
        transform_small<<<dim3(n / 1024, COLUMNS), 512, 0, s>>>(v, n, back);
        for (int length = 2048; length <= n; length *= 2) transform_stage<<<dim3(n / 512, COLUMNS), 256, 0, s>>>(v, n, length, back);
    }
    int prove(u64 seed, u64 &checksum)
    {
        u64 *trace = take<u64>(COLUMNS * SMALL), *mixed = take<u64>(COLUMNS * SMALL), *wide = take<u64>(COLUMNS * BIG);
        make_trace<<<dim3(SMALL / 256, COLUMNS), 256, 0, s>>>(trace, seed);
        reorder<<<dim3(SMALL / 256, COLUMNS), 256, 0, s>>>(mixed, trace, LOG_N); transform(mixed, SMALL, true);
        spread<<<dim3(BIG / 256, COLUMNS), 256, 0, s>>>(wide, mixed, 7, inverse(SMALL)); transform(wide, BIG, false); CK(cudaGetLastError());
        std::vector<Commitment> c; c.push_back(commit(wide, COLUMNS, BIG)); CK(cudaFreeAsync(trace, s));
        u64 alpha = draw(), shift = 7; std::vector<u64> betas;
        u64 *f = take<u64>(BIG); combine<<<BIG / 256, 256, 0, s>>>(f, wide, alpha);
        int size = BIG;
        for (int k = 0; k < FOLDS; k++, size /= 2) {
            c.push_back(commit(f, 1, size)); betas.push_back(draw());
            u64 *next = take<u64>(size / 2); fold<<<(size / 2 + 127) / 128, 128, 0, s>>>(next, f, size, shift, betas[k]); f = next;
            shift = mul(shift, shift);
        }
        std::vector<u64> last(LAST); CK(cudaMemcpyAsync(staging, f, LAST * 8, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        memcpy(last.data(), staging, LAST * 8);
        for (u64 v : last) absorb(transcript, v);
        int tries = 0; *found = ~0ull; CK(cudaMemcpyAsync(found_device, found, 8, cudaMemcpyHostToDevice, s));
        do {                                                // the lowest nonce of the first batch that has any
            grind<<<64, 128, 0, s>>>(found_device, transcript, 8192ull * tries++);
            CK(cudaMemcpyAsync(found, found_device, 8, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        } while (*found == ~0ull);
        Digest nonce_hash = transcript; absorb(nonce_hash, *found); absorb(nonce_hash, 1); absorb(nonce_hash, 2); absorb(transcript, *found);
        int wrong = (nonce_hash.s[0] & ((1 << HARD) - 1)) != 0, chosen[QUERIES];
        for (int &q : chosen) q = int(draw() % (BIG / 2));
        CK(cudaMemcpyAsync(indices, chosen, sizeof chosen, cudaMemcpyHostToDevice, s));
        for (Commitment &k : c) {
            int depth = 0; while (2 << depth < k.size) depth++;
            k.stride = 2 * k.columns + 4 * depth; k.opened.resize(k.stride * QUERIES); u64 *out = take<u64>(k.opened.size());
            open<<<QUERIES, 4, 0, s>>>(out, k.stride, k.values, k.tree, k.columns, k.size, indices); CK(cudaGetLastError());
            CK(cudaMemcpyAsync(k.opened.data(), out, k.opened.size() * 8, cudaMemcpyDeviceToHost, s)); CK(cudaFreeAsync(out, s));
        }
        CK(cudaStreamSynchronize(s));
        for (size_t k = 0; k < c.size(); k++) { CK(cudaFreeAsync(c[k].values, s)); CK(cudaFreeAsync(c[c.size() - 1 - k].tree, s)); }
        CK(cudaFreeAsync(mixed, s)); CK(cudaFreeAsync(f, s));

        // The verifier: the last layer has a low degree, every path leads to its root, every fold is right
        for (int k = 0; k < LAST; k++) { u64 sum = 0;
            for (int i = 0; i < LAST; i++) sum = add(sum, mul(last[i], power(inverse(root_of(5)), (u64)i * k)));
            if (k >= LAST * SMALL / BIG) wrong += sum != 0; }
        for (int q = 0; q < QUERIES; q++) {
            u64 expected = 0, sh = 7;
            for (size_t k = 0; k < c.size(); k++) {
                int leaves = c[k].size / 2, i = chosen[q] % leaves; const u64 *o = &c[k].opened[q * c[k].stride];
                const Digest *path = (const Digest *)(o + 2 * c[k].columns);
                Digest d = {{5, 6, 7, 8}}; for (int j = 0; j < 2 * c[k].columns; j++) absorb(d, o[j]);
                for (int at = leaves + i; at > 1; at /= 2) { d = at & 1 ? join(*path, d) : join(d, *path); path++; }
                wrong += memcmp(&d, &c[k].root, sizeof d) != 0;
                if (k == 0) { u64 a = 0; for (int j = COLUMNS - 1; j >= 0; j--) a = add(mul(a, alpha), o[2 * j]); expected = a; continue; }
                wrong += o[k > 1 && chosen[q] % (2 * leaves) >= leaves] != expected;
                int log_size = 0; while (1 << log_size < c[k].size) log_size++;
                expected = fold_pair(o[0], o[1], mul(sh, power(root_of(log_size), i)), betas[k - 1]); sh = mul(sh, sh);
            }
            wrong += last[chosen[q] % LAST] != expected;
        }
        for (u64 w : transcript.s) checksum = (checksum ^ w) * 1099511628211ull; checksum = (checksum ^ *found) * 1099511628211ull;
        return wrong;
    }
};

int main()
{
    u64 sums[2] = {1, 2}; int wrong[2] = {0, 0}; std::thread threads[2];
    make_roots<<<BIG / 256, 256>>>(); CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    for (int t = 0; t < 2; t++) threads[t] = std::thread([&, t] { Prover p; for (u64 k = 0; k < 3; k++) wrong[t] += p.prove(k * 2 + t, sums[t]); });
    for (auto &t : threads) t.join();
    printf("provers: wrong %d and %d\n", wrong[0], wrong[1]);
    printf("nttproof: checksum %016llx wrong %d\n", sums[0] * 31 ^ sums[1], wrong[0] + wrong[1]);
    return wrong[0] + wrong[1] != 0;
}
