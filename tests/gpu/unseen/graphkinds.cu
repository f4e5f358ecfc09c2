// nvcc: DRIVER
// Graphs by the driver with every kind of node: kernel, copies between CPU, device and array in three dimensions, memset of a
// rectangle, host, child, empty, event record and wait, allocation and free; clones, updates, nodes switched off, captured parts.
#include <cuda.h>
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

constexpr uint32_t W = 40, H = 24, D = 6, N = W * H * D, PITCH = 64;        // PITCH: words of a row on the device
__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
__global__ void stir(uint32_t *p, uint32_t n, uint32_t k) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = mix(p[i], k); }
__global__ void join(uint32_t *to, const uint32_t *from, uint32_t n) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] ^= from[i] * 3; }

static std::atomic<int> wrong{0};
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
static CUfunction stir_f, join_f; static CUcontext context;
struct Kernel {             // parameters of a kernel node; the arguments are copied when the node is made
    CUDA_KERNEL_NODE_PARAMS p; void *args[3]; CUdeviceptr a; CUdeviceptr b; uint32_t n, k;
    void stir(CUdeviceptr at, uint32_t count, uint32_t key) { memset(&p, 0, sizeof p); a = at; n = count; k = key; args[0] = &a; args[1] = &n; args[2] = &k; shape(stir_f); }
    void join(CUdeviceptr to, CUdeviceptr from, uint32_t count) { memset(&p, 0, sizeof p); a = to; b = from; n = count; args[0] = &a; args[1] = &b; args[2] = &n; shape(join_f); }
    void shape(CUfunction f) { p.func = f; p.gridDimX = (n + 127) / 128; p.gridDimY = p.gridDimZ = 1; p.blockDimX = 128; p.blockDimY = p.blockDimZ = 1; p.kernelParams = args; }
};
struct Job { uint32_t *p; uint32_t k; uint32_t calls; };
static void CUDA_CB on_host(void *data) { Job *j = (Job *)data; j->calls++; for (uint32_t i = 0; i < N; i++) j->p[i] += j->k ^ i; }
static CUDA_MEMCPY3D copy3d() { CUDA_MEMCPY3D c; memset(&c, 0, sizeof c); c.WidthInBytes = W * 4; c.Height = H; c.Depth = D; return c; }

