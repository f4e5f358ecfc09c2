// nvcc: -lcurand
// Parallel tempering of spin lattices: six replicas, each with another generator of cuRAND (XORWOW, MRG32k3a, Philox, MTGP32, Sobol, scrambled Sobol)
// that changes streams from round to round. A host function in the stream exchanges temperatures by the energies that were just copied to it, and
// writes the table that the next copy to a symbol takes; nobody waits until the end. Then generators on the device: MTGP32 whose states outlive the
// kernels, and are copied away and back, Philox against the paper, skipping ahead in XORWOW, states in managed memory.
#include <cuda_runtime.h>
#include <curand.h>
#include <curand_kernel.h>
#include <curand_mtgp32_host.h>
#include <curand_mtgp32dc_p_11213.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define CR(x) do { curandStatus_t e_ = (x); if (e_ != CURAND_STATUS_SUCCESS) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, \
    (int)e_); exit(2); } } while (0)

constexpr int REPLICAS = 6, SIDE = 128, SITES = SIDE * SIDE, SWEEPS = 4, ROUNDS = 18, NUMBERS = SITES * SWEEPS;
static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }

struct Table { uint32_t accept[REPLICAS][5]; int temperature[REPLICAS]; };        // accept: by the number of unlike neighbours
__constant__ Table table;

__global__ void half_sweep(signed char *spins, const uint32_t *numbers, int replica, int colour, int sweep)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= SITES / 2) return;
    int y = i / (SIDE / 2), x = (i % (SIDE / 2)) * 2 + ((y + colour) & 1);
    int around = spins[y * SIDE + (x + 1) % SIDE] + spins[y * SIDE + (x + SIDE - 1) % SIDE]
        + spins[(y + 1) % SIDE * SIDE + x] + spins[(y + SIDE - 1) % SIDE * SIDE + x];
    int s = spins[y * SIDE + x];
    if (numbers[sweep * SITES + colour * SITES / 2 + i] < table.accept[table.temperature[replica]][(s * around + 4) / 2]) spins[y * SIDE + x] = -s;
}
__global__ void energy(const signed char *spins, int *out)  // one block; the energy and the magnetisation
{
    __shared__ int e, m; if (threadIdx.x == 0) e = m = 0; __syncthreads();
    int a = 0, b = 0;
    for (int i = threadIdx.x; i < SITES; i += blockDim.x) { int y = i / SIDE, x = i % SIDE; b += spins[i];
        a -= spins[i] * (spins[y * SIDE + (x + 1) % SIDE] + spins[(y + 1) % SIDE * SIDE + x]); }
    atomicAdd(&e, a); atomicAdd(&m, b); __syncthreads(); if (threadIdx.x == 0) { out[0] = e; out[1] = m; }
}

struct Exchange { int energies[REPLICAS][2]; Table next; uint32_t random; int swaps, round; double beta[REPLICAS]; std::vector<int> *log; };
static void CUDART_CB exchange(void *p)
{
    Exchange &x = *(Exchange *)p; x.round++;
    int at[REPLICAS]; for (int r = 0; r < REPLICAS; r++) at[x.next.temperature[r]] = r;
    for (int t = x.round & 1; t + 1 < REPLICAS; t += 2) {   // neighbouring temperatures
        int a = at[t], b = at[t + 1]; x.random = x.random * 1664525u + 1013904223u;
        double d = (x.beta[t] - x.beta[t + 1]) * (x.energies[a][0] - x.energies[b][0]);
        if (d >= 0 || x.random < (uint32_t)(exp(d) * 4294967295.0)) { std::swap(x.next.temperature[a], x.next.temperature[b]); x.swaps++; }
    }
    for (int r = 0; r < REPLICAS; r++) { x.log->push_back(x.energies[r][0]); x.log->push_back(x.energies[r][1]);
        x.log->push_back(x.next.temperature[r]); }
}
static void init_exchange(Exchange &x, std::vector<int> *log)
{
    x.random = 99; x.swaps = x.round = 0; x.log = log;
    for (int t = 0; t < REPLICAS; t++) {
        x.beta[t] = 0.50 - 0.02 * t; x.next.temperature[t] = t;
        for (int k = 0; k < 5; k++) { double p = exp(-2 * x.beta[t] * (k * 2 - 4));
            x.next.accept[t][k] = p >= 1 ? ~0u : (uint32_t)(p * 4294967296.0); }
    }
}
static curandGenerator_t make_generator(int r, bool host)
{
    const curandRngType_t types[] = {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_PSEUDO_PHILOX4_32_10, CURAND_RNG_PSEUDO_MTGP32,
        CURAND_RNG_QUASI_SOBOL32, CURAND_RNG_QUASI_SCRAMBLED_SOBOL32};
    curandGenerator_t g; CR(host ? curandCreateGeneratorHost(&g, types[r]) : curandCreateGenerator(&g, types[r]));
    if (r < 4) CR(curandSetPseudoRandomGeneratorSeed(g, 1000 + r)); else CR(curandSetQuasiRandomGeneratorDimensions(g, 64));
    if (r < 3) CR(curandSetGeneratorOrdering(g, CURAND_ORDERING_PSEUDO_LEGACY));
    return g;
}

