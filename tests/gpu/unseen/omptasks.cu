// nvcc: -Xcompiler -fopenmp -lgomp
// A tiled LU factorisation (modulo a prime, so exact) as a graph of OpenMP tasks with dependencies: every task submits its tile's kernel to the
// stream of whatever thread runs it, tiles carry events, and live in device, pinned and managed memory; some diagonal tiles are factored by the CPU
// within the task. Several matrices are in work at once, by nested task groups; results return in an ordered loop.
#include <cuda_runtime.h>
#include <omp.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr uint32_t P = 2147483647u;
constexpr int NB = 64, T = 7, N = NB * T, MATRICES = 3, TEAM = 6, WORDS = NB * NB;
typedef unsigned long long u64;

__host__ __device__ inline uint32_t mulmod(uint32_t a, uint32_t b) { return (u64)a * b % P; }
__host__ __device__ inline uint32_t submod(uint32_t a, uint32_t b) { return a >= b ? a - b : a + P - b; }
__host__ __device__ inline uint32_t inverse(uint32_t a) { uint32_t r = 1; for (uint32_t e = P - 2; e; e >>= 1) { if (e & 1) r = mulmod(r, a);
    a = mulmod(a, a); } return r; }
__host__ __device__ inline uint32_t pick(uint32_t i, uint32_t j, uint32_t k) { uint32_t v = (i * 7919u + j) * 2654435761u + k * 40503u; v ^= v >> 16;
    v *= 2246822519u; v ^= v >> 13; return v % (P - 1) + 1; }

__global__ void factor(uint32_t *a)                         // one tile: L (ones on its diagonal) below, U above
{
    __shared__ uint32_t inv;
    for (int k = 0; k < NB - 1; k++) {
        if (threadIdx.x == 0) inv = inverse(a[k * NB + k]);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < NB; i += blockDim.x) a[i * NB + k] = mulmod(a[i * NB + k], inv);
        __syncthreads();
        int m = NB - 1 - k;
        for (int e = threadIdx.x; e < m * m; e += blockDim.x) {
            int i = k + 1 + e / m, j = k + 1 + e % m;
            a[i * NB + j] = submod(a[i * NB + j], mulmod(a[i * NB + k], a[k * NB + j]));
        }
        __syncthreads();
    }
}
__global__ void solve_row(uint32_t *b, const uint32_t *lu, uint32_t *scratch)     // b = L^-1 b, each thread one column; worked out in the scratch
{
    int j = threadIdx.x;
    for (int i = 0; i < NB; i++) {
        uint32_t v = b[i * NB + j];
        for (int k = 0; k < i; k++) v = submod(v, mulmod(lu[i * NB + k], scratch[k * NB + j]));
        scratch[i * NB + j] = v;
    }
    for (int i = 0; i < NB; i++) b[i * NB + j] = scratch[i * NB + j];
}
__global__ void solve_column(uint32_t *b, const uint32_t *lu)                     // b = b U^-1, each thread one row
{
    int i = threadIdx.x;
    for (int j = 0; j < NB; j++) {
        uint32_t v = b[i * NB + j];
        for (int k = 0; k < j; k++) v = submod(v, mulmod(b[i * NB + k], lu[k * NB + j]));
        b[i * NB + j] = mulmod(v, inverse(lu[j * NB + j]));
    }
}
__global__ void update(uint32_t *c, const uint32_t *a, const uint32_t *b)
{
    __shared__ uint32_t sa[WORDS], sb[WORDS];
    for (int e = threadIdx.x; e < WORDS; e += blockDim.x) { sa[e] = a[e]; sb[e] = b[e]; }
    __syncthreads();
    for (int e = threadIdx.x; e < WORDS; e += blockDim.x) {
        int i = e / NB, j = e % NB; uint32_t v = c[e];
        for (int k = 0; k < NB; k++) v = submod(v, mulmod(sa[i * NB + k], sb[k * NB + j]));
        c[e] = v;
    }
}
static void factor_on_cpu(uint32_t *a)
{
    for (int k = 0; k < NB - 1; k++) {
        uint32_t inv = inverse(a[k * NB + k]);
        for (int i = k + 1; i < NB; i++) {
            uint32_t f = a[i * NB + k] = mulmod(a[i * NB + k], inv);
            for (int j = k + 1; j < NB; j++) a[i * NB + j] = submod(a[i * NB + j], mulmod(f, a[k * NB + j]));
        }
    }
}

