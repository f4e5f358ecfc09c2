// Particles in a periodic box: cells by counting in clusters (histograms in distributed shared memory), a cooperative kernel of
// several steps with grid barriers and more than 48 KB of dynamic shared memory, constants and __device__ variables that
// are changed between launches by copies to symbols, and read back. Forces are summed in a fixed order.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace cg = cooperative_groups;
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int N = 8192, T = 256, CELLS = 16, BINS = CELLS * CELLS, CLUSTER = 4, TILE = 2048, ROUNDS = 12;

struct Parameters { float dt, softening, damping, box; int steps; float kick[5]; };
struct Statistics { unsigned long long wraps; unsigned long long steps; int worst_cell; int rounds; };
struct __align__(16) Particle { float x, y, vx, vy; };

__constant__ Parameters parameters;
__constant__ float masses[64];
__device__ Statistics statistics = {0, 0, -1, 0};
__device__ Particle *front, *back;                  // swapped by the CPU
__device__ float forces_scale = 1e-6f;

// One cluster makes the whole histogram: every block owns a quarter of the bins and all write into each other's.
__global__ void __cluster_dims__(CLUSTER, 1, 1) histogram(uint32_t *bins, uint32_t *starts) {
    extern __shared__ uint32_t mine[];              // BINS / CLUSTER counters, then the sums of the blocks
    __shared__ uint32_t block_total;
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned rank = cluster.block_rank(), part = BINS / CLUSTER;
    for (unsigned i = threadIdx.x; i < part; i += blockDim.x) mine[i] = 0;
    cluster.sync();
    const float scale = CELLS / parameters.box;
    for (unsigned i = rank * blockDim.x + threadIdx.x; i < N; i += CLUSTER * blockDim.x) {
        Particle p = front[i];
        int cx = min(CELLS - 1, max(0, (int)(p.x * scale))), cy = min(CELLS - 1, max(0, (int)(p.y * scale)));
        unsigned bin = cy * CELLS + cx;
        uint32_t *theirs = cluster.map_shared_rank(mine, bin / part);
        atomicAdd(theirs + bin % part, 1u);
    }
    cluster.sync();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (unsigned i = 0; i < part; i++) sum += mine[i];
        block_total = sum;
    }
    cluster.sync();
    if (threadIdx.x == 0) {
        uint32_t at = 0;
        for (unsigned r = 0; r < rank; r++) at += *cluster.map_shared_rank(&block_total, r);
        for (unsigned i = 0; i < part; i++) {
            bins[rank * part + i] = mine[i];
            starts[rank * part + i] = at;
            at += mine[i];
            atomicMax(&statistics.worst_cell, (int)mine[i]);
        }
        if (rank == CLUSTER - 1) starts[BINS] = at;
    }
    cluster.sync();                                 // nobody leaves while others read
}

// Stable order by cell: the rank of a particle is the number of earlier ones in its cell (one block per cell, a scan).
__global__ void sort_cells(const uint32_t *starts, uint32_t *order) {
    __shared__ uint32_t counts[T];
    const float scale = CELLS / parameters.box;
    const unsigned cell = blockIdx.x, span = N / T, from = threadIdx.x * span;
    uint32_t n = 0;
    for (unsigned i = from; i < from + span; i++) {
        Particle p = front[i];
        n += min(CELLS - 1, max(0, (int)(p.y * scale))) * CELLS + min(CELLS - 1, max(0, (int)(p.x * scale))) == cell;
    }
    counts[threadIdx.x] = n;
    __syncthreads();
    uint32_t at = starts[cell];
    for (unsigned t = 0; t < threadIdx.x; t++) at += counts[t];
    for (unsigned i = from; i < from + span; i++) {
        Particle p = front[i];
        if (min(CELLS - 1, max(0, (int)(p.y * scale))) * CELLS + min(CELLS - 1, max(0, (int)(p.x * scale))) == cell) order[at++] = i;
    }
}

