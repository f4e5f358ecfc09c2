// A mixture of experts: tokens are routed on the GPU, which builds the list of its products itself (pointers to weights out of a table that the
// host changes as experts are loaded anew). A persistent, warp-specialised kernel takes pieces of work from a counter: one warp gathers rows by
// asynchronous copies, four multiply on tensor cores (8 bit, so exact), halves of the depth are joined by semaphores. The next kernel is a
// programmatic dependent; the weights of hot experts have a window of the L2 cache; the first stage of a round also runs as a graph.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int TOKENS = 200, EXPERTS = 6, D = 256, TILE = 64, STAGES = 3, CONSUMERS = 128, THREADS = CONSUMERS + 32, SPLITS = 2, LAYERS = 2;
constexpr int MOST_TILES = (TOKENS / TILE + EXPERTS + 1) * (D / TILE);

struct Product { const int8_t *weight; const int *rows; int count, first_tile, expert, reserved; };       // made by the GPU
struct Work { Product products[EXPERTS]; int tiles, next; unsigned semaphores[MOST_TILES]; };
struct Expert { const int8_t *weight[LAYERS]; const int8_t *gate; };

__host__ __device__ inline int pick(uint32_t i, uint32_t k, int range) { uint32_t v = i * 2654435761u + k * 40503u; v ^= v >> 15; v *= 2246822519u;
    v ^= v >> 13; return int(v % (2 * range + 1)) - range; }
__host__ __device__ inline int8_t squeeze(int v) { int r = v % 11; return int8_t((r < 0 ? r + 11 : r) - 5); }
__global__ void fill(int8_t *p, int n, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = (int8_t)pick(i, k, 4); }

__global__ void route(int *choice, const int8_t *x, const Expert *experts)       // a warp for each token; the first of the best wins
{
    int token = blockIdx.x, lane = threadIdx.x, best = 0, best_score = INT32_MIN;
    for (int e = 0; e < EXPERTS; e++) {
        int score = 0;
        for (int i = lane; i < D; i += 32) score += x[token * D + i] * experts[e].gate[i];
        score = __reduce_add_sync(~0u, score);
        if (score > best_score) { best_score = score; best = e; }
    }
    if (lane == 0) choice[token] = best;
}
__global__ void plan(Work *work, int *rows, const int *choice, const Expert *experts, int layer)           // one warp for each expert, one block
{
    int e = threadIdx.x / 32, lane = threadIdx.x % 32, count = 0;
    for (int t = 0; t < TOKENS; t += 32) {
        bool mine = t + lane < TOKENS && choice[t + lane] == e; unsigned votes = __ballot_sync(~0u, mine);
        if (mine) rows[e * TOKENS + count + __popc(votes & ((1u << lane) - 1))] = t + lane;
        count += __popc(votes);
    }
    if (lane == 0) work->products[e] = {experts[e].weight[layer], rows + e * TOKENS, count, 0, e, 0};
    for (int i = threadIdx.x; i < MOST_TILES; i += blockDim.x) work->semaphores[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) { int at = 0; for (int i = 0; i < EXPERTS; i++) { work->products[i].first_tile = at;
        at += (work->products[i].count + TILE - 1) / TILE * (D / TILE); } work->tiles = at; work->next = 0; }
}

using Barrier = cuda::barrier<cuda::thread_scope_block>;
struct Shared { int8_t a[STAGES][4][TILE][16], b[STAGES][4][TILE][16]; int c[TILE][TILE]; };    // in chunks of 16, as the fragments want them

