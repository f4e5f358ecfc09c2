// Memory of the program registered for the GPU: parts of a std::vector, a file mapped into memory and memory of memfd_create;
// kernels read and write them by their mapped pointers, the CPU changes them between the launches, and all is unregistered,
// resized and registered again. Where a file's pages cannot be registered, copies do the same work.
#include <cuda_runtime.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define SYS(x) do { if (!(x)) { perror(#x); exit(2); } } while (0)

static std::atomic<int> wrong{0};
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void change(uint32_t *p, int n, uint32_t k) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = mix(p[i] + k) ^ i; }
__global__ void add(uint32_t *to, const uint32_t *from, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] += from[i] * 3; }
static uint64_t hash(const uint32_t *p, size_t n, uint64_t h = 14695981039346656037ull) { for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull; return h; }

// 1. Parts of a vector; it grows between the rounds. One part is registered by address only, not on a page's bounds.
static uint64_t vectors(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    std::vector<uint32_t> v(200000), ref;
    for (size_t i = 0; i < v.size(); i++) v[i] = mix(i + id);
    uint32_t *acc; const int part = 30000; CK(cudaMalloc(&acc, part * 4)); CK(cudaMemsetAsync(acc, 0, part * 4, s));
    std::vector<uint32_t> racc(part, 0), got(part); uint64_t h = 0;
    for (int round = 0; round < 5; round++) {
        ref = v;
        // Far enough apart that no page belongs to two parts.
        size_t starts[3] = {1001u + round, 80000u + 17 * round, 150003};
        uint32_t *parts[3], *device[3];
        for (int k = 0; k < 3; k++) {
            parts[k] = v.data() + starts[k];
            CK(cudaHostRegister(parts[k], part * 4, k == 1 ? cudaHostRegisterPortable | cudaHostRegisterMapped : k == 2 ? cudaHostRegisterMapped : cudaHostRegisterDefault));
            CK(cudaHostGetDevicePointer(&device[k], parts[k], 0));
            unsigned flags; CK(cudaHostGetFlags(&flags, parts[k]));
        }
        wrong += cudaHostRegister(parts[1], part * 4, cudaHostRegisterDefault) != cudaErrorHostMemoryAlreadyRegistered; cudaGetLastError();
        for (int launch = 0; launch < 6; launch++) {
            int k = launch % 3;
            change<<<24, 256, 0, s>>>(device[k], part, launch * 10 + round);
            add<<<16, 128, 0, s>>>(acc, device[k], part);
            CK(cudaGetLastError());
            if (launch == 4) CK(cudaMemcpyAsync(parts[2], parts[0], part * 4, cudaMemcpyHostToHost, s));
            if (launch == 3) CK(cudaMemcpyAsync(parts[1], acc, part * 4, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            uint32_t *r = &ref[starts[k]];
            for (int i = 0; i < part; i++) { r[i] = mix(r[i] + launch * 10 + round) ^ i; racc[i] += r[i] * 3; }
            if (launch == 4) memcpy(&ref[starts[2]], &ref[starts[0]], part * 4);
            if (launch == 3) memcpy(&ref[starts[1]], racc.data(), part * 4);
            for (int i = launch; i < part; i += 101) { parts[k][i] ^= 0xf0f0; r[i] ^= 0xf0f0; }      // the CPU's change, seen by the next launch
        }
        CK(cudaMemcpyAsync(got.data(), acc, part * 4, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        wrong += got != racc; wrong += v != ref;
        for (auto p : parts) CK(cudaHostUnregister(p));
        wrong += cudaHostUnregister(parts[0]) == cudaSuccess; cudaGetLastError();
        h = hash(v.data(), v.size(), h + round);
        v.resize(v.size() + 70000 + id * 1000, round + 1);    // likely elsewhere now
        for (size_t i = 0; i < v.size(); i += 333) v[i] += round;
    }
    CK(cudaFree(acc)); CK(cudaStreamDestroy(s));
    return hash(racc.data(), racc.size(), h);
}

// 2. A file and a memfd: both by mapped pointers if they can be registered.
struct Mapping {
    int fd; uint32_t *p = nullptr; size_t count = 0; bool shared, registered = false; uint32_t *device = nullptr, *own = nullptr;
    void map(size_t n) {
        count = n;
        SYS(ftruncate(fd, n * 4) == 0);
        void *q = mmap(nullptr, n * 4, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        SYS(q != MAP_FAILED);
        p = (uint32_t *)q;
    }
    void enter() {
        registered = cudaHostRegister(p, count * 4, cudaHostRegisterMapped) == cudaSuccess;
        if (registered) { CK(cudaHostGetDevicePointer(&device, p, 0)); return; }
        cudaGetLastError();
        CK(cudaMalloc(&own, count * 4)); device = own;
    }
    void before(cudaStream_t s) { if (!registered) CK(cudaMemcpyAsync(own, p, count * 4, cudaMemcpyHostToDevice, s)); }
    void after(cudaStream_t s) { if (!registered) CK(cudaMemcpyAsync(p, own, count * 4, cudaMemcpyDeviceToHost, s)); }
    void leave() { if (registered) CK(cudaHostUnregister(p)); else CK(cudaFree(own)); registered = false; own = device = nullptr; }
    void unmap() { SYS(munmap(p, count * 4) == 0); p = nullptr; }
};

static uint64_t files() {
    cudaStream_t s, other; CK(cudaStreamCreate(&s)); CK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t e; CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    char name[] = "/tmp/hostregisterXXXXXX"; Mapping file, memory;
    file.fd = mkstemp(name); SYS(file.fd >= 0); SYS(unlink(name) == 0); file.shared = false;
    memory.fd = memfd_create("hostregister", 0); SYS(memory.fd >= 0); memory.shared = true;
    size_t n = 40000; uint64_t h = 0;
    std::vector<uint32_t> first(n), a, b;
    for (size_t i = 0; i < n; i++) first[i] = mix(i * 5);
    SYS(write(file.fd, first.data(), n * 4) == (ssize_t)(n * 4)); SYS(pwrite(memory.fd, first.data(), n * 2, 0) == (ssize_t)(n * 2));
    for (int round = 0; round < 4; round++) {
        file.map(n); memory.map(n);
        a.assign(file.p, file.p + n); b.assign(memory.p, memory.p + n);
        file.enter(); memory.enter();
        for (int launch = 0; launch < 5; launch++) {
            file.before(s); memory.before(other);
            change<<<32, 128, 0, s>>>(file.device, (int)n, launch);
            change<<<8, 512, 0, other>>>(memory.device, (int)n, launch * 7);
            CK(cudaEventRecord(e, s)); CK(cudaStreamWaitEvent(other, e, 0));
            add<<<20, 256, 0, other>>>(memory.device, file.device, (int)n);
            CK(cudaGetLastError());
            memory.after(other); CK(cudaStreamSynchronize(other));
            file.after(s); CK(cudaStreamSynchronize(s));
            for (size_t i = 0; i < n; i++) { a[i] = mix(a[i] + launch) ^ (uint32_t)i; b[i] = (mix(b[i] + launch * 7) ^ (uint32_t)i) + a[i] * 3; }
            wrong += memcmp(file.p, a.data(), n * 4) != 0; wrong += memcmp(memory.p, b.data(), n * 4) != 0;
            uint32_t line[64]; for (int i = 0; i < 64; i++) line[i] = mix(i + launch);         // the CPU writes: one by pointer, one by the file
            for (int i = 0; i < 64; i++) { file.p[1000 + i] = line[i]; a[1000 + i] = line[i]; }
            memcpy(memory.p + 2000, line, sizeof line); memcpy(&b[2000], line, sizeof line);
        }
        file.leave(); memory.leave();
        h = hash(memory.p, n, hash(file.p, n, h));
        SYS(pwrite(file.fd, a.data(), n * 4, 0) == (ssize_t)(n * 4));             // a private mapping is written back by hand
        std::vector<uint32_t> seen(n); SYS(pread(memory.fd, seen.data(), n * 4, 0) == (ssize_t)(n * 4));
        wrong += seen != b;                                 // a shared one is in the file
        file.unmap(); memory.unmap();
        n = round == 1 ? n / 3 : n + 9001;                  // larger, smaller, larger
    }
    close(file.fd); close(memory.fd);
    CK(cudaEventDestroy(e)); CK(cudaStreamDestroy(s)); CK(cudaStreamDestroy(other));
    return h;
}

// 3. A region from mmap, registered page range by page range in turn and used by ordinary copies and by kernels.
static uint64_t pages() {
    const size_t chunk = 1 << 18, chunks = 6, n = chunk / 4;
    uint32_t *p = (uint32_t *)mmap(nullptr, chunk * chunks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); SYS((void *)p != MAP_FAILED);
    std::vector<uint32_t> ref(n * chunks);
    for (size_t i = 0; i < ref.size(); i++) p[i] = ref[i] = i * 7;
    uint32_t *d; CK(cudaMalloc(&d, chunk));
    for (int turn = 0; turn < 18; turn++) {
        size_t at = (turn * 5) % chunks, two = at + 1 < chunks && turn % 3 == 0 ? 2 : 1;
        uint32_t *q = p + at * n, *mapped;
        CK(cudaHostRegister(q, chunk * two, cudaHostRegisterMapped));
        CK(cudaHostGetDevicePointer(&mapped, q, 0));
        cudaPointerAttributes attributes; CK(cudaPointerGetAttributes(&attributes, q)); wrong += attributes.type != cudaMemoryTypeHost;
        change<<<30, 256>>>(mapped, (int)(n * two), turn);
        CK(cudaMemcpyAsync(d, q, chunk, cudaMemcpyHostToDevice, 0));
        add<<<30, 256>>>(d, mapped, (int)n);
        CK(cudaMemcpyAsync(q, d, chunk, cudaMemcpyDeviceToHost, 0));
        CK(cudaStreamSynchronize(0));
        CK(cudaHostUnregister(q));
        for (size_t i = 0; i < n * two; i++) { uint32_t &r = ref[at * n + i]; r = mix(r + turn) ^ (uint32_t)i; if (i < n) r += r * 3; }
        wrong += memcmp(p, ref.data(), chunk * chunks) != 0;
    }
    uint64_t h = hash(p, n * chunks);
    CK(cudaFree(d)); SYS(munmap(p, chunk * chunks) == 0);
    return h;
}

int main() {
    CK(cudaSetDevice(0));
    int can = 0; CK(cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterSupported, 0));
    if (!can) { fprintf(stderr, "no cudaHostRegister\n"); return 2; }
    uint64_t sums[2];
    std::thread threads[2] = {std::thread([&] { sums[0] = vectors(0); }), std::thread([&] { sums[1] = vectors(1); })};
    uint64_t sum = files();
    for (auto &t : threads) t.join();
    sum = sum * 31 + pages(); sum = sum * 31 + sums[0]; sum = sum * 31 + sums[1];
    CK(cudaDeviceSynchronize());
    printf("hostregister: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