// Several steps in one launch; every particle against all in tiles of 64 KB in the order of the cells.
__global__ void __launch_bounds__(T) advance(const uint32_t *order, float2 *force_out, unsigned *barrier_count) {
    extern __shared__ float4 tile[];                // TILE particles and masses: 32 KB, and the same again for the next tile
    cg::grid_group grid = cg::this_grid();
    Particle *from = front, *to = back;
    for (int step = 0; step < parameters.steps; step++) {
        const unsigned i = grid.thread_rank();
        Particle p = i < N ? from[i] : Particle{0, 0, 0, 0};
        float fx = 0, fy = 0;
        for (int half = 0; half < N / TILE / 2; half++) {
            for (int k = threadIdx.x; k < 2 * TILE; k += T) {
                uint32_t j = order[half * 2 * TILE + k];
                Particle q = from[j];
                tile[k] = make_float4(q.x, q.y, masses[j % 64], 0);
            }
            __syncthreads();
            if (i < N) for (int k = 0; k < 2 * TILE; k++) {
                float4 q = tile[k];
                float dx = q.x - p.x, dy = q.y - p.y;
                dx -= parameters.box * rintf(dx / parameters.box); dy -= parameters.box * rintf(dy / parameters.box);
                float r2 = dx * dx + dy * dy + parameters.softening, w = q.z / (r2 * sqrtf(r2));
                fx += dx * w; fy += dy * w;
            }
            __syncthreads();
        }
        if (i < N) {
            p.vx = (p.vx + fx * forces_scale * parameters.dt) * parameters.damping + parameters.kick[i % 5];
            p.vy = (p.vy + fy * forces_scale * parameters.dt) * parameters.damping - parameters.kick[(i + 2) % 5];
            p.x += p.vx * parameters.dt; p.y += p.vy * parameters.dt;
            bool wraps = p.x < 0 || p.y < 0 || p.x >= parameters.box || p.y >= parameters.box;
            if (p.x < 0) p.x += parameters.box;
            if (p.y < 0) p.y += parameters.box;
            if (p.x >= parameters.box) p.x -= parameters.box;
            if (p.y >= parameters.box) p.y -= parameters.box;
            if (wraps) atomicAdd(&statistics.wraps, 1ull);
            to[i] = p;
            force_out[i] = make_float2(fx, fy);
        }
        grid.sync();
        if (grid.thread_rank() == 0) { statistics.steps++; *barrier_count += 1; }
        Particle *swap = from; from = to; to = swap;
    }
}

static uint64_t fold(uint64_t h, const void *p, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211ull;
    return h;
}

