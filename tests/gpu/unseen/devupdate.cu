// nvcc: -rdc=true -lcudadevrt
// Graphs that the GPU steers: a scheduler that takes operations from a program in mapped memory and tail-launches their graphs and
// itself, with the graphs' handles in a constant table; fans of graphs that are fired and forgotten; and a planner whose kernel
// rewrites pointers, sizes and switches of the later nodes of its own graph by their device handles.
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
typedef std::vector<uint32_t> Vec;
static void compare(const char *what, const uint32_t *p, const Vec &ref) {
    if (memcmp(p, ref.data(), ref.size() * 4)) { wrong++; fprintf(stderr, "%s differs\n", what); }
    for (size_t i = 0; i < ref.size(); i++) sum = (sum ^ p[i]) * 1099511628211ull;
}
__device__ uint32_t device_errors;
__device__ void check(cudaError_t e) { if (e != cudaSuccess) atomicAdd(&device_errors, 1 + ((uint32_t)e << 8)); }

// 1. The scheduler.
constexpr int N = 6000;
struct Dispatch { uint32_t salt[1100]; cudaGraphExec_t graphs[6]; uint32_t *data; };       // its pointers lie beyond the first 4 KiB
__constant__ Dispatch dispatch;
__device__ uint32_t cursor;
__global__ void rewind_cursor() { cursor = 0; }
__global__ void schedule(const uint32_t *program) {         // program[0] is its length
    uint32_t at = cursor++;
    if (at >= program[0]) return;
    check(cudaGraphLaunch(dispatch.graphs[program[1 + at]], cudaStreamGraphTailLaunch));
    check(cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch));
}
__global__ void fan(uint32_t mask, int tail) {
    for (int g = 0; g < 6; g++) if (mask >> g & 1) check(cudaGraphLaunch(dispatch.graphs[g], cudaStreamGraphFireAndForget));
    check(cudaGraphLaunch(dispatch.graphs[tail], cudaStreamGraphTailLaunch));
}
__global__ void scale(uint32_t *x, uint32_t a, uint32_t b) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) x[i] = x[i] * a + b; }
__global__ void gather(uint32_t *y, const uint32_t *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) y[i] ^= x[(i * 5 + 1) % N]; }
__global__ void add(uint32_t *x, const uint32_t *z) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) x[i] += z[i] * 3 + dispatch.salt[i % 1100]; }
__global__ void salted(uint32_t *w) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) w[i] = mix(w[i] + dispatch.salt[i % 1100]); }

struct Made { cudaGraph_t graph; cudaGraphExec_t exec; };
template <class F> static Made make(cudaStream_t s, unsigned flags, F f) {
    Made m;
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); f(); CK(cudaGetLastError()); CK(cudaStreamEndCapture(s, &m.graph));
    CK(cudaGraphInstantiate(&m.exec, m.graph, flags));
    if (flags & cudaGraphInstantiateFlagDeviceLaunch) { CK(cudaGraphUpload(m.exec, s)); CK(cudaStreamSynchronize(s)); }
    return m;
}
static void drop(Made &m) { CK(cudaGraphExecDestroy(m.exec)); CK(cudaGraphDestroy(m.graph)); }

