// nvcc: DRIVER
// The linker and the compiler of the driver with their options and logs, and launches of which the shape comes from queries:
// registers limited, occupancy asked for, much dynamic shared memory, parameters described, cooperative and cluster launches.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
namespace cg = cooperative_groups;

#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)
#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

__host__ __device__ inline uint32_t mix(uint32_t v, uint32_t k) { v = v * 1664525u + k; return v ^ (v >> 14); }
// All blocks take part in each phase: element i becomes a mix of itself and its mirror image, with a barrier of the grid between.
__global__ void cooperative(uint32_t *a, uint32_t *b, uint32_t n, uint32_t phases) {
    cg::grid_group grid = cg::this_grid();
    for (uint32_t phase = 0; phase < phases; phase++) {
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) b[i] = mix(a[i] ^ a[n - 1 - i], phase);
        grid.sync();
        uint32_t *t = a; a = b; b = t;
    }
}
// The blocks of a cluster read each other's shared memory: block r writes what block r + 1 holds, backwards.
__global__ void clustered(uint32_t *to, const uint32_t *from) {
    __shared__ uint32_t tile[128];
    cg::cluster_group cluster = cg::this_cluster();
    tile[threadIdx.x] = from[blockIdx.x * 128 + threadIdx.x]; cluster.sync();
    uint32_t *other = cluster.map_shared_rank(tile, (cluster.block_rank() + 1) % cluster.num_blocks());
    to[blockIdx.x * 128 + threadIdx.x] = mix(other[127 - threadIdx.x], cluster.num_blocks());
    cluster.sync();
}
static const char *leaf_ptx = HEAD ".visible .func (.param .b32 r) leaf(.param .b32 x) { .reg .b32 %a<3>; ld.param.u32 %a0, [x]; mad.lo.u32 %a1, %a0, 1664525, 77; st.param.b32 [r], %a1; ret; }\n"
    ".visible .global .align 4 .u32 calls = 0;\n";
static const char *middle_ptx = HEAD ".extern .func (.param .b32 r) leaf(.param .b32 x);\n.extern .global .align 4 .u32 calls;\n"
    ".visible .func (.param .b32 r) middle(.param .b32 x) { .reg .b32 %a<4>; .reg .b32 %t; ld.param.u32 %a0, [x]; xor.b32 %a0, %a0, 0x5a5a;\n"
    "{ .param .b32 i; .param .b32 o; st.param.b32 [i], %a0; call (o), leaf, (i); ld.param.b32 %a1, [o]; }\n"
    "atom.global.add.u32 %t, [calls], 1; st.param.b32 [r], %a1; ret; }\n";
static const char *top_ptx = HEAD ".extern .func (.param .b32 r) middle(.param .b32 x);\n"
    ".visible .entry top(.param .u64 p, .param .u32 n)\n{ .reg .pred %p0; .reg .b32 %r<10>; .reg .b64 %d<3>;\n"
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2; ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;\n"
    "ld.param.u64 %d0, [p]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r5, [%d0];\n"
    "{ .param .b32 i; .param .b32 o; st.param.b32 [i], %r5; call (o), middle, (i); ld.param.b32 %r6, [o]; }\n st.global.u32 [%d0], %r6; ret; }\n";
// Each block turns its part round in dynamic shared memory; a parameter list with holes.
static const char *turn_ptx = HEAD ".extern .shared .align 16 .b8 room[];\n"
    ".visible .entry turn(.param .u16 key, .param .u64 p, .param .u8 flag, .param .u32 per_block, .param .align 8 .b8 tail[24])\n{ .reg .pred %p<3>; .reg .b16 %h; .reg .b32 %r<16>; .reg .b64 %d<4>;\n"
    "ld.param.u16 %h, [key]; cvt.u32.u16 %r9, %h; ld.param.u32 %r10, [tail+16]; add.u32 %r9, %r9, %r10;\n"
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; ld.param.u32 %r3, [per_block]; mul.lo.u32 %r4, %r0, %r3; ld.param.u64 %d0, [p]; mov.u32 %r5, room; mov.u32 %r6, %r2;\n"
    "in: setp.ge.u32 %p0, %r6, %r3; @%p0 bra loaded; add.u32 %r7, %r4, %r6; mul.wide.u32 %d1, %r7, 4; add.u64 %d1, %d0, %d1; ld.global.u32 %r8, [%d1]; add.u32 %r8, %r8, %r9;\n"
    "shl.b32 %r11, %r6, 2; add.u32 %r11, %r11, %r5; st.shared.u32 [%r11], %r8; add.u32 %r6, %r6, %r1; bra in;\n"
    "loaded: bar.sync 0; mov.u32 %r6, %r2;\n"
    "out: setp.ge.u32 %p1, %r6, %r3; @%p1 bra done; sub.u32 %r12, %r3, %r6; sub.u32 %r12, %r12, 1; shl.b32 %r12, %r12, 2; add.u32 %r12, %r12, %r5; ld.shared.u32 %r13, [%r12];\n"
    "add.u32 %r7, %r4, %r6; mul.wide.u32 %d1, %r7, 4; add.u64 %d1, %d0, %d1; st.global.u32 [%d1], %r13; add.u32 %r6, %r6, %r1; bra out;\ndone: ret; }\n";