int main() {
    int wrong = 0, sms, cooperative, per_sm; uint64_t sum = 14695981039346656037ull;
    CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
    const size_t shared = 2 * TILE * sizeof(float4);
    CK(cudaFuncSetAttribute(advance, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    CK(cudaFuncSetAttribute(advance, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, advance, T, shared));
    if (!cooperative || per_sm * sms < N / T) { printf("no room: %d * %d\n", per_sm, sms); return 1; }
    cudaFuncAttributes attributes; CK(cudaFuncGetAttributes(&attributes, histogram));
    wrong += attributes.clusterDimMustBeSet != 0 && attributes.requiredClusterWidth != CLUSTER;

    cudaStream_t work, side; cudaEvent_t ready, copied;
    CK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    Particle *buffers[2]; uint32_t *bins, *starts, *order; float2 *forces; unsigned *barrier_count;
    for (auto &b : buffers) CK(cudaMalloc(&b, N * sizeof(Particle)));
    CK(cudaMalloc(&bins, BINS * 4)); CK(cudaMalloc(&starts, (BINS + 1) * 4)); CK(cudaMalloc(&order, N * 4));
    CK(cudaMalloc(&forces, N * sizeof(float2))); CK(cudaMalloc(&barrier_count, 4)); CK(cudaMemset(barrier_count, 0, 4));
    Particle *host; Parameters *pinned; Statistics *seen;
    CK(cudaMallocHost(&host, N * sizeof(Particle))); CK(cudaMallocHost(&pinned, ROUNDS * sizeof(Parameters))); CK(cudaMallocHost(&seen, ROUNDS * sizeof(Statistics)));
    uint32_t state = 12345; auto uniform = [&] { state = state * 1664525u + 1013904223u; return (state >> 8) * (1.0f / 16777216.0f); };
    for (int i = 0; i < N; i++) host[i] = Particle{uniform() * 64, uniform() * 64, uniform() - 0.5f, uniform() - 0.5f};
    CK(cudaMemcpyAsync(buffers[0], host, N * sizeof(Particle), cudaMemcpyHostToDevice, work));
    CK(cudaMemsetAsync(buffers[1], 0, N * sizeof(Particle), work));
    float m[64]; for (int i = 0; i < 64; i++) m[i] = 0.5f + i / 64.0f;
    CK(cudaMemcpyToSymbol(masses, m, sizeof m));
    CK(cudaMemcpyToSymbol(masses, m, sizeof(float) * 8, sizeof(float) * 56));           // the last eight are the first eight
    CK(cudaDeviceSynchronize());        // the streams do not wait for the default one
    size_t size; void *address; CK(cudaGetSymbolSize(&size, masses)); CK(cudaGetSymbolAddress(&address, statistics));
    wrong += size != sizeof m;

    std::vector<uint32_t> starts_host(BINS + 1), order_host(N);
    int total_steps = 0, now = 0; float force_scale = 1e-6f;
    for (int round = 0; round < ROUNDS; round++) {
        Parameters &q = pinned[round];
        q = Parameters{0.01f + 0.002f * round, 0.05f, 0.999f - 0.001f * (round % 3), 64.0f, 1 + round % 3, {}};
        for (int i = 0; i < 5; i++) q.kick[i] = round % 4 == 3 ? (i - 2) * 0.05f : 0.0f;
        total_steps += q.steps;
        CK(cudaMemcpyToSymbolAsync(parameters, &q, sizeof q, 0, cudaMemcpyHostToDevice, work));
        CK(cudaMemcpyToSymbolAsync(front, &buffers[now], sizeof(Particle *), 0, cudaMemcpyHostToDevice, work));
        CK(cudaMemcpyToSymbolAsync(back, &buffers[!now], sizeof(Particle *), 0, cudaMemcpyHostToDevice, work));
        if (round == 5) { force_scale = 3e-6f; CK(cudaMemcpyToSymbolAsync(forces_scale, &force_scale, 4, 0, cudaMemcpyHostToDevice, work)); }
        if (round % 2) {
            histogram<<<CLUSTER, 512, BINS / CLUSTER * 4, work>>>(bins, starts);
        } else {                                    // the same by the extensible launch
            cudaLaunchConfig_t config = {}; cudaLaunchAttribute attribute[1];
            config.gridDim = dim3(CLUSTER); config.blockDim = dim3(256); config.dynamicSmemBytes = BINS / CLUSTER * 4; config.stream = work;
            attribute[0].id = cudaLaunchAttributePriority; attribute[0].val.priority = 0;
            config.attrs = attribute; config.numAttrs = 1;
            CK(cudaLaunchKernelEx(&config, histogram, bins, starts));
        }
        CK(cudaGetLastError());
        if (round % 4 == 0) {                       // sizes of the cells against the CPU's, and the order
            std::vector<Particle> p(N);
            CK(cudaMemcpyAsync(p.data(), buffers[now], N * sizeof(Particle), cudaMemcpyDeviceToHost, work));
            CK(cudaMemcpyAsync(starts_host.data(), starts, (BINS + 1) * 4, cudaMemcpyDeviceToHost, work));
            sort_cells<<<BINS, T, 0, work>>>(starts, order);
            CK(cudaMemcpyAsync(order_host.data(), order, N * 4, cudaMemcpyDeviceToHost, work));
            CK(cudaStreamSynchronize(work));
            std::vector<std::vector<uint32_t>> cells(BINS);
            for (int i = 0; i < N; i++) {
                int cx = (int)(p[i].x * (CELLS / 64.0f)), cy = (int)(p[i].y * (CELLS / 64.0f));
                cells[std::min(cy, CELLS - 1) * CELLS + std::min(cx, CELLS - 1)].push_back(i);
            }
            uint32_t at = 0;
            for (int c = 0; c < BINS; c++) { wrong += starts_host[c] != at; for (uint32_t i : cells[c]) wrong += order_host[at++] != i; }
            wrong += starts_host[BINS] != N;
        } else {
            sort_cells<<<BINS, T, 0, work>>>(starts, order);
        }
        void *args[] = {&order, &forces, &barrier_count};
        CK(cudaLaunchCooperativeKernel((const void *)advance, dim3(N / T), dim3(T), args, shared, work));
        CK(cudaEventRecord(ready, work));
        CK(cudaStreamWaitEvent(side, ready, 0));    // the variable of the device, read back and changed beside
        CK(cudaMemcpyFromSymbolAsync(&seen[round], statistics, sizeof(Statistics), 0, cudaMemcpyDeviceToHost, side));
        int rounds = round + 1;
        CK(cudaMemcpyToSymbolAsync(statistics, &rounds, sizeof rounds, offsetof(Statistics, rounds), cudaMemcpyHostToDevice, side));
        CK(cudaEventRecord(copied, side));
        CK(cudaStreamWaitEvent(work, copied, 0));
        now = pinned[round].steps % 2 ? !now : now;
    }
    CK(cudaMemcpyAsync(host, buffers[now], N * sizeof(Particle), cudaMemcpyDeviceToHost, work));
    std::vector<float2> f(N); unsigned barriers;
    CK(cudaMemcpyAsync(f.data(), forces, N * sizeof(float2), cudaMemcpyDeviceToHost, work));
    CK(cudaStreamSynchronize(work)); CK(cudaStreamSynchronize(side));
    CK(cudaMemcpy(&barriers, barrier_count, 4, cudaMemcpyDeviceToHost));
    wrong += barriers != (unsigned)total_steps;
    int expect = 0;
    for (int r = 0; r < ROUNDS; r++) {
        expect += pinned[r].steps;
        wrong += seen[r].steps != (unsigned)expect || seen[r].rounds != r || (r && seen[r].wraps < seen[r - 1].wraps) || seen[r].worst_cell < N / BINS;
        sum = fold(sum, &seen[r], sizeof(Statistics));
    }
    Statistics direct; CK(cudaMemcpy(&direct, address, sizeof direct, cudaMemcpyDeviceToHost));
    wrong += direct.rounds != ROUNDS || direct.wraps != seen[ROUNDS - 1].wraps;
    for (int i = 0; i < N; i++) wrong += !(host[i].x >= 0 && host[i].x <= 64 && host[i].y >= 0 && host[i].y <= 64);
    sum = fold(fold(sum, host, N * sizeof(Particle)), f.data(), N * sizeof(float2));
    for (auto b : buffers) CK(cudaFree(b));
    CK(cudaFree(bins)); CK(cudaFree(starts)); CK(cudaFree(order)); CK(cudaFree(forces)); CK(cudaFree(barrier_count));
    CK(cudaFreeHost(host)); CK(cudaFreeHost(pinned)); CK(cudaFreeHost(seen));
    CK(cudaEventDestroy(ready)); CK(cudaEventDestroy(copied)); CK(cudaStreamDestroy(work)); CK(cudaStreamDestroy(side));
    printf("particles: steps %d wraps %llu checksum %016llx wrong %d\n", total_steps, direct.wraps, (unsigned long long)sum, wrong);
    return wrong != 0;
}
