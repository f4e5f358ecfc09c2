// The tensor memory accelerator: tiles come by descriptors (CUtensorMap) that are parameters, lie in constant memory, or in a table in device memory
// which the host rewrites for every batch; a producer warp fills a ring of swizzled stages, four warps multiply 8-bit integers (ldmatrix, mma), and
// the parts of a split depth are added up by reducing bulk copies.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int TM = 64, TN = 64, TK = 128, STAGES = 3, MAXB = 6;

__device__ inline uint32_t sh(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void bar_init(uint64_t *b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(sh(b)), "r"(n) : "memory"); }
__device__ inline void bar_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(sh(b)), "r"(bytes) : "memory"); }
__device__ inline void bar_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(sh(b)) : "memory"); }
__device__ inline void bar_wait(uint64_t *b, uint32_t phase) {
    uint32_t done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(sh(b)), "r"(phase) : "memory"); }
__device__ inline void load2(void *to, const CUtensorMap *m, int x, int y, uint64_t *b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        :: "r"(sh(to)), "l"((uint64_t)m), "r"(x), "r"(y), "r"(sh(b)) : "memory"); }
__device__ inline void add2(const CUtensorMap *m, int x, int y, const void *from) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
        :: "l"((uint64_t)m), "r"(x), "r"(y), "r"(sh(from)) : "memory"); }
__device__ inline void stores_done() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ inline void see_map(const CUtensorMap *m) {      // a descriptor in global memory
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"((uint64_t)m) : "memory"); }
__device__ inline void matrices(uint32_t *r, const char *tile, int row, int chunk) {      // rows of 128 bytes, swizzled in chunks of 16
    uint32_t a = sh(tile) + row * 128 + ((chunk ^ (row & 7)) << 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]),
        "=r"(r[3]) : "r"(a) : "memory"); }
__device__ inline void mma(int *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); }

struct alignas(1024) Shared { char a[STAGES][TM * TK], b[STAGES][TN * TK]; alignas(128) int c[TM * TN]; uint64_t full[STAGES], empty[STAGES]; };

// c (m x n) += a (m x k) * b (n x k) transposed, for one part of the depth
__device__ void product(Shared &s, const CUtensorMap *ma, const CUtensorMap *mb, const CUtensorMap *mc, int k, int parts, int part)
{
    int steps = (k + TK - 1) / TK, first = steps * part / parts, last = steps * (part + 1) / parts;
    int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { bar_init(&s.full[i], 1); bar_init(&s.empty[i], 4); }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (warp == 4) {                                        // the producer
        if (lane == 0) for (int t = first; t < last; t++) {
            int i = (t - first) % STAGES, turn = (t - first) / STAGES;
            if (turn) bar_wait(&s.empty[i], (turn - 1) & 1);
            bar_expect(&s.full[i], (TM + TN) * TK);
            load2(s.a[i], ma, t * TK, m0, &s.full[i]); load2(s.b[i], mb, t * TK, n0, &s.full[i]);
        }
    } else {
        int c[8][4] = {};                                   // 16 rows by 64 columns
        for (int t = first; t < last; t++) {
            int i = (t - first) % STAGES, turn = (t - first) / STAGES;
            bar_wait(&s.full[i], turn & 1);
            for (int k32 = 0; k32 < TK / 32; k32++) {
                uint32_t a[4], b[4]; matrices(a, s.a[i], warp * 16 + lane % 16, k32 * 2 + lane / 16);
                for (int n = 0; n < 4; n++) {               // 16 columns: two blocks of 8, each in two halves of the depth
                    matrices(b, s.b[i], n * 16 + (lane & 7) + (lane / 16) * 8, k32 * 2 + (lane / 8 & 1));
                    mma(c[n * 2], a, b[0], b[1]); mma(c[n * 2 + 1], a, b[2], b[3]);
                }
            }
            __syncwarp(); if (lane == 0) bar_arrive(&s.empty[i]);
        }
        for (int n = 0; n < 8; n++) for (int e = 0; e < 4; e++)
            s.c[(warp * 16 + lane / 4 + (e / 2) * 8) * TN + n * 8 + (lane % 4) * 2 + e % 2] = c[n][e];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) { add2(mc, n0, m0, s.c); stores_done(); }
}
__device__ inline Shared &shared() { extern __shared__ char raw[]; return *(Shared *)(((uintptr_t)raw + 1023) / 1024 * 1024); }

__global__ void by_value(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap c, int k,
    int parts) {
    product(shared(), &a, &b, &c, k, parts, blockIdx.z); }
struct Maps { CUtensorMap a, b, c; };
__constant__ Maps constant_maps[MAXB];
__global__ void by_constant(int which, int k, int parts) { Maps &m = constant_maps[which];
    product(shared(), &m.a, &m.b, &m.c, k, parts, blockIdx.z); }