static int wrong = 0; static uint64_t checksum = 14695981039346656037ull;
static CUfunction function(const void *symbol) { cudaFunction_t f; if (cudaGetFuncBySymbol(&f, symbol) != cudaSuccess) { fprintf(stderr, "no function\n"); exit(2); } return (CUfunction)f; }
static void compare(CUstream s, CUdeviceptr d, const std::vector<uint32_t> &ref, int line) {
    std::vector<uint32_t> back(ref.size()); CU(cuMemcpyDtoHAsync(back.data(), d, back.size() * 4, s)); CU(cuStreamSynchronize(s));
    if (back != ref) { wrong++; fprintf(stderr, "line %d\n", line); }
    for (uint32_t v : back) checksum = (checksum ^ v) * 1099511628211ull;
}
static size_t CUDA_CB shared_for(int block) { return block * 16; }

int main() {
    CU(cuInit(0));
    CUdevice device; CUcontext context; CUstream s; CU(cuDeviceGet(&device, 0)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context)); CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    const uint32_t n = 48 * 1024; CUdeviceptr a, b; CU(cuMemAlloc(&a, n * 4)); CU(cuMemAlloc(&b, n * 4));
    std::vector<uint32_t> ref(n), other(n); auto reset = [&](uint32_t k) { for (uint32_t i = 0; i < n; i++) ref[i] = mix(i, k); CU(cuMemcpyHtoDAsync(a, ref.data(), n * 4, s)); };

    // Three texts linked in every order; the result is kept as a cubin, loaded twice, each with its own counter.
    const char *texts[] = {leaf_ptx, middle_ptx, top_ptx}; const char *names[] = {"leaf.ptx", "middle.ptx", "top.ptx"};
    int orders[4][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}};
    for (int o = 0; o < 4; o++) {
        char info[4000] = "", error[4000] = ""; CUlinkState link; void *cubin; size_t size;
        CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE, CU_JIT_OPTIMIZATION_LEVEL};
        void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)(uintptr_t)1, (void *)(uintptr_t)(o + 1)};
        CU(cuLinkCreate(6, options, values, &link));
        for (int i : orders[o]) { CUresult r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)texts[i], strlen(texts[i]) + 1, names[i], 0, nullptr, nullptr); if (r) { printf("%s\n", error); return 2; } }
        CU(cuLinkComplete(link, &cubin, &size)); wrong += size == 0;
        std::vector<char> kept((char *)cubin, (char *)cubin + size); CU(cuLinkDestroy(link));
        CUmodule modules[2]; reset(o);
        for (int m = 0; m < 2; m++) CU(cuModuleLoadData(&modules[m], kept.data()));
        for (int m = 0; m < 2; m++) {
            CUfunction top; CUdeviceptr calls; size_t bytes; CU(cuModuleGetFunction(&top, modules[m], "top")); CU(cuModuleGetGlobal(&calls, &bytes, modules[m], "calls"));
            int least, best; CU(cuOccupancyMaxPotentialBlockSize(&least, &best, top, nullptr, 0, o == 3 ? 96 : 0)); wrong += best < 32 || best > 1024 || (o == 3 && best > 96);
            uint32_t count = n - m * 1000, counted = 0; void *args[] = {&a, &count};
            CU(cuLaunchKernel(top, (count + best - 1) / best, 1, 1, best, 1, 1, 0, s, args, nullptr));
            for (uint32_t i = 0; i < count; i++) ref[i] = (ref[i] ^ 0x5a5a) * 1664525u + 77;
            CU(cuMemcpyDtoHAsync(&counted, calls, 4, s)); CU(cuStreamSynchronize(s)); wrong += counted != count;
        }
        compare(s, a, ref, __LINE__);
        for (CUmodule m : modules) CU(cuModuleUnload(m));
    }
    // A text that is wrong, and the word of its log; a text that lacks a function, linked or not.
    {
        char log[3000] = ""; CUmodule none; CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}; void *values[] = {log, (void *)(sizeof log - 1)};
        CUresult r = cuModuleLoadDataEx(&none, HEAD ".visible .entry bad() { .reg .b32 %r<2>; mov.u32 %r0, %nowhere; ret; }\n", 2, options, values);
        wrong += r != CUDA_ERROR_INVALID_PTX || !strstr(log, "nowhere");
        wrong += cuModuleLoadData(&none, HEAD ".visible .entry worse() { frobnicate.u32; ret; }\n") == CUDA_SUCCESS;
    }
    // Registers limited, parameters described, and more shared memory than there is without asking.
    for (int limit : {24, 64}) {
        CUmodule module; CUfunction turn; CUjit_option options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_GENERATE_DEBUG_INFO}; void *values[] = {(void *)(uintptr_t)limit, nullptr};
        CU(cuModuleLoadDataEx(&module, turn_ptx, 2, options, values)); CU(cuModuleGetFunction(&turn, module, "turn"));
        int registers = 0, most = 0; CU(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, turn)); wrong += registers > limit || registers < 1;
        CU(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, turn)); wrong += most != 48 * 1024;
        size_t expected[5][2] = {{0, 2}, {8, 8}, {16, 1}, {20, 4}, {24, 24}}, offset, size;
        for (size_t i = 0; i < 5; i++) { CU(cuFuncGetParamInfo(turn, i, &offset, &size)); wrong += offset != expected[i][0] || size != expected[i][1]; }
        wrong += cuFuncGetParamInfo(turn, 5, &offset, &size) == CUDA_SUCCESS;
        uint32_t per_block = 24 * 1024, bytes = per_block * 4; uint16_t key = 500 + limit; uint8_t flag = 1; struct { uint64_t x, y; uint32_t z, w; } tail = {1, 2, 3, 4};
        void *args[] = {&key, &a, &flag, &per_block, &tail}; reset(limit);
        wrong += cuLaunchKernel(turn, n / per_block, 1, 1, 512, 1, 1, bytes, s, args, nullptr) != CUDA_ERROR_INVALID_VALUE;        // 96 KB: not yet
        CU(cuFuncSetAttribute(turn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)); CU(cuFuncSetAttribute(turn, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_SHARED));
        int blocks = 0, least, best; CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, turn, 512, bytes)); wrong += blocks < 1;
        CU(cuOccupancyMaxPotentialBlockSize(&least, &best, turn, shared_for, 0, 0)); wrong += best < 32;
        CU(cuLaunchKernel(turn, n / per_block, 1, 1, best, 1, 1, bytes, s, args, nullptr));
        std::vector<uint32_t> was = ref; for (uint32_t i = 0; i < n; i++) ref[i] = was[i / per_block * per_block + per_block - 1 - i % per_block] + key + 3;
        compare(s, a, ref, __LINE__); CU(cuModuleUnload(module));
    }
    // As many blocks as fit at once, for a barrier of them all; by the old call and by an attribute.
    CUfunction all = function((const void *)cooperative); int per_processor = 0, processors = 0;
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, all, 128, 0)); CU(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    for (int way = 0; way < 2; way++) {
        uint32_t count = n, phases = 6 + way, grid = way ? processors : processors * (per_processor < 2 ? per_processor : 2); void *args[] = {&a, &b, &count, &phases}; reset(way + 50);
        if (!way) CU(cuLaunchCooperativeKernel(all, grid, 1, 1, 128, 1, 1, 0, s, args));
        else {
            CUlaunchAttribute attribute[2]; memset(attribute, 0, sizeof attribute); attribute[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE; attribute[0].value.cooperative = 1; attribute[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY; attribute[1].value.priority = 0;
            CUlaunchConfig c; memset(&c, 0, sizeof c); c.gridDimX = grid; c.gridDimY = c.gridDimZ = 1; c.blockDimX = 128; c.blockDimY = c.blockDimZ = 1; c.hStream = s; c.attrs = attribute; c.numAttrs = 2;
            CU(cuLaunchKernelEx(&c, all, args, nullptr));
        }
        for (uint32_t phase = 0; phase < phases; phase++) { for (uint32_t i = 0; i < n; i++) other[i] = mix(ref[i] ^ ref[n - 1 - i], phase); ref.swap(other); }
        compare(s, phases % 2 ? b : a, ref, __LINE__);
    }
    // Clusters of 1, 2, 4 and 8 blocks.
    CUfunction cluster = function((const void *)clustered);
    for (uint32_t width : {1, 2, 4, 8}) {
        CUlaunchAttribute attribute; memset(&attribute, 0, sizeof attribute); attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION; attribute.value.clusterDim.x = width; attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        CUlaunchConfig c; memset(&c, 0, sizeof c); c.gridDimX = n / 128; c.gridDimY = c.gridDimZ = 1; c.blockDimX = 128; c.blockDimY = c.blockDimZ = 1; c.hStream = s; c.attrs = &attribute; c.numAttrs = 1;
        int clusters = 0; CU(cuOccupancyMaxActiveClusters(&clusters, cluster, &c)); wrong += clusters < 1;
        reset(width + 90); void *args[] = {&b, &a}; CU(cuLaunchKernelEx(&c, cluster, args, nullptr));
        for (uint32_t block = 0; block < n / 128; block++) for (uint32_t i = 0; i < 128; i++) other[block * 128 + i] = mix(ref[(block / width * width + (block + 1) % width) * 128 + 127 - i], width);
        compare(s, b, other, __LINE__);
    }
    CU(cuMemFree(a)); CU(cuMemFree(b)); CU(cuStreamDestroy(s));
    printf("jitshapes: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
