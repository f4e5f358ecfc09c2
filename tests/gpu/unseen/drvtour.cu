// The driver's functions on their own: a device asked about, PTX text loaded with options, a product compiled by NVRTC and loaded from a
// file, parameters in one buffer, two texts linked, a texture that is rotated, memory mapped in pieces, contexts handed from thread to thread.
// nvcc: -lnvrtc DRIVER -Xcompiler -pthread
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cuda.h>
#include <nvrtc.h>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

#define checkDrv(call) do { CUresult e_ = (call); if (e_ != CUDA_SUCCESS) { const char *s_ = "?"; cuGetErrorName(e_, &s_); \
    fprintf(stderr, "driver error at %s:%d: %s -> %s\n", __FILE__, __LINE__, #call, s_); exit(2); } } while (0)

// Written by hand: out[i] = in[i] * k + i, with a variable of the module's for k, and the lane's number added
static const char *handwritten = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 factor = 3;
.visible .entry scaleAdd(.param .u64 p_out, .param .u64 p_in, .param .u32 p_n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [p_out];
    ld.param.u64 %rd2, [p_in];
    ld.param.u32 %r1, [p_n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd4, %rd5;
    add.s64 %rd7, %rd3, %rd5;
    ld.global.u32 %r6, [%rd6];
    ld.global.u32 %r7, [factor];
    mad.lo.s32 %r8, %r6, %r7, %r5;
    mov.u32 %r9, %laneid;
    add.s32 %r10, %r8, %r9;
    st.global.u32 [%rd7], %r10;
done:
    ret;
}
)";
static const char *calledPart = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .func (.param .b32 result) twist(.param .b32 value)
{
    .reg .b32 %r<6>;
    ld.param.b32 %r1, [value];
    shl.b32 %r2, %r1, 13;
    xor.b32 %r3, %r1, %r2;
    shr.u32 %r4, %r3, 17;
    xor.b32 %r5, %r3, %r4;
    st.param.b32 [result], %r5;
    ret;
}
)";
static const char *callingPart = R"(
.version 7.0
.target sm_52
.address_size 64
.extern .func (.param .b32 result) twist(.param .b32 value);
.visible .entry twistAll(.param .u64 p_data)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p_data];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r5, [%rd4];
    {
        .param .b32 a;
        .param .b32 b;
        st.param.b32 [a], %r5;
        call.uni (b), twist, (a);
        ld.param.b32 %r6, [b];
    }
    st.global.u32 [%rd4], %r6;
    ret;
}
)";
static const char *compiled = R"(
__constant__ float offset[4];
__device__ unsigned long long launches;
template <int B> __global__ void matrixMul(float *c, const float *a, const float *b, int wa, int wb)
{
    __shared__ float as[B][B], bs[B][B];
    float sum = 0;
    int row = blockIdx.y * B + threadIdx.y, col = blockIdx.x * B + threadIdx.x;
    for (int t = 0; t < wa; t += B) {
        as[threadIdx.y][threadIdx.x] = a[row * wa + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * wb + col];
        __syncthreads();
        for (int k = 0; k < B; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * wb + col] = sum + offset[threadIdx.x & 3];
    if (row == 0 && col == 0) atomicAdd(&launches, 1ull);
}
extern "C" __global__ void rotate(float *out, int w, int h, float angle, unsigned long long texture)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = (x + .5f) / w - .5f, v = (y + .5f) / h - .5f;
    out[y * w + x] = tex2D<float>(texture, u * cosf(angle) - v * sinf(angle) + .5f, v * cosf(angle) + u * sinf(angle) + .5f);
}
extern "C" __global__ void vectorAdd(const int *a, const int *b, int *c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
extern "C" __global__ void timed(int *data, long long *ticks)       // the ticks stay on the GPU
{
    extern __shared__ int s[];
    if (threadIdx.x == 0) ticks[blockIdx.x] = clock64();
    s[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    for (int d = blockDim.x / 2; d; d /= 2) { __syncthreads(); if (threadIdx.x < d) s[threadIdx.x] = min(s[threadIdx.x], s[threadIdx.x + d]); }
    __syncthreads();
    if (threadIdx.x == 0) { data[blockIdx.x * blockDim.x] = s[0]; ticks[gridDim.x + blockIdx.x] = clock64(); }
}
)";
static void showLog(const char *what, const char *log) { if (log[0]) fprintf(stderr, "%s: %s\n", what, log); }

// ---------------------------------------------------------------- memory in pieces
struct Mapped { CUdeviceptr at; size_t size, piece; std::vector<CUmemGenericAllocationHandle> handles; };
static Mapped mapPieces(size_t bytes, CUdevice dev)
{
    Mapped m; CUmemAllocationProp prop; memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE; prop.location.id = dev;
    checkDrv(cuMemGetAllocationGranularity(&m.piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    m.size = iDivUp(bytes, m.piece) * m.piece;
    checkDrv(cuMemAddressReserve(&m.at, m.size, 0, 0, 0));
    for (size_t o = 0; o < m.size; o += m.piece) {
        CUmemGenericAllocationHandle h; checkDrv(cuMemCreate(&h, m.piece, &prop, 0)); checkDrv(cuMemMap(m.at + o, m.piece, 0, h, 0));
        if (o / m.piece % 2) checkDrv(cuMemRelease(h)); else m.handles.push_back(h);     // the mapping keeps it
    }
    CUmemAccessDesc access; access.location = prop.location; access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    checkDrv(cuMemSetAccess(m.at, m.size, &access, 1));
    return m;
}
static void unmapPieces(Mapped &m) { checkDrv(cuMemUnmap(m.at, m.size)); checkDrv(cuMemAddressFree(m.at, m.size)); for (auto h : m.handles) checkDrv(cuMemRelease(h)); }

// ---------------------------------------------------------------- migration
static std::mutex turnMutex; static std::condition_variable turnChanged; static int turn = 0;
struct Worker { CUcontext *contexts; CUfunction *functions; CUdeviceptr *buffers; int contextsCount, id, all, rounds, n; };
static void work(Worker w)
{
    for (int round = 0; round < w.rounds; round++) {
        std::unique_lock<std::mutex> lock(turnMutex);
        turnChanged.wait(lock, [&] { return turn % w.all == w.id; });
        int c = turn % w.contextsCount; CUcontext popped, current;
        checkDrv(cuCtxPushCurrent(w.contexts[c])); checkDrv(cuCtxGetCurrent(&current));
        if (current != w.contexts[c]) exit(2);
        int n = w.n; void *args[] = {&w.buffers[c], &w.buffers[c], &n};
        checkDrv(cuLaunchKernel(w.functions[c], iDivUp(n, 128), 1, 1, 128, 1, 1, 0, 0, args, 0));
        checkDrv(cuCtxSynchronize()); checkDrv(cuCtxPopCurrent(&popped));
        if (popped != w.contexts[c]) exit(2);
        turn++; turnChanged.notify_all();
    }
}

int main()
{
    printf("[drvtour]\n");
    int devices, major, minor, version, smem; CUdevice dev; CUcontext ctx; char name[128]; size_t memory; CUuuid uuid;
    checkDrv(cuInit(0)); checkDrv(cuDriverGetVersion(&version)); checkDrv(cuDeviceGetCount(&devices)); checkDrv(cuDeviceGet(&dev, 0)); checkDrv(cuDeviceGetName(name, sizeof name, dev));
    checkDrv(cuDeviceTotalMem(&memory, dev)); checkDrv(cuDeviceGetUuid(&uuid, dev));
    int known = 0, value;
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++) known += cuDeviceGetAttribute(&value, (CUdevice_attribute)a, dev) == CUDA_SUCCESS;
    checkDrv(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev)); checkDrv(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev)); checkDrv(cuDeviceGetAttribute(&smem, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, dev));
    printf("GPU Device 0: \"%s\" with compute capability %d.%d\n", name, major, minor);
    report("device asked", known > 80 && memory > (1u << 30) && smem >= 48 * 1024);
    for (int i = 0; i < devices; i++) for (int j = 0; j < devices; j++) if (i != j) { int can; checkDrv(cuDeviceCanAccessPeer(&can, i, j)); }
    checkDrv(cuCtxCreate(&ctx, NULL, CU_CTX_SCHED_AUTO, dev));

    const int n = 50000; std::vector<unsigned> in(n), got(n); CUdeviceptr a, b; CUmodule module; CUfunction f;
    for (auto &v : in) v = nextRandom();
    checkDrv(cuMemAlloc(&a, n * 4)); checkDrv(cuMemAlloc(&b, n * 4)); checkDrv(cuMemcpyHtoD(a, in.data(), n * 4));
    {   // text with options of the compiler
        char info[4096] = "", error[4096] = ""; float wall = 0;
        CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS, CU_JIT_OPTIMIZATION_LEVEL};
        void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)32, (void *)4};
        CUresult r = cuModuleLoadDataEx(&module, handwritten, 6, options, values);
        if (r != CUDA_SUCCESS) showLog("jit", error);
        checkDrv(r); checkDrv(cuModuleGetFunction(&f, module, "scaleAdd"));
        CUdeviceptr factor; size_t size; checkDrv(cuModuleGetGlobal(&factor, &size, module, "factor"));
        int bad = size != 4, count = n;
        for (unsigned k = 3; k < 9; k += 2) {
            checkDrv(cuMemcpyHtoD(factor, &k, 4));
            if (k % 4 == 3) { void *args[] = {&b, &a, &count}; checkDrv(cuLaunchKernel(f, iDivUp(n, 256), 1, 1, 256, 1, 1, 0, NULL, args, NULL)); }
            else {
                struct { CUdeviceptr out, in; int n; } packed = {b, a, n}; size_t bytes = 20;
                void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
                checkDrv(cuLaunchKernel(f, iDivUp(n, 256), 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
            }
            checkDrv(cuCtxSynchronize()); checkDrv(cuMemcpyDtoH(got.data(), b, n * 4));
            for (int i = 0; i < n; i++) bad += got[i] != in[i] * k + i + i % 32;
            digest(got.data(), n * 4);
        }
        report("PTX text, both kinds of parameters", bad == 0);
        checkDrv(cuModuleUnload(module));
    }
    {   // linked
        CUlinkState link; void *cubin; size_t size; char error[4096] = ""; float wall;
        CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}; void *values[] = {&wall, error, (void *)sizeof error};
        checkDrv(cuLinkCreate(3, options, values, &link));
        checkDrv(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)calledPart, strlen(calledPart) + 1, "called", 0, 0, 0)); checkDrv(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)callingPart, strlen(callingPart) + 1, "calling", 0, 0, 0));
        CUresult r = cuLinkComplete(link, &cubin, &size); if (r != CUDA_SUCCESS) showLog("link", error);
        checkDrv(r); checkDrv(cuModuleLoadData(&module, cubin)); checkDrv(cuLinkDestroy(link)); checkDrv(cuModuleGetFunction(&f, module, "twistAll"));
        void *args[] = {&a}; int bad = 0, whole = n / 128 * 128;
        checkDrv(cuLaunchKernel(f, n / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL)); checkDrv(cuMemcpyDtoH(got.data(), a, n * 4));
        for (int i = 0; i < n; i++) { unsigned v = in[i]; if (i < whole) { v ^= v << 13; v ^= v >> 17; } bad += got[i] != v; }
        report("two texts linked", bad == 0); digest(got.data(), n * 4);
        checkDrv(cuModuleUnload(module));
    }
    // NVRTC, through a file
    nvrtcProgram program; std::string arch = "--gpu-architecture=compute_" + std::to_string(major) + std::to_string(minor); const char *options[] = {arch.c_str(), "--std=c++17", "--fmad=false"}; size_t size; const char *lowered;
    checkLib(nvrtcCreateProgram(&program, compiled, "compiled.cu", 0, NULL, NULL)); checkLib(nvrtcAddNameExpression(program, "matrixMul<16>")); checkLib(nvrtcAddNameExpression(program, "matrixMul<32>"));
    nvrtcResult compiledOk = nvrtcCompileProgram(program, 3, options);
    checkLib(nvrtcGetProgramLogSize(program, &size)); std::string log(size, 0); checkLib(nvrtcGetProgramLog(program, &log[0])); if (compiledOk) showLog("nvrtc", log.c_str());
    checkLib(compiledOk); checkLib(nvrtcGetPTXSize(program, &size)); std::string ptx(size, 0); checkLib(nvrtcGetPTX(program, &ptx[0]));
    char path[] = "/tmp/drvtourXXXXXX"; int fd = mkstemp(path);
    if (fd < 0 || write(fd, ptx.c_str(), ptx.size()) != (ssize_t)ptx.size()) { perror(path); return 2; }
    close(fd); checkDrv(cuModuleLoad(&module, path)); unlink(path);
    {
        const int hA = 192, wA = 160, wB = 224; std::vector<float> A(hA * wA), B(wA * wB), C(hA * wB); CUdeviceptr da, db, dc, offset, launches; size_t bytes; CUstream stream; float *pinned; unsigned long long count = 0;
        for (auto &v : A) v = nextRandom() % 7; for (auto &v : B) v = nextRandom() % 9;
        checkDrv(cuMemAlloc(&da, A.size() * 4)); checkDrv(cuMemAlloc(&db, B.size() * 4)); checkDrv(cuMemAlloc(&dc, C.size() * 4)); checkDrv(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); checkDrv(cuMemAllocHost((void **)&pinned, C.size() * 4));
        checkDrv(cuModuleGetGlobal(&offset, &bytes, module, "offset")); checkDrv(cuModuleGetGlobal(&launches, &bytes, module, "launches"));
        float offsets[4] = {0, 1, 2, 3}; checkDrv(cuMemcpyHtoD(offset, offsets, sizeof offsets)); checkDrv(cuCtxSynchronize()); checkDrv(cuMemcpyHtoDAsync(da, A.data(), A.size() * 4, stream)); checkDrv(cuMemcpyHtoDAsync(db, B.data(), B.size() * 4, stream));
        CUevent begin, end; float ms; checkDrv(cuEventCreate(&begin, 0)); checkDrv(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
        for (int block = 16; block <= 32; block *= 2) {
            checkLib(nvrtcGetLoweredName(program, block == 16 ? "matrixMul<16>" : "matrixMul<32>", &lowered)); checkDrv(cuModuleGetFunction(&f, module, lowered));
            int w1 = wA, w2 = wB, registers, bad = 0; void *args[] = {&dc, &da, &db, &w1, &w2};
            checkDrv(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f)); checkDrv(cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED)); checkDrv(cuMemsetD32Async(dc, 0, C.size(), stream));
            checkDrv(cuEventRecord(begin, stream)); for (int i = 0; i < 10; i++) checkDrv(cuLaunchKernel(f, wB / block, hA / block, 1, block, block, 1, 0, stream, args, NULL)); checkDrv(cuEventRecord(end, stream));
            checkDrv(cuMemcpyDtoHAsync(pinned, dc, C.size() * 4, stream)); checkDrv(cuEventSynchronize(end)); checkDrv(cuEventElapsedTime(&ms, begin, end)); checkDrv(cuStreamSynchronize(stream));
            for (int i = 0; i < hA; i++) for (int j = i % 3; j < wB; j += 3) { float s = 0; for (int k = 0; k < wA; k++) s += A[i * wA + k] * B[k * wB + j]; bad += s + offsets[j & 3] != pinned[i * wB + j]; }
            report(block == 16 ? "product by NVRTC, blocks of 16" : "product by NVRTC, blocks of 32", bad == 0 && registers > 0); digest(pinned, C.size() * 4);
        }
        checkDrv(cuMemcpyDtoH(&count, launches, 8)); report("launches counted", count == 20);
        checkDrv(cuEventDestroy(begin)); checkDrv(cuEventDestroy(end)); checkDrv(cuMemFreeHost(pinned)); checkDrv(cuStreamDestroy(stream)); checkDrv(cuMemFree(da)); checkDrv(cuMemFree(db)); checkDrv(cuMemFree(dc));
    }
    {   // a texture turned round
        const int W = 256, H = 160; std::vector<float> image(W * H), turned(W * H); CUarray array; CUDA_ARRAY_DESCRIPTOR ad = {W, H, CU_AD_FORMAT_FLOAT, 1}; CUtexObject texture; CUdeviceptr out;
        for (int i = 0; i < W * H; i++) image[i] = i;
        checkDrv(cuArrayCreate(&array, &ad)); CUDA_MEMCPY2D copy; memset(&copy, 0, sizeof copy); copy.srcMemoryType = CU_MEMORYTYPE_HOST; copy.srcHost = image.data(); copy.srcPitch = W * 4; copy.dstMemoryType = CU_MEMORYTYPE_ARRAY; copy.dstArray = array; copy.WidthInBytes = W * 4; copy.Height = H;
        checkDrv(cuMemcpy2D(&copy));
        CUDA_RESOURCE_DESC rd; CUDA_TEXTURE_DESC td; memset(&rd, 0, sizeof rd); memset(&td, 0, sizeof td); rd.resType = CU_RESOURCE_TYPE_ARRAY; rd.res.array.hArray = array; td.addressMode[0] = td.addressMode[1] = CU_TR_ADDRESS_MODE_WRAP; td.filterMode = CU_TR_FILTER_MODE_POINT; td.flags = CU_TRSF_NORMALIZED_COORDINATES;
        checkDrv(cuTexObjectCreate(&texture, &rd, &td, NULL)); checkDrv(cuMemAlloc(&out, W * H * 4)); checkDrv(cuModuleGetFunction(&f, module, "rotate"));
        int bad = 0;
        for (float angle : {0.f, 3.14159265f, .5f}) {
            int w = W, h = H; void *args[] = {&out, &w, &h, &angle, &texture};
            checkDrv(cuLaunchKernel(f, W / 16, H / 16, 1, 16, 16, 1, 0, NULL, args, NULL)); checkDrv(cuMemcpyDtoH(turned.data(), out, W * H * 4));
            for (int y = 8; y < H - 8; y++) for (int x = 8; x < W - 8; x++) bad += angle == 0 ? turned[y * W + x] != image[y * W + x] : angle > 3 ? turned[y * W + x] != image[(H - 1 - y) * W + W - 1 - x] : 0;
            digest(turned.data(), W * H * 4);
        }
        report("texture turned", bad == 0);
        checkDrv(cuTexObjectDestroy(texture)); checkDrv(cuArrayDestroy(array)); checkDrv(cuMemFree(out));
    }
    {   // the kernel that looks at the clock
        const int blocks = 64, threads = 256; CUdeviceptr ticks; std::vector<unsigned> h(blocks * threads), g(blocks * threads); int bad = 0;
        for (auto &v : h) v = nextRandom() & 0xffffff;
        checkDrv(cuModuleGetFunction(&f, module, "timed")); checkDrv(cuMemAlloc(&ticks, 2 * blocks * 8)); checkDrv(cuMemcpyHtoD(b, h.data(), h.size() * 4)); void *args[] = {&b, &ticks};
        checkDrv(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, threads * 4, NULL, args, NULL)); checkDrv(cuMemcpyDtoH(g.data(), b, g.size() * 4));
        for (int i = 0; i < blocks; i++) bad += g[i * threads] != *std::min_element(h.begin() + i * threads, h.begin() + (i + 1) * threads);
        report("clock in a kernel", bad == 0); digest(g.data(), g.size() * 4); checkDrv(cuMemFree(ticks));
    }
    {   // vectors of mapped pieces
        int vmm; checkDrv(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, dev));
        if (vmm) {
            const int m = 3000000; std::vector<int> x(m), y(m), z(m); Mapped ma = mapPieces(m * 4, dev), mb = mapPieces(m * 4, dev), mc = mapPieces(m * 4, dev); int count = m, bad = 0;
            for (int i = 0; i < m; i++) { x[i] = nextRandom(); y[i] = i; }
            checkDrv(cuMemcpyHtoD(ma.at, x.data(), m * 4)); checkDrv(cuMemcpyHtoD(mb.at, y.data(), m * 4)); checkDrv(cuModuleGetFunction(&f, module, "vectorAdd"));
            void *args[] = {&ma.at, &mb.at, &mc.at, &count}; checkDrv(cuLaunchKernel(f, iDivUp(m, 256), 1, 1, 256, 1, 1, 0, NULL, args, NULL)); checkDrv(cuMemcpyDtoH(z.data(), mc.at, m * 4));
            for (int i = 0; i < m; i++) bad += z[i] != x[i] + y[i];
            report("vectors of mapped pieces", bad == 0); digest(z.data(), m * 4); unmapPieces(ma); unmapPieces(mb); unmapPieces(mc);
        }
    }
    checkDrv(cuMemFree(a)); checkDrv(cuMemFree(b)); checkDrv(cuModuleUnload(module)); checkLib(nvrtcDestroyProgram(&program));
    {   // three contexts, five threads
        const int C = 3, T = 5, rounds = 6, m = 4096; CUcontext contexts[C], popped; CUmodule modules[C]; CUfunction functions[C]; CUdeviceptr buffers[C]; std::vector<std::thread> threads; int bad = 0;
        for (int c = 0; c < C; c++) {
            checkDrv(cuCtxCreate(&contexts[c], NULL, 0, dev)); checkDrv(cuModuleLoadData(&modules[c], handwritten)); checkDrv(cuModuleGetFunction(&functions[c], modules[c], "scaleAdd"));
            checkDrv(cuMemAlloc(&buffers[c], m * 4)); checkDrv(cuMemsetD32(buffers[c], c + 1, m)); checkDrv(cuCtxPopCurrent(&popped));
        }
        for (int t = 0; t < T; t++) threads.emplace_back(work, Worker{contexts, functions, buffers, C, t, T, rounds, m});
        for (auto &t : threads) t.join();
        std::vector<unsigned> h(m);
        for (int c = 0; c < C; c++) {
            checkDrv(cuCtxPushCurrent(contexts[c])); checkDrv(cuMemcpyDtoH(h.data(), buffers[c], m * 4));
            for (int i = 0; i < m; i++) { unsigned v = c + 1; for (int k = c; k < T * rounds; k += C) v = v * 3 + i + i % 32; bad += h[i] != v; }
            digest(h.data(), m * 4); checkDrv(cuMemFree(buffers[c])); checkDrv(cuModuleUnload(modules[c])); checkDrv(cuCtxPopCurrent(&popped)); checkDrv(cuCtxDestroy(contexts[c]));
        }
        report("contexts handed from thread to thread", bad == 0);
    }
    checkDrv(cuCtxDestroy(ctx));
    FINISH("drvtour");
}