enum Home { DEVICE, PINNED, MANAGED };
struct Tile { uint32_t *at; Home home; cudaEvent_t ready; };
struct Matrix { Tile tiles[T][T]; std::vector<uint32_t> factors; char order[T][T]; };        // `order` is only there to hang dependencies on

static cudaStream_t streams[TEAM]; static uint32_t *staging[TEAM];
static cudaStream_t mine() { return streams[omp_get_thread_num()]; }
static void after(cudaStream_t s, std::initializer_list<Tile *> tiles) { for (Tile *t : tiles) CK(cudaStreamWaitEvent(s, t->ready, 0)); }

// A = L U for factors that are known: the factorisation has to find them again
static void make(Matrix &m, int id)
{
    m.factors.resize(N * N);
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) m.factors[i * N + j] = pick(i, j, id);
    #pragma omp taskloop collapse(2) grainsize(4) shared(m)
    for (int ti = 0; ti < T; ti++) for (int tj = 0; tj < T; tj++) {
        std::vector<uint32_t> block(WORDS);
        for (int i = 0; i < NB; i++) for (int j = 0; j < NB; j++) {
            int r = ti * NB + i, c = tj * NB + j, top = r < c ? r : c; u64 sum = 0;
            for (int k = 0; k < top; k++) sum = (sum + (u64)m.factors[r * N + k] * m.factors[k * N + c]) % P;
            sum += r <= c ? m.factors[r * N + c] : mulmod(m.factors[r * N + c], m.factors[c * N + c]);
            block[i * NB + j] = sum % P;
        }
        Tile &t = m.tiles[ti][tj]; cudaStream_t s = mine();
        if (t.home == DEVICE) CK(cudaMemcpyAsync(t.at, block.data(), WORDS * 4, cudaMemcpyHostToDevice, s));      // pageable: `block` goes at once
        else memcpy(t.at, block.data(), WORDS * 4);
        CK(cudaEventRecord(t.ready, s));
    }
}