struct Item { Maps maps; int k, parts, pad[30]; };          // 512 bytes
__global__ void by_table(const Item *items, int parts) {
    const Item &t = items[blockIdx.z / parts];
    if (threadIdx.x == 0 || threadIdx.x == 128) { see_map(&t.maps.a); see_map(&t.maps.b); see_map(&t.maps.c); }
    product(shared(), &t.maps.a, &t.maps.b, &t.maps.c, t.k, parts, blockIdx.z % parts);
}
static decltype(&cuTensorMapEncodeTiled) encode; static decltype(&cuTensorMapReplaceAddress) replace;
static CUtensorMap make_map(void *at, CUtensorMapDataType type, int size, std::vector<uint64_t> dims, uint64_t pitch, std::vector<uint32_t> box,
    bool swizzled)
{
    alignas(64) CUtensorMap m; std::vector<cuuint64_t> d(dims.begin(), dims.end()), strides = {pitch};
    std::vector<cuuint32_t> b(box.begin(), box.end()), e(d.size(), 1);
    if (d.size() == 3) strides.push_back(pitch * dims[1]);
    CUresult r = encode(&m, type, d.size(), at, d.data(), strides.data(), b.data(), e.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) { fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", r); exit(2); }
    return m;
}
static uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
static int wrong; static uint64_t sum = 14695981039346656037ull;
static void check(const char *what, const int *got, const int *want, size_t n, int round)
{
    if (memcmp(got, want, n * 4)) { wrong++; fprintf(stderr, "%s differs (round %d)\n", what, round); }
    for (size_t i = 0; i < n; i++) sum = (sum ^ (uint32_t)got[i]) * 1099511628211ull;
}

int main()
{
    cudaDriverEntryPointQueryResult q; CK(cudaSetDevice(0));
    CK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000, cudaEnableDefault, &q));
    CK(cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", (void **)&replace, 12000, cudaEnableDefault, &q));
    int bytes = sizeof(Shared) + 1024; cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CK(cudaFuncSetAttribute(by_value, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CK(cudaFuncSetAttribute(by_constant, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CK(cudaFuncSetAttribute(by_table, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    Item *items, *d_items; CK(cudaMallocHost(&items, MAXB * sizeof(Item))); CK(cudaMalloc(&d_items, MAXB * sizeof(Item)));
    for (int round = 0; round < 12; round++) {
        int m = 70 + round * 13 % 60, n = 60 + round * 29 % 70, k = 300 + round * 171 % 500, batch = 2 + round % 4, kp = (k + 15) / 16 * 16,
            np = (n + 3) / 4 * 4, parts = 1 + round % 3;
        size_t as = (size_t)m * kp, bs = (size_t)n * kp, cs = (size_t)m * np; char *a, *b; int *c; uint32_t seed = round * 7919;
        std::vector<char> ha(as * batch), hb(bs * batch); std::vector<int> hc(cs * batch), want(cs * batch);
        for (size_t i = 0; i < ha.size(); i++) ha[i] = (char)(i % kp < k ? mix(i + seed) % 15 - 7 : 99);       // what lies beyond k must not be seen
        for (size_t i = 0; i < hb.size(); i++) hb[i] = (char)(i % kp < k ? mix(i * 3 + seed) % 13 - 6 : 55);
        CK(cudaMallocAsync(&a, as * batch + 256 * batch, s)); CK(cudaMallocAsync(&b, bs * batch + 256 * batch, s));
        CK(cudaMallocAsync(&c, (cs * 4 + 256) * batch, s));
        auto up = [](size_t v) { return (v + 15) / 16 * 16; };
        for (int i = 0; i < batch; i++) {
            CK(cudaMemcpyAsync(a + up(as) * i, &ha[as * i], as, cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(b + up(bs) * i, &hb[bs * i], bs, cudaMemcpyHostToDevice, s));
        }
        CK(cudaMemsetAsync(c, 0, (cs * 4 + 256) * batch, s));
        Maps first = {make_map(a, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, {(uint64_t)k, (uint64_t)m}, kp, {TK, TM}, true),
            make_map(b, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, {(uint64_t)k, (uint64_t)n}, kp, {TK, TN}, true),
            make_map(c, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {(uint64_t)n, (uint64_t)m}, np * 4, {TN, TM}, false)};
        for (int i = 0; i < batch; i++) {                   // the others have only another address
            items[i].maps = first; items[i].k = k; items[i].parts = parts;
            if (i && (replace(&items[i].maps.a, a + up(as) * i) || replace(&items[i].maps.b, b + up(bs) * i) || replace(&items[i].maps.c,
                (char *)c + up(cs * 4) * i))) {
                fprintf(stderr, "cuTensorMapReplaceAddress fails\n"); return 2; }
        }
        dim3 grid((n + TN - 1) / TN, (m + TM - 1) / TM, parts);
        if (round % 3 == 0) for (int i = 0; i < batch; i++) by_value<<<grid, 160, bytes, s>>>(items[i].maps.a, items[i].maps.b, items[i].maps.c, k,
            parts);
        if (round % 3 == 1) {
            std::vector<Maps> packed(batch); for (int i = 0; i < batch; i++) packed[i] = items[batch - 1 - i].maps;
            CK(cudaMemcpyToSymbolAsync(constant_maps, packed.data(), batch * sizeof(Maps), 0, cudaMemcpyHostToDevice, s));
            for (int i = 0; i < batch; i++) by_constant<<<grid, 160, bytes, s>>>(i, k, parts);
        }
        if (round % 3 == 2) { CK(cudaMemcpyAsync(d_items, items, batch * sizeof(Item), cudaMemcpyHostToDevice, s)); grid.z = parts * batch;
            by_table<<<grid, 160, bytes, s>>>(d_items, parts); }
        CK(cudaGetLastError());
        for (int i = 0; i < batch; i++) CK(cudaMemcpyAsync(&hc[cs * i], (char *)c + up(cs * 4) * i, cs * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaFreeAsync(a, s)); CK(cudaFreeAsync(b, s)); CK(cudaFreeAsync(c, s)); CK(cudaStreamSynchronize(s));
        for (int i = 0; i < batch; i++) for (int y = 0; y < m; y++) for (int x = 0; x < n; x++) {
            int v = 0; const char *p = &ha[as * i + (size_t)y * kp], *r = &hb[bs * i + (size_t)x * kp]; for (int t = 0; t < k; t++) v += p[t] * r[t];
            want[cs * i + (size_t)y * np + x] = v; }
        check("product", hc.data(), want.data(), hc.size(), round);
    }
    CK(cudaFree(d_items)); CK(cudaFreeHost(items)); CK(cudaStreamDestroy(s));
    printf("tmatiles: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