__global__ void __launch_bounds__(THREADS) grouped(int *out, const int8_t *x, Work *work)
{
    extern __shared__ __align__(128) char raw[];
    Shared &sh = *reinterpret_cast<Shared *>(raw);
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier full[STAGES], empty[STAGES];
    __shared__ int item;
    if (threadIdx.x == 0) for (int i = 0; i < STAGES; i++) { init(&full[i], THREADS); init(&empty[i], THREADS); }
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32; bool consumer = warp < CONSUMERS / 32;
    if (consumer) for (int i = 0; i < STAGES; i++) (void)empty[i].arrive();      // all stages are empty at first
    cudaTriggerProgrammaticLaunchCompletion();
    int stage = 0;
    constexpr int STEPS = D / SPLITS / TILE;
    while (true) {
        if (threadIdx.x == 0) item = atomicAdd(&work->next, 1);
        __syncthreads();
        int tile = item / SPLITS, split = item % SPLITS;
        if (tile >= work->tiles) break;
        int e = 0; while (e + 1 < EXPERTS && work->products[e + 1].first_tile <= tile) e++;
        const Product p = work->products[e];
        int row0 = (tile - p.first_tile) / (D / TILE) * TILE, col0 = (tile - p.first_tile) % (D / TILE) * TILE;
        if (!consumer) {
            for (int k = 0; k < STEPS; k++) {
                int depth = (split * STEPS + k) * TILE;
                empty[stage].arrive_and_wait();
                for (int i = lane; i < TILE * 4; i += 32) {
                    int row = i / 4, chunk = i % 4;
                    cuda::memcpy_async(sh.b[stage][chunk][row], p.weight + (col0 + row) * D + depth + chunk * 16, cuda::aligned_size_t<16>(16),
                        full[stage]);
                    if (row0 + row < p.count) cuda::memcpy_async(sh.a[stage][chunk][row], x + p.rows[row0 + row] * D + depth + chunk * 16,
                        cuda::aligned_size_t<16>(16), full[stage]);
                    else *(int4 *)sh.a[stage][chunk][row] = make_int4(0, 0, 0, 0);
                }
                (void)full[stage].arrive();
                stage = (stage + 1) % STAGES;
            }
        } else {
            using namespace nvcuda;
            wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum[4];
            for (auto &f : sum) wmma::fill_fragment(f, 0);
            for (int k = 0; k < STEPS; k++) {
                full[stage].arrive_and_wait();
                for (int chunk = 0; chunk < 4; chunk++) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
                    wmma::load_matrix_sync(a, (const signed char *)sh.a[stage][chunk][warp * 16], 16);
                    for (int n = 0; n < 4; n++) {
                        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
                        wmma::load_matrix_sync(b, (const signed char *)sh.b[stage][chunk][n * 16], 16);
                        wmma::mma_sync(sum[n], a, b, sum[n]);
                    }
                }
                (void)empty[stage].arrive();
                stage = (stage + 1) % STAGES;
            }
            for (int n = 0; n < 4; n++) wmma::store_matrix_sync(&sh.c[warp * 16][n * 16], sum[n], TILE, wmma::mem_row_major);
        }
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> turn(work->semaphores[tile]);
        // the half before was taken before, so it comes
        if (threadIdx.x == 0) while (turn.load(cuda::memory_order_acquire) != (unsigned)split) __nanosleep(50);
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
            int row = i / TILE, col = i % TILE;
            if (row0 + row < p.count) { int *to = &out[p.rows[row0 + row] * D + col0 + col]; *to = split ? *to + sh.c[row][col] : sh.c[row][col]; }
        }
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) turn.store(split + 1, cuda::memory_order_release);
    }
}
__global__ void finish(int8_t *y, const int *out, const int8_t *x, int salt)       // may begin while `grouped` still runs
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, mine = i < TOKENS * D ? x[i] : 0;
    cudaGridDependencySynchronize();
    if (i < TOKENS * D) y[i] = squeeze(out[i] + mine * salt);
}