static void tempering()
{
    cudaStream_t streams[3]; cudaEvent_t done[REPLICAS], table_ready; signed char *spins[REPLICAS]; uint32_t *numbers[REPLICAS]; int *energies;
    for (auto &s : streams) CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CK(cudaEventCreateWithFlags(&table_ready, cudaEventDisableTiming));
    curandGenerator_t generators[REPLICAS], again[REPLICAS]; std::vector<int> log, want; Exchange *x; static Exchange model;
    CK(cudaMallocHost(&x, sizeof *x)); init_exchange(*x, &log); init_exchange(model, &want); CK(cudaMalloc(&energies, sizeof x->energies));
    std::vector<std::vector<signed char>> lattice(REPLICAS, std::vector<signed char>(SITES));
    for (int r = 0; r < REPLICAS; r++) {
        CK(cudaEventCreateWithFlags(&done[r], cudaEventDisableTiming)); CK(cudaMalloc(&spins[r], SITES)); CK(cudaMalloc(&numbers[r], NUMBERS * 4));
        generators[r] = make_generator(r, false); again[r] = make_generator(r, true);
        for (int i = 0; i < SITES; i++) lattice[r][i] = (i * 2654435761u >> (8 + r)) & 1 ? 1 : -1;
        CK(cudaMemcpy(spins[r], lattice[r].data(), SITES, cudaMemcpyHostToDevice));
    }
    CK(cudaMemcpyToSymbol(table, &x->next, sizeof x->next)); CK(cudaDeviceSynchronize());
    uint32_t *kept; CK(cudaMallocHost(&kept, (size_t)ROUNDS * REPLICAS * NUMBERS * 4));       // all the numbers, for the reference
    for (int round = 0; round < ROUNDS; round++) {
        if (round) for (auto s : streams) CK(cudaStreamWaitEvent(s, table_ready, 0));
        for (int r = 0; r < REPLICAS; r++) {
            cudaStream_t s = streams[(r + round) % 3]; if (round) CK(cudaStreamWaitEvent(s, done[r], 0));
            CR(curandSetStream(generators[r], s)); CR(curandGenerate(generators[r], numbers[r], NUMBERS));
            CK(cudaMemcpyAsync(kept + (size_t)(round * REPLICAS + r) * NUMBERS, numbers[r], NUMBERS * 4, cudaMemcpyDeviceToHost, s));
            for (int k = 0; k < SWEEPS * 2; k++) half_sweep<<<SITES / 256, 128, 0, s>>>(spins[r], numbers[r], r, k % 2, k / 2);
            energy<<<1, 512, 0, s>>>(spins[r], energies + 2 * r); CK(cudaGetLastError()); CK(cudaEventRecord(done[r], s));
        }
        cudaStream_t s = streams[round % 3];                // here all come together
        for (auto e : done) CK(cudaStreamWaitEvent(s, e, 0));
        CK(cudaMemcpyAsync(x->energies, energies, sizeof x->energies, cudaMemcpyDeviceToHost, s)); CK(cudaLaunchHostFunc(s, exchange, x));
        CK(cudaMemcpyToSymbolAsync(table, &x->next, sizeof x->next, 0, cudaMemcpyHostToDevice, s)); CK(cudaEventRecord(table_ready, s));
    }
    CK(cudaEventSynchronize(table_ready));
    std::vector<uint32_t> own(NUMBERS); bool same[REPLICAS]; memset(same, 1, sizeof same); int alike = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = 0; r < REPLICAS; r++) {
            const uint32_t *n = kept + (size_t)(round * REPLICAS + r) * NUMBERS;
            CR(curandGenerate(again[r], own.data(), NUMBERS)); same[r] = same[r] && !memcmp(n, own.data(), NUMBERS * 4);
            signed char *l = lattice[r].data(); const uint32_t *accept = model.next.accept[model.next.temperature[r]]; int e = 0, m = 0;
            for (int k = 0; k < SWEEPS * 2; k++) for (int y = 0, i = 0; y < SIDE; y++) for (int h = 0; h < SIDE / 2; h++, i++) {
                int xx = h * 2 + ((y + k) & 1), s = l[y * SIDE + xx], row = y * SIDE;
                int around = l[row + (xx + 1) % SIDE] + l[row + (xx + SIDE - 1) % SIDE]
                    + l[(row + SIDE) % SITES + xx] + l[(row + SITES - SIDE) % SITES + xx];
                if (n[k / 2 * SITES + k % 2 * SITES / 2 + i] < accept[(s * around + 4) / 2]) l[row + xx] = -s;
            }
            for (int y = 0; y < SIDE; y++) for (int xx = 0; xx < SIDE; xx++) { int s = l[y * SIDE + xx]; m += s;
                e -= s * (l[y * SIDE + (xx + 1) % SIDE] + l[(y + 1) % SIDE * SIDE + xx]); }
            model.energies[r][0] = e; model.energies[r][1] = m;
        }
        exchange(&model);
    }
    if (log != want || x->swaps != model.swaps) { wrong++; fprintf(stderr, "energies or temperatures differ\n"); }
    std::vector<signed char> got(SITES);
    for (int r = 0; r < REPLICAS; r++) {
        CK(cudaMemcpy(got.data(), spins[r], SITES, cudaMemcpyDeviceToHost)); if (got != lattice[r]) { wrong++;
            fprintf(stderr, "replica %d differs\n", r); }
        for (signed char c : got) fold(c + 1);
    }
    for (int v : log) fold((uint32_t)v);
    for (bool b : same) alike += b;
    printf("%d of %d generators as on the CPU, %d exchanges\n", alike, REPLICAS, x->swaps);
    for (int r = 0; r < REPLICAS; r++) { CR(curandDestroyGenerator(generators[r])); CR(curandDestroyGenerator(again[r])); CK(cudaFree(spins[r]));
        CK(cudaFree(numbers[r])); CK(cudaEventDestroy(done[r])); }
    for (auto s : streams) CK(cudaStreamDestroy(s)); CK(cudaEventDestroy(table_ready)); CK(cudaFree(energies)); CK(cudaFreeHost(x));
    CK(cudaFreeHost(kept));
}

