// A decoder that makes one token after the other: fp8 weights in a persisting part of the L2 cache, bfloat16 activations, half caches;
// 96 layers as one cooperative kernel, as one cluster, or as a chain of programmatic dependent launches, with all pointers by value in
// more than 4 KiB of parameters (one at an odd place); directly and by graphs that are updated. The token comes back by mapped memory.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
namespace cg = cooperative_groups;

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
static int small(uint32_t v, int most) { return (int)(mix(v) % (2 * most + 1)) - most; }

constexpr int HIDDEN = 128, LAYERS = 96, VOCABULARY = 256, TOKENS = 30, MODELS = 2, KEPT = 16, BLOCKS = 4, TABLE = 61;
struct Layer { const __nv_fp8_e4m3 *weights; const __nv_bfloat16 *bias; __half *cache; const void *next; uint64_t id; uint32_t rows, flags; };
struct __attribute__((packed)) Tail { uint8_t flags; const int *table; uint16_t n; };      // as it came out of a file
struct Model { Layer layers[LAYERS]; __nv_bfloat16 *x; int token, layer; Tail tail; };     // by value
static_assert(sizeof(Model) > 4096 && offsetof(Model, x) > 4096, "large");
struct Answer { uint32_t token, position; int score; uint32_t check; };

__constant__ int shifts[LAYERS];
__device__ int layer_value(const Model &m, int layer, int j, const __nv_bfloat16 *x) {
    const Layer &l = m.layers[layer]; float s = 0;
    for (int k = 0; k < HIDDEN; k++) s += float(l.weights[j * HIDDEN + k]) * __bfloat162float(x[k]);
    int v = (int)s + (int)__bfloat162float(l.bias[j]) + shifts[layer] + m.tail.table[(j + layer) % m.tail.n];
    if (m.token) v += (int)__half2float(l.cache[mix(m.token * 64 + layer) % m.token * KEPT + j % KEPT]);
    return (v % 15 + 15) % 15 - 7;
}
__device__ void keep(const Model &m, int layer, int j, int v) { if (j < KEPT) m.layers[layer].cache[m.token * KEPT + j] = __int2half_rn(v); }

__global__ void all_cooperative(const __grid_constant__ Model m) {
    cg::grid_group grid = cg::this_grid(); int j = blockIdx.x * blockDim.x + threadIdx.x;
    for (int layer = 0; layer < LAYERS; layer++) {
        int v = layer_value(m, layer, j, m.x + layer % 2 * HIDDEN);
        m.x[(layer + 1) % 2 * HIDDEN + j] = __int2bfloat16_rn(v); keep(m, layer, j, v);
        grid.sync();
    }
}
__global__ void all_cluster(const __grid_constant__ Model m) {
    __shared__ __nv_bfloat16 x[2][HIDDEN];
    cg::cluster_group cluster = cg::this_cluster(); int j = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = threadIdx.x; k < HIDDEN; k += blockDim.x) x[0][k] = m.x[k];
    cluster.sync();
    for (int layer = 0; layer < LAYERS; layer++) {
        int v = layer_value(m, layer, j, x[layer % 2]);
        for (int b = 0; b < BLOCKS; b++) cluster.map_shared_rank(&x[0][0], b)[(layer + 1) % 2 * HIDDEN + j] = __int2bfloat16_rn(v);
        keep(m, layer, j, v);
        cluster.sync();
    }
    m.x[j] = x[0][j];
}
__global__ void one_layer(const __grid_constant__ Model m) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();              // the next may come and wait
    cudaGridDependencySynchronize();
    int v = layer_value(m, m.layer, j, m.x + m.layer % 2 * HIDDEN);
    m.x[(m.layer + 1) % 2 * HIDDEN + j] = __int2bfloat16_rn(v); keep(m, m.layer, j, v);
}
__global__ void choose(const __nv_bfloat16 *x, const signed char *embedding, Answer *answer, int position) {
    __shared__ int scores[VOCABULARY];
    int s = 0; for (int k = 0; k < HIDDEN; k++) s += (int)__bfloat162float(x[k]) * embedding[threadIdx.x * HIDDEN + k];
    scores[threadIdx.x] = s; __syncthreads();
    if (threadIdx.x == 0) {
        int best = 0; for (int i = 1; i < VOCABULARY; i++) if (scores[i] > scores[best]) best = i;
        *answer = Answer{(uint32_t)best, (uint32_t)position, scores[best], mix(best * 31 + position)};
        __threadfence_system();
    }
}