static void factorize(Matrix &m, int id)
{
    #pragma omp taskgroup
    for (int k = 0; k < T; k++) {
        #pragma omp task depend(inout: m.order[k][k]) firstprivate(k) shared(m) priority(3)
        {
            Tile &d = m.tiles[k][k]; cudaStream_t s = mine(); uint32_t *host = staging[omp_get_thread_num()];
            after(s, {&d});
            if ((k + id) % 3 == 1) {                        // by the CPU, where the tile is, or in the thread's staging memory
                if (d.home == DEVICE) {
                    CK(cudaMemcpyAsync(host, d.at, WORDS * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
                    factor_on_cpu(host);
                    CK(cudaMemcpyAsync(d.at, host, WORDS * 4, cudaMemcpyHostToDevice, s)); CK(cudaStreamSynchronize(s));
                } else { CK(cudaEventSynchronize(d.ready)); factor_on_cpu(d.at); }
            } else factor<<<1, 256, 0, s>>>(d.at);
            CK(cudaGetLastError()); CK(cudaEventRecord(d.ready, s));
        }
        for (int j = k + 1; j < T; j++) {
            #pragma omp task depend(in: m.order[k][k]) depend(inout: m.order[k][j]) firstprivate(k, j) shared(m) priority(2)
            {
                Tile &d = m.tiles[k][k], &b = m.tiles[k][j]; cudaStream_t s = mine(); uint32_t *scratch;
                CK(cudaMallocAsync(&scratch, WORDS * 4, s)); after(s, {&d, &b});
                solve_row<<<1, NB, 0, s>>>(b.at, d.at, scratch); CK(cudaGetLastError());
                CK(cudaEventRecord(b.ready, s)); CK(cudaFreeAsync(scratch, s));
            }
            #pragma omp task depend(in: m.order[k][k]) depend(inout: m.order[j][k]) firstprivate(k, j) shared(m) priority(2)
            {
                Tile &d = m.tiles[k][k], &b = m.tiles[j][k]; cudaStream_t s = mine(); after(s, {&d, &b});
                solve_column<<<1, NB, 0, s>>>(b.at, d.at); CK(cudaGetLastError()); CK(cudaEventRecord(b.ready, s));
            }
        }
        for (int i = k + 1; i < T; i++) for (int j = k + 1; j < T; j++) {
            #pragma omp task depend(in: m.order[i][k], m.order[k][j]) depend(inout: m.order[i][j]) firstprivate(i, j, k) shared(m)
            {
                Tile &a = m.tiles[i][k], &b = m.tiles[k][j], &c = m.tiles[i][j]; cudaStream_t s = mine(); after(s, {&a, &b, &c});
                update<<<1, 256, 0, s>>>(c.at, a.at, b.at); CK(cudaGetLastError()); CK(cudaEventRecord(c.ready, s));
            }
        }
    }
}

int main()
{
    int wrong = 0; u64 checksum = 14695981039346656037ull;
    static Matrix matrices[MATRICES];
    omp_set_dynamic(0); omp_set_num_threads(TEAM);
    for (int t = 0; t < TEAM; t++) { CK(cudaStreamCreateWithFlags(&streams[t], cudaStreamNonBlocking)); CK(cudaMallocHost(&staging[t], WORDS * 4)); }
    for (int m = 0; m < MATRICES; m++) for (int i = 0; i < T; i++) for (int j = 0; j < T; j++) {
        Tile &t = matrices[m].tiles[i][j]; t.home = (Home)((i * 2 + j + m) % 3); CK(cudaEventCreateWithFlags(&t.ready, cudaEventDisableTiming));
        if (t.home == DEVICE) CK(cudaMalloc(&t.at, WORDS * 4));
        else if (t.home == PINNED) CK(cudaHostAlloc(&t.at, WORDS * 4, cudaHostAllocMapped | cudaHostAllocPortable));
        else CK(cudaMallocManaged(&t.at, WORDS * 4));
    }
    for (int pass = 0; pass < 2; pass++) {                  // the tiles are used a second time, for other matrices
        #pragma omp parallel
        #pragma omp single
        for (int m = 0; m < MATRICES; m++) {
            #pragma omp task firstprivate(m)
            { make(matrices[m], m + pass * 10); factorize(matrices[m], m); }
        }
        for (int m = 0; m < MATRICES; m++) {
            int bad = 0;
            #pragma omp parallel for ordered schedule(dynamic, 1) reduction(+: bad)
            for (int e = 0; e < T * T; e++) {
                Tile &t = matrices[m].tiles[e / T][e % T]; std::vector<uint32_t> got(WORDS);
                CK(cudaEventSynchronize(t.ready));
                CK(cudaMemcpyAsync(got.data(), t.at, WORDS * 4, cudaMemcpyDefault, mine())); CK(cudaStreamSynchronize(mine()));
                for (int i = 0; i < NB; i++) for (int j = 0; j < NB; j++)
                    bad += got[i * NB + j] != matrices[m].factors[(e / T * NB + i) * N + e % T * NB + j];
                #pragma omp ordered
                for (uint32_t v : got) checksum = (checksum ^ v) * 1099511628211ull;
            }
            printf("pass %d, matrix %d: %d elements differ\n", pass, m, bad); wrong += bad;
        }
    }
    for (auto &m : matrices) for (auto &row : m.tiles) for (Tile &t : row) { CK(cudaEventDestroy(t.ready));
        CK(t.home == PINNED ? cudaFreeHost(t.at) : cudaFree(t.at)); }
    for (int t = 0; t < TEAM; t++) { CK(cudaStreamDestroy(streams[t])); CK(cudaFreeHost(staging[t])); }
    printf("omptasks: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