constexpr int BLOCKS = 8;
__global__ void twister(curandStateMtgp32 *states, uint32_t *out, int times)      // 256 threads share a state
{
    for (int t = 0; t < times; t++) out[(t * BLOCKS + blockIdx.x) * 256 + threadIdx.x] = curand(&states[blockIdx.x]);
}
__global__ void philox(uint4 *out, uint64_t seed) { int i = blockIdx.x * blockDim.x + threadIdx.x; curandStatePhilox4_32_10_t s;
    curand_init(seed, i, i % 13 * 4, &s); out[i * 2] = curand4(&s); out[i * 2 + 1] = curand4(&s); }
__global__ void begin_states(curandState *s, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) curand_init(77, i, 0, &s[i]); }
__global__ void draw(curandState *s, uint32_t *out, int n, int each) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { curandState l = s[i]; for (int k = 0; k < each; k++) out[k * n + i] = curand(&l); s[i] = l; } }
__global__ void skip(curandState *s, int n, int by) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) skipahead((unsigned long long)by, &s[i]); }

static void device_generators()
{
    cudaStream_t s; CK(cudaStreamCreate(&s));
    mtgp32_kernel_params *params; curandStateMtgp32 *states, *saved; uint32_t *out; const int words = BLOCKS * 256, times = 12;
    std::vector<uint32_t> a(words * times), b(words * times);
    CK(cudaMalloc(&params, sizeof *params)); CK(cudaMalloc(&states, BLOCKS * sizeof *states)); CK(cudaMallocHost(&saved, BLOCKS * sizeof *saved));
    CK(cudaMalloc(&out, words * times * 4));
    CR(curandMakeMTGP32Constants(mtgp32dc_params_fast_11213, params)); CR(curandMakeMTGP32KernelState(states, mtgp32dc_params_fast_11213, params,
        BLOCKS, 4321));
    CK(cudaMemcpyAsync(saved, states, BLOCKS * sizeof *saved, cudaMemcpyDeviceToHost, s));      // they hold pointers to the parameters
    twister<<<BLOCKS, 256, 0, s>>>(states, out, times); CK(cudaGetLastError()); CK(cudaMemcpyAsync(a.data(), out, words * times * 4,
        cudaMemcpyDeviceToHost, s));
    CK(cudaMemcpyAsync(states, saved, BLOCKS * sizeof *saved, cudaMemcpyHostToDevice, s)); CK(cudaMemsetAsync(out, 0, words * times * 4, s));
    for (int t = 0; t < times; t += 3) twister<<<BLOCKS, 256, 0, s>>>(states, out + t * words, 3);
    CK(cudaGetLastError()); CK(cudaMemcpyAsync(b.data(), out, words * times * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
    if (a != b) { wrong++; fprintf(stderr, "MTGP32 goes on otherwise\n"); } for (uint32_t v : a) fold(v);

    uint4 *d; std::vector<uint4> p(1024); uint64_t seed = 0x123456789abcdefull; CK(cudaMalloc(&d, 1024 * 16)); philox<<<4, 128, 0, s>>>(d, seed);
    CK(cudaGetLastError());
    CK(cudaMemcpyAsync(p.data(), d, 1024 * 16, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); int bad = 0;
    for (int i = 0; i < 1024; i++) {
        uint32_t c[4] = {(uint32_t)(i / 2 % 13 + i % 2), 0, (uint32_t)(i / 2), 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int r = 0; r < 10; r++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
            uint64_t x = 0xD2511F53ull * c[0], y = 0xCD9E8D57ull * c[2]; uint32_t n[4] = {(uint32_t)(y >> 32) ^ c[1] ^ k0, (uint32_t)y,
                (uint32_t)(x >> 32) ^ c[3] ^ k1, (uint32_t)x}; memcpy(c, n, 16);
        }
        bad += memcmp(c, &p[i], 16) != 0; fold(p[i].x ^ (uint64_t)p[i].w << 32);
    }
    if (bad) { wrong++; fprintf(stderr, "Philox differs %d times\n", bad); }

    curandState *m; uint32_t *w; const int n = 3000, each = 10; CK(cudaMallocManaged(&m, 2 * n * sizeof *m));
    CK(cudaMallocManaged(&w, 3 * each * n * 4));
    begin_states<<<(n + 127) / 128, 128, 0, s>>>(m, n); CK(cudaGetLastError()); CK(cudaStreamSynchronize(s));
    memcpy(m + n, m, n * sizeof *m);                        // the CPU copies them, and skips the second set ahead
    skip<<<(n + 63) / 64, 64, 0, s>>>(m + n, n, each); draw<<<(n + 63) / 64, 64, 0, s>>>(m, w, n, 2 * each);
    draw<<<(n + 63) / 64, 64, 0, s>>>(m + n, w + 2 * each * n, n, each);
    CK(cudaGetLastError()); CK(cudaStreamSynchronize(s));
    if (memcmp(w + each * n, w + 2 * each * n, each * n * 4) || memcmp(m[0].v, m[n].v, sizeof m[0].v) || m[n - 1].d != m[2 * n - 1].d) { wrong++;
        fprintf(stderr, "skipping ahead differs\n"); }
    for (int i = 0; i < each * n; i++) fold(w[i]);
    CK(cudaFree(params)); CK(cudaFree(states)); CK(cudaFreeHost(saved)); CK(cudaFree(out)); CK(cudaFree(d)); CK(cudaFree(m)); CK(cudaFree(w));
    CK(cudaStreamDestroy(s));
}

int main()
{
    CK(cudaSetDevice(0)); tempering(); device_generators();
    printf("tempering: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