struct Network { std::vector<signed char> weights, bias; std::vector<int> cache; Model model; __nv_fp8_e4m3 *d_weights; __nv_bfloat16 *d_bias, *x; __half *d_cache; };
static Network networks[MODELS]; static cudaStream_t stream; static int *d_tables; static signed char *d_embedding;
static Answer *answer, *answer_device; static __nv_bfloat16 *input, *output; static int *shift_staging;
constexpr size_t SQUARE = HIDDEN * HIDDEN;

static void load(int n) {
    Network &net = networks[n]; net.weights.resize(LAYERS * SQUARE); net.bias.resize(LAYERS * HIDDEN); net.cache.assign(LAYERS * TOKENS * KEPT, 0);
    std::vector<__nv_fp8_e4m3> w(net.weights.size()); std::vector<__nv_bfloat16> b(net.bias.size());
    for (size_t i = 0; i < w.size(); i++) w[i] = __nv_fp8_e4m3((float)(net.weights[i] = small(i + n * 5000000, 2)));
    for (size_t i = 0; i < b.size(); i++) b[i] = __float2bfloat16(net.bias[i] = small(i * 3 + n, 9));
    CK(cudaMalloc(&net.d_weights, w.size())); CK(cudaMalloc(&net.d_bias, b.size() * 2)); CK(cudaMalloc(&net.d_cache, LAYERS * TOKENS * KEPT * 2)); CK(cudaMalloc(&net.x, 2 * HIDDEN * 2));
    CK(cudaMemset(net.d_cache, 0, LAYERS * TOKENS * KEPT * 2));
    CK(cudaMemcpy(net.d_weights, w.data(), w.size(), cudaMemcpyHostToDevice)); CK(cudaMemcpy(net.d_bias, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
    Model &m = net.model; memset(&m, 0, sizeof m); m.x = net.x; m.tail.n = TABLE; m.tail.table = d_tables + n * TABLE; m.tail.flags = 0xa5;
    for (int l = 0; l < LAYERS; l++) m.layers[l] = Layer{net.d_weights + l * SQUARE, net.d_bias + l * HIDDEN, net.d_cache + l * TOKENS * KEPT, net.d_weights + (l + 1) % LAYERS * SQUARE, (uint64_t)l << 40, HIDDEN, 0};
}
static void enqueue(int mode, const Model &model) {
    CK(cudaMemcpyAsync(model.x, input, HIDDEN * 2, cudaMemcpyHostToDevice, stream));
    CK(cudaMemcpyToSymbolAsync(shifts, shift_staging, sizeof(int) * LAYERS, 0, cudaMemcpyHostToDevice, stream));
    cudaLaunchConfig_t config = {}; cudaLaunchAttribute attribute = {}; config.gridDim = dim3(BLOCKS); config.blockDim = dim3(HIDDEN / BLOCKS); config.stream = stream; config.attrs = &attribute; config.numAttrs = 1;
    if (mode == 0) { attribute.id = cudaLaunchAttributeCooperative; attribute.val.cooperative = 1; CK(cudaLaunchKernelEx(&config, all_cooperative, model)); }
    else if (mode == 1) { attribute.id = cudaLaunchAttributeClusterDimension; attribute.val.clusterDim.x = BLOCKS; attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1; CK(cudaLaunchKernelEx(&config, all_cluster, model)); }
    else {
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization; attribute.val.programmaticStreamSerializationAllowed = 1;
        Model m = model; for (m.layer = 0; m.layer < LAYERS; m.layer++) { config.numAttrs = m.layer > 0; CK(cudaLaunchKernelEx(&config, one_layer, m)); }
    }
    choose<<<1, VOCABULARY, 0, stream>>>(model.x, d_embedding, answer_device, model.token); CK(cudaGetLastError());
    CK(cudaMemcpyAsync(output, model.x, HIDDEN * 2, cudaMemcpyDeviceToHost, stream));
}

int main() {
    CK(cudaSetDeviceFlags(cudaDeviceMapHost)); CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<int> tables(MODELS * TABLE); for (size_t i = 0; i < tables.size(); i++) tables[i] = small(i + 1, 40);
    CK(cudaMalloc(&d_tables, tables.size() * 4)); CK(cudaMemcpy(d_tables, tables.data(), tables.size() * 4, cudaMemcpyHostToDevice));
    std::vector<signed char> embedding(VOCABULARY * HIDDEN); for (size_t i = 0; i < embedding.size(); i++) embedding[i] = small(i * 7, 3);
    CK(cudaMalloc(&d_embedding, embedding.size())); CK(cudaMemcpy(d_embedding, embedding.data(), embedding.size(), cudaMemcpyHostToDevice));
    CK(cudaHostAlloc(&answer, sizeof(Answer), cudaHostAllocMapped)); CK(cudaHostGetDevicePointer(&answer_device, answer, 0)); memset(answer, 0, sizeof(Answer));
    CK(cudaMallocHost(&input, HIDDEN * 2)); CK(cudaMallocHost(&output, HIDDEN * 2)); CK(cudaHostAlloc(&shift_staging, LAYERS * 4, cudaHostAllocWriteCombined));
    for (int n = 0; n < MODELS; n++) load(n);
    CK(cudaDeviceSynchronize());
    cudaDeviceProp device; CK(cudaGetDeviceProperties(&device, 0));
    if (device.persistingL2CacheMaxSize > 0) {              // the weights stay in the cache, as far as it goes
        CK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, std::min<size_t>(device.persistingL2CacheMaxSize, 4 << 20)));
        cudaStreamAttrValue window = {}; window.accessPolicyWindow.base_ptr = networks[0].d_weights; window.accessPolicyWindow.num_bytes = std::min<size_t>(device.accessPolicyMaxWindowSize, LAYERS * SQUARE);
        window.accessPolicyWindow.hitRatio = 0.8f; window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting; window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
        CK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window));
    }
    cudaGraphExec_t execs[3] = {}; int updated = 0; uint32_t token[MODELS] = {3, 200}; std::vector<__nv_fp8_e4m3> fresh(SQUARE);
    for (int step = 0; step < TOKENS * MODELS; step++) {
        Network &net = networks[step % MODELS]; const int position = step / MODELS, mode = (step / 4) % 3; uint32_t &last = token[step % MODELS];
        std::vector<int> x(HIDDEN), y(HIDDEN), shift(LAYERS);
        // What goes in depends on what came out.
        for (int k = 0; k < HIDDEN; k++) { x[k] = embedding[last * HIDDEN + k] + small(position * 1000 + k, 2); input[k] = __float2bfloat16(x[k]); }
        for (int l = 0; l < LAYERS; l++) shift_staging[l] = shift[l] = small(step * 500 + l, 100);
        if (step % 11 == 7) {                               // one layer learns: weights from pageable memory
            int l = step % LAYERS; for (size_t i = 0; i < SQUARE; i++) fresh[i] = __nv_fp8_e4m3((float)(net.weights[l * SQUARE + i] = small(step * 90000 + i, 2)));
            CK(cudaMemcpyAsync((void *)net.model.layers[l].weights, fresh.data(), SQUARE, cudaMemcpyHostToDevice, stream));
        }
        if (step % 17 == 9) {                               // two layers exchange their weights, in the parameters only
            int a = step % 40, b = 95 - a; std::swap(net.model.layers[a].weights, net.model.layers[b].weights);
            std::swap_ranges(&net.weights[a * SQUARE], &net.weights[a * SQUARE] + SQUARE, &net.weights[b * SQUARE]);
        }
        net.model.token = position;
        if (step < 14) enqueue(mode, net.model);
        else {
            cudaGraph_t graph; cudaGraphExecUpdateResultInfo info = {};
            CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); enqueue(mode, net.model); CK(cudaStreamEndCapture(stream, &graph));
            if (execs[mode] && cudaGraphExecUpdate(execs[mode], graph, &info) == cudaSuccess) updated++;
            else { cudaGetLastError(); if (execs[mode]) CK(cudaGraphExecDestroy(execs[mode])); CK(cudaGraphInstantiate(&execs[mode], graph, 0)); }
            CK(cudaGraphDestroy(graph)); CK(cudaGraphLaunch(execs[mode], stream));
        }
        // Meanwhile, by the CPU.
        for (int l = 0; l < LAYERS; l++) {
            const signed char *w = &net.weights[l * SQUARE]; int *cache = &net.cache[l * TOKENS * KEPT]; const int *px = x.data();
            for (int j = 0; j < HIDDEN; j++) {
                int v = net.bias[l * HIDDEN + j] + shift[l] + tables[(step % MODELS) * TABLE + (j + l) % TABLE];
                for (int k = 0; k < HIDDEN; k++) v += w[j * HIDDEN + k] * px[k];
                if (position) v += cache[mix(position * 64 + l) % position * KEPT + j % KEPT];
                y[j] = (v % 15 + 15) % 15 - 7;
            }
            for (int j = 0; j < KEPT; j++) cache[position * KEPT + j] = y[j];
            std::swap(x, y);
        }
        int best = 0, best_score = -1000000; for (int v = 0; v < VOCABULARY; v++) { int s = 0; for (int k = 0; k < HIDDEN; k++) s += x[k] * embedding[v * HIDDEN + k]; if (s > best_score) { best = v; best_score = s; } }
        CK(cudaStreamSynchronize(stream));
        const Answer a = *answer;
        bool right = a.token == (uint32_t)best && a.score == best_score && a.position == (uint32_t)position && a.check == mix(best * 31 + position);
        for (int k = 0; k < HIDDEN; k++) { right = right && __bfloat162float(output[k]) == x[k]; fold((int)__bfloat162float(output[k])); }
        if (!right && !wrong++) fprintf(stderr, "step %d of mode %d: token %u instead of %d\n", step, mode, a.token, best);
        last = a.token % VOCABULARY; fold(a.token); fold(a.score);
    }
    for (auto &net : networks) {
        std::vector<__half> cache(net.cache.size()); CK(cudaMemcpy(cache.data(), net.d_cache, cache.size() * 2, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < cache.size(); i++) { wrong += __half2float(cache[i]) != net.cache[i]; fold((int)__half2float(cache[i])); }
        CK(cudaFree(net.d_weights)); CK(cudaFree(net.d_bias)); CK(cudaFree(net.d_cache)); CK(cudaFree(net.x));
    }
    if (device.persistingL2CacheMaxSize > 0) CK(cudaCtxResetPersistingL2Cache());
    for (auto e : execs) if (e) CK(cudaGraphExecDestroy(e));
    CK(cudaFree(d_tables)); CK(cudaFree(d_embedding)); CK(cudaFreeHost(answer)); CK(cudaFreeHost(input)); CK(cudaFreeHost(output)); CK(cudaFreeHost(shift_staging)); CK(cudaStreamDestroy(stream));
    printf("decode: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