// One pipeline: its memory, its graph, and what the CPU says must come of it.
struct Pipeline {
    uint32_t *in, *out; CUdeviceptr work, pitched, side; CUarray array; CUevent mark; Job job; uint32_t id, key;
    CUgraph graph, child; CUgraphExec exec; CUgraphNode kernel, host, child_node, optional, erase;
    std::vector<uint32_t> model_in, model_side; uint32_t calls = 0;
    void build(uint32_t number, CUstream s) {
        id = number; key = 100 + id;
        CU(cuMemAllocHost((void **)&in, N * 4)); CU(cuMemAllocHost((void **)&out, N * 4));
        CU(cuMemAlloc(&work, N * 4)); CU(cuMemAlloc(&pitched, PITCH * 4 * H * D)); CU(cuMemAlloc(&side, N * 4)); CU(cuMemsetD32Async(side, id, N, s));
        CUDA_ARRAY3D_DESCRIPTOR ad = {}; ad.Width = W + 3; ad.Height = H + 2; ad.Depth = D + 1; ad.Format = CU_AD_FORMAT_UNSIGNED_INT32; ad.NumChannels = 1; CU(cuArray3DCreate(&array, &ad));
        CU(cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING)); CU(cuStreamSynchronize(s));
        model_in.resize(N); model_side.assign(N, id);
        for (uint32_t i = 0; i < N; i++) in[i] = model_in[i] = i * 7 + id;
        job = {in, 5 + id, 0};
        CU(cuGraphCreate(&graph, 0));
        // CPU -> array at an odd place -> pitched memory -> dense memory
        CUDA_MEMCPY3D c = copy3d(); CUgraphNode up, across, dense, empty, record, wait, alloc, temporary, merge, release, down;
        c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = in; c.srcPitch = W * 4; c.srcHeight = H;
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = array; c.dstXInBytes = 8; c.dstY = 1; c.dstZ = 1;
        CU(cuGraphAddMemcpyNode(&up, graph, nullptr, 0, &c, context));
        c = copy3d(); c.srcMemoryType = CU_MEMORYTYPE_ARRAY; c.srcArray = array; c.srcXInBytes = 8; c.srcY = 1; c.srcZ = 1;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.dstDevice = pitched; c.dstPitch = PITCH * 4; c.dstHeight = H;
        CU(cuGraphAddMemcpyNode(&across, graph, &up, 1, &c, context));
        CUDA_MEMSET_NODE_PARAMS m = {}; m.dst = pitched + 5 * 4; m.pitch = PITCH * 4; m.value = 0x1111 * (id + 1); m.elementSize = 2; m.width = 6; m.height = 10;    // words 5 to 7 of rows 0 to 9
        CU(cuGraphAddMemsetNode(&erase, graph, &across, 1, &m, context));
        c = copy3d(); c.srcMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = pitched; c.srcPitch = PITCH * 4; c.srcHeight = H;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.dstDevice = work; c.dstPitch = W * 4; c.dstHeight = H;
        CU(cuGraphAddMemcpyNode(&dense, graph, &erase, 1, &c, context));
        Kernel k; k.stir(work, N, key); CU(cuGraphAddKernelNode(&kernel, graph, &dense, 1, &k.p));
        CU(cuGraphAddEventRecordNode(&record, graph, &kernel, 1, mark));
        // memory of the graph's own: made, filled from the work, stirred, joined to the work, freed
        CUDA_MEM_ALLOC_NODE_PARAMS a; memset(&a, 0, sizeof a); a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE; a.poolProps.location.id = 0; a.bytesize = N * 4;
        CU(cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &a));
        CUgraphNode both[2] = {record, alloc}; CU(cuGraphAddEmptyNode(&empty, graph, both, 2));
        c = copy3d(); c.WidthInBytes = N * 4; c.Height = c.Depth = 1; c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = work; c.dstDevice = a.dptr; c.srcPitch = c.dstPitch = N * 4; c.srcHeight = c.dstHeight = 1;
        CU(cuGraphAddMemcpyNode(&temporary, graph, &empty, 1, &c, context));
        k.stir(a.dptr, N, 77); CU(cuGraphAddKernelNode(&optional, graph, &temporary, 1, &k.p));
        k.join(work, a.dptr, N); CU(cuGraphAddKernelNode(&merge, graph, &optional, 1, &k.p));
        CU(cuGraphAddMemFreeNode(&release, graph, &merge, 1, a.dptr));
        // a child: two kernels upon the side memory, the second of which reads the work
        CUgraphNode first, second; CU(cuGraphCreate(&child, 0));
        k.stir(side, N, 1); CU(cuGraphAddKernelNode(&first, child, nullptr, 0, &k.p));
        k.join(side, work, N); CU(cuGraphAddKernelNode(&second, child, &first, 1, &k.p));
        CU(cuGraphAddChildGraphNode(&child_node, graph, &merge, 1, child));
        // after this launch's own record of the event
        CU(cuGraphAddEventWaitNode(&wait, graph, &child_node, 1, mark));
        c = copy3d(); c.srcMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = work; c.srcPitch = W * 4; c.srcHeight = H; c.dstMemoryType = CU_MEMORYTYPE_HOST; c.dstHost = out; c.dstPitch = W * 4; c.dstHeight = H;
        CU(cuGraphAddMemcpyNode(&down, graph, &wait, 1, &c, context));
        CUDA_HOST_NODE_PARAMS h = {on_host, &job}; CU(cuGraphAddHostNode(&host, graph, &down, 1, &h));
        size_t nodes = 0; CU(cuGraphGetNodes(graph, nullptr, &nodes)); wrong += nodes != 16;
        CUgraphNodeType type; CU(cuGraphNodeGetType(wait, &type)); wrong += type != CU_GRAPH_NODE_TYPE_WAIT_EVENT;
        CU(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    }
    std::vector<uint32_t> result;
    void model(bool with_optional, bool with_erase = true) {            // one launch on the CPU
        result = model_in;
        if (with_erase) for (uint32_t y = 0; y < 10; y++) for (uint32_t x = 5; x < 8; x++) result[y * W + x] = 0x11111111u * (id + 1);
        for (auto &v : result) v = mix(v, key);
        for (auto &v : result) v ^= (with_optional ? mix(v, 77) : v) * 3;
        for (uint32_t i = 0; i < N; i++) model_side[i] = mix(model_side[i], 1) ^ result[i] * 3;
        for (uint32_t i = 0; i < N; i++) model_in[i] += job.k ^ i;
        calls++;
    }
    void check(int line) {
        std::vector<uint32_t> s(N); CU(cuMemcpyDtoH(s.data(), side, N * 4));
        if (memcmp(out, result.data(), N * 4) || memcmp(in, model_in.data(), N * 4) || s != model_side || job.calls != calls) { wrong++; fprintf(stderr, "pipeline %u, line %d\n", id, line); }
    }
    void end() {
        CU(cuGraphExecDestroy(exec)); CU(cuGraphDestroy(graph)); CU(cuGraphDestroy(child)); CU(cuEventDestroy(mark)); CU(cuArrayDestroy(array));
        CU(cuMemFree(work)); CU(cuMemFree(pitched)); CU(cuMemFree(side)); CU(cuMemFreeHost(in)); CU(cuMemFreeHost(out));
    }
};