static void scheduler(cudaStream_t s) {
    const int G = (N + 127) / 128;
    uint32_t *data, *program, *program_device, *out; Dispatch *staging;
    CK(cudaMalloc(&data, 4 * N * 4)); CK(cudaHostAlloc(&program, 512, cudaHostAllocMapped)); CK(cudaHostGetDevicePointer(&program_device, program, 0));
    CK(cudaMallocHost(&out, 4 * N * 4)); CK(cudaMallocHost(&staging, sizeof(Dispatch)));
    uint32_t *x = data, *y = data + N, *z = data + 2 * N, *w = data + 3 * N;
    Vec ref(4 * N); for (int i = 0; i < 4 * N; i++) ref[i] = mix(i);
    CK(cudaMemcpy(data, ref.data(), 4 * N * 4, cudaMemcpyHostToDevice));
    uint32_t a = 5, b = 7; unsigned char mark = 0x21;
    const unsigned device = cudaGraphInstantiateFlagDeviceLaunch;
    Made ops[6] = {
        make(s, device, [&] { scale<<<G, 128, 0, s>>>(x, a, b); }),
        make(s, device, [&] { gather<<<G, 128, 0, s>>>(y, x); }),
        make(s, device, [&] { CK(cudaMemcpyAsync(z, y, N * 4, cudaMemcpyDeviceToDevice, s)); add<<<G, 128, 0, s>>>(x, z); }),
        make(s, device, [&] { CK(cudaMemsetAsync(z, mark, N * 4, s)); add<<<G, 128, 0, s>>>(y, z); }),
        make(s, device, [&] { salted<<<G, 128, 0, s>>>(w); }),
        make(s, device, [&] { gather<<<G, 128, 0, s>>>(w, y); scale<<<G, 128, 0, s>>>(z, 3, 1); })};
    Made scheduling = make(s, device, [&] { schedule<<<1, 1, 0, s>>>(program_device); });
    Made fanning = make(s, 0, [&] { fan<<<1, 1, 0, s>>>(1 << 0 | 1 << 4, 1); });    // disjoint: x and w; then y from x
    Vec salt(1100);
    auto publish = [&](uint32_t seed) {
        for (int i = 0; i < 1100; i++) staging->salt[i] = salt[i] = mix(seed + i);
        for (int g = 0; g < 6; g++) staging->graphs[g] = ops[g].exec;
        staging->data = data;
        CK(cudaMemcpyToSymbolAsync(dispatch, staging, sizeof(Dispatch), 0, cudaMemcpyHostToDevice, s)); CK(cudaStreamSynchronize(s));
    };
    uint32_t *rx = &ref[0], *ry = &ref[N], *rz = &ref[2 * N], *rw = &ref[3 * N];
    auto run = [&](int op) {
        auto adding = [&](uint32_t *t) { for (int i = 0; i < N; i++) t[i] += rz[i] * 3 + salt[i % 1100]; };
        switch (op) {
            case 0: for (int i = 0; i < N; i++) rx[i] = rx[i] * a + b; break;
            case 1: for (int i = 0; i < N; i++) ry[i] ^= rx[(i * 5 + 1) % N]; break;
            case 2: memcpy(rz, ry, N * 4); adding(rx); break;
            case 3: memset(rz, mark, N * 4); adding(ry); break;
            case 4: for (int i = 0; i < N; i++) rw[i] = mix(rw[i] + salt[i % 1100]); break;
            default: for (int i = 0; i < N; i++) { rw[i] ^= ry[(i * 5 + 1) % N]; rz[i] = rz[i] * 3 + 1; }
        }
    };
    for (uint32_t round = 0; round < 10; round++) {
        publish(round * 1000);
        program[0] = 4 + mix(round) % 20;                   // rewritten between the launches of the same graph
        for (uint32_t i = 0; i < program[0]; i++) program[1 + i] = mix(round * 64 + i) % 6;
        rewind_cursor<<<1, 1, 0, s>>>(); CK(cudaGetLastError());
        CK(cudaGraphLaunch(scheduling.exec, s)); CK(cudaStreamSynchronize(s));
        for (uint32_t i = 0; i < program[0]; i++) run(program[1 + i]);
        if (round % 3 == 1) { CK(cudaGraphLaunch(fanning.exec, s)); CK(cudaStreamSynchronize(s)); run(0); run(4); run(1); }
        if (round % 4 == 2) { CK(cudaGraphLaunch(ops[5].exec, s)); CK(cudaStreamSynchronize(s)); run(5); }      // from the host, too
        if (round % 2) {                                    // other parameters by the host, uploaded again
            a = a * 3 + 2; b += round; void *args[] = {&x, &a, &b}; cudaGraphNode_t node; size_t one = 1; cudaKernelNodeParams kp = {};
            CK(cudaGraphGetNodes(ops[0].graph, &node, &one));
            kp.func = (void *)scale; kp.gridDim = dim3(G); kp.blockDim = dim3(128); kp.kernelParams = args;
            CK(cudaGraphExecKernelNodeSetParams(ops[0].exec, node, &kp)); CK(cudaGraphUpload(ops[0].exec, s)); CK(cudaStreamSynchronize(s));
        }
        if (round % 5 == 3) {                               // one is made anew, its handle is another (or the old one again)
            drop(ops[3]); mark += 0x11;
            ops[3] = make(s, device, [&] { CK(cudaMemsetAsync(z, mark, N * 4, s)); add<<<G, 128, 0, s>>>(y, z); });
        }
        CK(cudaMemcpyAsync(out, data, 4 * N * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); compare("scheduled", out, ref);
    }
    for (auto &m : ops) drop(m); drop(scheduling); drop(fanning);
    CK(cudaFree(data)); CK(cudaFreeHost(program)); CK(cudaFreeHost(out)); CK(cudaFreeHost(staging));
}

// 2. The planner.
constexpr int M = 4096, WORKERS = 3, BUFFERS = 4, TABLE = 1024;
struct Args { uint32_t *data; uint32_t a, b; };
struct Plan { uint64_t reserved[520]; cudaGraphDeviceNode_t nodes[WORKERS]; uint32_t *const *table; };
__global__ void worker(Args args) { int i = blockIdx.x * blockDim.x + threadIdx.x; args.data[i] = args.data[i] * args.a + args.b + i; }
__global__ void tabulate(uint32_t **table, uint32_t *base) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < TABLE) table[i] = base + mix(i) % BUFFERS * M; }
__device__ uint32_t round_counter;
__global__ void planner(const Plan *plan) {
    uint32_t r = round_counter++;
    for (int w = 0; w < WORKERS; w++) {
        uint32_t h = mix(r * 8 + w); cudaGraphDeviceNode_t node = plan->nodes[w];
        uint32_t *target = plan->table[h % TABLE]; uint32_t ab[2] = {h | 1, h >> 3};
        dim3 grid(1 + h % 32); bool enabled = (h >> 7) % 4 != 0;
        if (w < 2) {
            check(cudaGraphKernelNodeSetParam(node, offsetof(Args, data), target));
            check(cudaGraphKernelNodeSetParam(node, offsetof(Args, a), ab, sizeof ab));
            check(cudaGraphKernelNodeSetGridDim(node, grid)); check(cudaGraphKernelNodeSetEnabled(node, enabled));
        } else {
            Args args = {target, ab[0], ab[1]}; alignas(16) char raw[3 * sizeof(cudaGraphKernelNodeUpdate)];
            memset(raw, 0, sizeof raw);
            auto *u = (cudaGraphKernelNodeUpdate *)raw; for (int i = 0; i < 3; i++) u[i].node = node;
            u[0].field = cudaGraphKernelNodeFieldParam; u[0].updateData.param.pValue = &args; u[0].updateData.param.offset = 0; u[0].updateData.param.size = sizeof args;
            u[1].field = cudaGraphKernelNodeFieldGridDim; u[1].updateData.gridDim = grid;
            u[2].field = cudaGraphKernelNodeFieldEnabled; u[2].updateData.isEnabled = enabled;
            check(cudaGraphKernelNodeUpdatesApply(u, 3));
        }
    }
}
static void planning(cudaStream_t s) {
    uint32_t *data, **table, *out; Plan *plan; Plan host = {};
    CK(cudaMalloc(&data, BUFFERS * M * 4)); CK(cudaMalloc(&table, TABLE * 8)); CK(cudaMalloc(&plan, sizeof(Plan))); CK(cudaMallocHost(&out, BUFFERS * M * 4));
    Vec ref(BUFFERS * M); for (size_t i = 0; i < ref.size(); i++) ref[i] = mix(i + 99);
    CK(cudaMemcpy(data, ref.data(), ref.size() * 4, cudaMemcpyHostToDevice));
    tabulate<<<TABLE / 128, 128>>>(table, data); CK(cudaGetLastError());
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    planner<<<1, 1, 0, s>>>(plan); CK(cudaGetLastError());
    for (int w = 0; w < WORKERS; w++) {
        Args args = {data, 1, 0}; void *params[] = {&args}; cudaLaunchConfig_t config = {}; cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeDeviceUpdatableKernelNode; attribute.val.deviceUpdatableKernelNode.deviceUpdatable = 1;
        config.gridDim = dim3(M / 128); config.blockDim = dim3(128); config.stream = s; config.attrs = &attribute; config.numAttrs = 1;
        CK(cudaLaunchKernelExC(&config, (const void *)worker, params));
        host.nodes[w] = attribute.val.deviceUpdatableKernelNode.devNode;
        if (!host.nodes[w]) {                               // then by the node itself
            cudaStreamCaptureStatus status; const cudaGraphNode_t *last; const cudaGraphEdgeData *edges; size_t count;
            CK(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &last, &edges, &count));
            CK(cudaGraphKernelNodeGetAttribute(last[0], cudaLaunchAttributeDeviceUpdatableKernelNode, &attribute.val));
            host.nodes[w] = attribute.val.deviceUpdatableKernelNode.devNode;
        }
        if (!host.nodes[w]) { fprintf(stderr, "no handle for the node\n"); exit(2); }
    }
    CK(cudaMemcpyAsync(out, data, BUFFERS * M * 4, cudaMemcpyDeviceToHost, s));
    cudaGraph_t graph; cudaGraphExec_t exec; CK(cudaStreamEndCapture(s, &graph)); CK(cudaGraphInstantiate(&exec, graph, 0));
    host.table = table; CK(cudaMemcpy(plan, &host, sizeof host, cudaMemcpyHostToDevice));
    CK(cudaGraphUpload(exec, s)); CK(cudaStreamSynchronize(s));
    std::vector<uint32_t *> pointers(TABLE); std::vector<uint32_t> which(TABLE); for (int i = 0; i < TABLE; i++) which[i] = mix(i) % BUFFERS;
    for (uint32_t r = 0; r < 24; r++) {
        CK(cudaGraphLaunch(exec, s));
        CK(cudaStreamSynchronize(s));
        for (int w = 0; w < WORKERS; w++) {
            uint32_t h = mix(r * 8 + w); if ((h >> 7) % 4 == 0) continue;
            uint32_t *p = &ref[which[h % TABLE] * M]; for (uint32_t i = 0; i < (1 + h % 32) * 128; i++) p[i] = p[i] * (h | 1) + (h >> 3) + i;
        }
        compare("planned", out, ref);
        if (r % 6 == 4) {                                   // the table of pointers is fetched, mirrored and shifted by buffers
            CK(cudaMemcpy(pointers.data(), table, TABLE * 8, cudaMemcpyDeviceToHost));
            for (int i = 0; i < TABLE; i++) wrong += pointers[i] - data != which[i] * M;
            for (int i = 0; i < TABLE / 2; i++) { std::swap(pointers[i], pointers[TABLE - 1 - i]); std::swap(which[i], which[TABLE - 1 - i]); }
            for (int i = 0; i < TABLE; i += 3) { which[i] = (which[i] + 1) % BUFFERS; pointers[i] = data + which[i] * M; }
            CK(cudaMemcpy(table, pointers.data(), TABLE * 8, cudaMemcpyHostToDevice));
        }
    }
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph));
    CK(cudaFree(data)); CK(cudaFree(table)); CK(cudaFree(plan)); CK(cudaFreeHost(out));
}

int main() {
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    scheduler(s); planning(s);
    uint32_t errors = 1; CK(cudaMemcpyFromSymbol(&errors, device_errors, 4));
    if (errors) { wrong++; fprintf(stderr, "errors on the device: %08x\n", errors); }
    CK(cudaStreamDestroy(s));
    printf("devupdate: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