int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull;
    cudaDeviceProp prop; CK(cudaGetDeviceProperties(&prop, 0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    int8_t *slab, *spare[8], *x[LAYERS + 1], *host_x, *host_y; int *choice, *rows, *out; Work *work; Expert *experts, table[EXPERTS];
    constexpr int SIZE = LAYERS * D * D + D;                // an expert: two layers and its gate
    CK(cudaMalloc(&slab, EXPERTS * SIZE)); for (auto &p : spare) CK(cudaMalloc(&p, SIZE)); for (auto &p : x) CK(cudaMalloc(&p, TOKENS * D));
    CK(cudaMalloc(&choice, TOKENS * 4)); CK(cudaMalloc(&rows, EXPERTS * TOKENS * 4)); CK(cudaMalloc(&out, TOKENS * D * 4));
    CK(cudaMalloc(&work, sizeof *work)); CK(cudaMalloc(&experts, sizeof table));
    CK(cudaMallocHost(&host_x, TOKENS * D)); CK(cudaMallocHost(&host_y, TOKENS * D));
    uint32_t salts[EXPERTS];
    auto place = [&](int e, int8_t *where, uint32_t salt) { fill<<<(SIZE + 255) / 256, 256, 0, s>>>(where, SIZE, salt);
        table[e] = {{where, where + D * D}, where + LAYERS * D * D}; salts[e] = salt; };
    for (int e = 0; e < EXPERTS; e++) place(e, slab + e * SIZE, e + 1);
    if (prop.accessPolicyMaxWindowSize > 0) {
        CK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20));
        cudaStreamAttrValue a = {}; a.accessPolicyWindow.base_ptr = slab; a.accessPolicyWindow.num_bytes = EXPERTS * SIZE;
        a.accessPolicyWindow.hitRatio = 0.75f;
        a.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting; a.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
        CK(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &a));
    }
    CK(cudaFuncSetAttribute(grouped, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)));
    int each; CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, grouped, THREADS, sizeof(Shared)));
    int blocks = each * prop.multiProcessorCount; if (blocks > 48) blocks = 48;

    auto layer = [&](int l, int round) {
        route<<<TOKENS, 32, 0, s>>>(choice, x[l], experts);
        plan<<<1, EXPERTS * 32, 0, s>>>(work, rows, choice, experts, l);
        grouped<<<blocks, THREADS, sizeof(Shared), s>>>(out, x[l], work);
        cudaLaunchConfig_t c = {}; c.gridDim = (TOKENS * D + 255) / 256; c.blockDim = 256; c.stream = s;
        cudaLaunchAttribute a = {}; a.id = cudaLaunchAttributeProgrammaticStreamSerialization; a.val.programmaticStreamSerializationAllowed = 1;
        c.attrs = &a; c.numAttrs = 1;
        CK(cudaLaunchKernelEx(&c, finish, x[l + 1], (const int *)out, (const int8_t *)x[l], 3 + l + round));
        CK(cudaGetLastError());
    };
    auto model = [&](std::vector<int8_t> v, int round, int counts[EXPERTS]) {
        for (int l = 0; l < LAYERS; l++) {
            std::vector<int8_t> w(D * D * EXPERTS), next(TOKENS * D); int8_t gates[EXPERTS][D]; memset(counts, 0, EXPERTS * 4);
            for (int e = 0; e < EXPERTS; e++) { for (int i = 0; i < D * D; i++) w[e * D * D + i] = (int8_t)pick(l * D * D + i, salts[e], 4);
                for (int i = 0; i < D; i++) gates[e][i] = (int8_t)pick(LAYERS * D * D + i, salts[e], 4); }
            for (int t = 0; t < TOKENS; t++) {
                int best = 0, best_score = INT32_MIN; const int8_t *in = &v[t * D];
                for (int e = 0; e < EXPERTS; e++) { int score = 0; for (int i = 0; i < D; i++) score += in[i] * gates[e][i];
                    if (score > best_score) { best_score = score; best = e; } }
                counts[best]++;
                for (int f = 0; f < D; f++) { const int8_t *row = &w[(best * D + f) * D]; int sum = in[f] * (3 + l + round);
                    for (int i = 0; i < D; i++) sum += in[i] * row[i]; next[t * D + f] = squeeze(sum); }
            }
            v = next;
        }
        return v;
    };
    for (int round = 0; round < 8; round++) {
        // an expert is loaded anew, elsewhere
        if (round) { int e = round % EXPERTS; CK(cudaStreamSynchronize(s)); place(e, spare[round], 50 + round); }
        CK(cudaMemcpyAsync(experts, table, sizeof table, cudaMemcpyHostToDevice, s));
        for (int i = 0; i < TOKENS * D; i++) host_x[i] = (int8_t)pick(i, 900 + round, 5);
        CK(cudaMemcpyAsync(x[0], host_x, TOKENS * D, cudaMemcpyHostToDevice, s));
        if (round % 2 == 0) for (int l = 0; l < LAYERS; l++) layer(l, round);
        else {
            cudaGraph_t g; cudaGraphExec_t exec; CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal)); layer(0, round);
            CK(cudaStreamEndCapture(s, &g));
            CK(cudaGraphInstantiate(&exec, g, 0)); CK(cudaGraphLaunch(exec, s)); layer(1, round); CK(cudaGraphExecDestroy(exec));
            CK(cudaGraphDestroy(g));
        }
        Work got; CK(cudaMemcpyAsync(&got, work, sizeof got, cudaMemcpyDeviceToHost, s));
        CK(cudaMemcpyAsync(host_y, x[LAYERS], TOKENS * D, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        int counts[EXPERTS], bad = 0; std::vector<int8_t> expected = model(std::vector<int8_t>(host_x, host_x + TOKENS * D), round, counts);
        for (int e = 0; e < EXPERTS; e++) bad += got.products[e].weight != table[e].weight[LAYERS - 1] || got.products[e].rows != rows + e * TOKENS
            || got.products[e].count != counts[e];
        for (int i = 0; i < got.tiles; i++) bad += got.semaphores[i] != SPLITS;
        for (int i = 0; i < TOKENS * D; i++) { bad += host_y[i] != expected[i]; checksum = (checksum ^ (uint8_t)host_y[i]) * 1099511628211ull; }
        printf("round %d: tokens of the experts", round); for (int c : counts) printf(" %d", c); printf(", %d wrong\n", bad); wrong += bad;
    }
    CK(cudaCtxResetPersistingL2Cache());
    CK(cudaStreamDestroy(s)); CK(cudaFree(slab)); for (auto p : spare) CK(cudaFree(p)); for (auto p : x) CK(cudaFree(p));
    for (void *p : {(void *)choice, (void *)rows, (void *)out, (void *)work, (void *)experts}) CK(cudaFree(p));
    CK(cudaFreeHost(host_x)); CK(cudaFreeHost(host_y));
    printf("groupgemm: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