static uint64_t run(uint32_t id) {
    CU(cuCtxSetCurrent(context));
    CUstream s; CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    Pipeline p; p.build(id, s);
    for (int i = 0; i < 4; i++) { CU(cuGraphLaunch(p.exec, s)); p.model(true); }
    CU(cuStreamSynchronize(s)); p.check(__LINE__);
    // Other parameters, in the executable graph alone.
    Kernel k; k.stir(p.work, N, p.key = 999); CU(cuGraphExecKernelNodeSetParams(p.exec, p.kernel, &k.p));
    CU(cuGraphLaunch(p.exec, s)); p.model(true); CU(cuStreamSynchronize(s)); p.check(__LINE__);
    // Nodes switched off and on.
    unsigned on = 5; CU(cuGraphNodeSetEnabled(p.exec, p.optional, 0)); CU(cuGraphNodeGetEnabled(p.exec, p.optional, &on)); wrong += on != 0;
    CU(cuGraphLaunch(p.exec, s)); p.model(false);
    CU(cuGraphNodeSetEnabled(p.exec, p.erase, 0)); CU(cuGraphLaunch(p.exec, s)); p.model(false, false); CU(cuStreamSynchronize(s)); p.check(__LINE__);
    CU(cuGraphNodeSetEnabled(p.exec, p.optional, 1)); CU(cuGraphNodeSetEnabled(p.exec, p.erase, 1));
    CU(cuGraphLaunch(p.exec, s)); p.model(true); CU(cuStreamSynchronize(s)); p.check(__LINE__);
    // The parameters of the graph itself, which the executable one takes over by an update.
    k.stir(p.work, N, p.key = 4242); CU(cuGraphKernelNodeSetParams(p.kernel, &k.p));
    CUgraphExecUpdateResultInfo info; CUresult updated = cuGraphExecUpdate(p.exec, p.graph, &info);
    if (updated != CUDA_SUCCESS) {             // graphs that own memory may refuse: then made anew
        CU(cuGraphExecDestroy(p.exec)); CU(cuGraphInstantiate(&p.exec, p.graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    }
    CU(cuGraphLaunch(p.exec, s)); p.model(true); CU(cuStreamSynchronize(s)); p.check(__LINE__);
    // A graph begun by hand, grown by capture, cloned; the clone is changed and put in place of the first by an update.
    CUdeviceptr d; CU(cuMemAlloc(&d, N * 4)); CU(cuMemsetD32Async(d, id, N, s)); std::vector<uint32_t> ref(N, id), back(N);
    CUgraph g, same, twin; CUgraphNode root, twin_root; CU(cuGraphCreate(&g, 0));
    k.stir(d, N, 1); CU(cuGraphAddKernelNode(&root, g, nullptr, 0, &k.p));
    CU(cuStreamBeginCaptureToGraph(s, g, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    uint32_t n = N, key = 2; void *args[] = {&d, &n, &key};
    CU(cuLaunchKernel(stir_f, (N + 63) / 64, 1, 1, 64, 1, 1, 0, s, args, nullptr));
    CU(cuMemsetD32Async(d + 40, 0xfeed, 10, s));
    key = 3; CU(cuLaunchKernel(stir_f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, args, nullptr));
    CU(cuStreamEndCapture(s, &same));
    size_t nodes = 0; CU(cuGraphGetNodes(g, nullptr, &nodes)); wrong += nodes != 4;
    CU(cuGraphClone(&twin, g)); CU(cuGraphNodeFindInClone(&twin_root, root, twin));
    CUgraphExec e; CU(cuGraphInstantiate(&e, g, 0)); CU(cuGraphDestroy(g));
    auto once = [&](uint32_t first) { for (uint32_t i = 0; i < N; i++) { uint32_t v = mix(mix(ref[i], first), 2); if (i >= 10 && i < 20) v = 0xfeed; ref[i] = mix(v, 3); } };
    CU(cuGraphLaunch(e, s)); once(1); CU(cuGraphLaunch(e, s)); once(1);
    k.stir(d, N, 55); CU(cuGraphKernelNodeSetParams(twin_root, &k.p));
    CU(cuGraphExecUpdate(e, twin, &info)); wrong += info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS;
    CU(cuGraphLaunch(e, s)); once(55);
    CU(cuMemcpyDtoHAsync(back.data(), d, N * 4, s)); CU(cuStreamSynchronize(s)); wrong += back != ref;
    CU(cuGraphExecDestroy(e)); CU(cuGraphDestroy(twin)); CU(cuMemFree(d));
    uint64_t hash = 14695981039346656037ull;
    for (uint32_t i = 0; i < N; i++) hash = (hash ^ p.out[i] ^ (uint64_t)back[i] << 32) * 1099511628211ull;
    p.end(); CU(cuStreamDestroy(s));
    return hash;
}

int main() {
    CU(cuInit(0));
    CUdevice device; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
    stir_f = function((const void *)stir); join_f = function((const void *)join);
    uint64_t sums[2]; std::thread other([&] { sums[1] = run(1); });
    sums[0] = run(0); other.join();
    uint64_t total = sums[0] * 31 + sums[1];
    CU(cuDeviceGraphMemTrim(device));
    printf("graphkinds: checksum %016llx wrong %d\n", (unsigned long long)total, wrong.load());
    return wrong != 0;
}
