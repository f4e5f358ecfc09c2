// A preforking server: the parent forks its workers before anybody has called CUDA; each worker opens the device for itself, serves requests from
// its socket and writes results into memory shared with the parent (registered by the worker). One worker retires (exit), one is stopped short
// (_exit, as Python's multiprocessing does), a third is replaced in between. At the end the parent becomes a user of CUDA itself, spawns a command
// while the context is open, and checks what its workers have done.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <vector>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define SYS(x) do { if ((x) < 0) { perror(#x); exit(2); } } while (0)
extern char **environ;

enum Kind : uint32_t { SORT, PRODUCT, HISTOGRAM, RETIRE, STOP };
struct Request { uint32_t kind, n, seed, number; };
struct Reply { uint32_t number, words; unsigned long long sum; };
constexpr int WORKERS = 3, SLOT = 1 << 18;                 // each worker's part of the shared memory, in words

__host__ __device__ inline uint32_t value(uint32_t i, uint32_t seed) { uint32_t v = (i + 1) * 2246822519u ^ seed * 3266489917u; v ^= v >> 13;
    v *= 668265263u; return v ^ (v >> 16); }
static unsigned long long hash_of(const uint32_t *p, size_t n) { unsigned long long h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull; return h; }

__device__ unsigned int served;                            // one for each process
__global__ void fill(uint32_t *p, uint32_t n, uint32_t seed) { uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = value(i, seed); }
__global__ void bitonic(uint32_t *p, uint32_t n, uint32_t j, uint32_t k)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
    if (i >= n || other <= i) return;
    bool up = (i & k) == 0;
    uint32_t a = p[i], b = p[other];
    if ((a > b) == up) { p[i] = b; p[other] = a; }
}
__global__ void product(uint32_t *c, const uint32_t *a, const uint32_t *b, uint32_t n)
{
    __shared__ uint32_t ta[16][16], tb[16][17];
    uint32_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, sum = 0;
    for (uint32_t k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x]; tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
        __syncthreads();
        for (int x = 0; x < 16; x++) sum += ta[threadIdx.y][x] * tb[x][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
__global__ void histogram(uint32_t *bins, const uint32_t *p, uint32_t n)   // bins lie in the shared memory's registered part: one block writes them
{
    __shared__ uint32_t local[256];
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&local[p[i] >> 24], 1u);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = local[i];
    if (threadIdx.x == 0) served++;
}
__global__ void digest(const uint32_t *p, uint32_t n, unsigned long long *sum)
{
    unsigned long long mine = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += (unsigned long long)p[i] * (i % 9973 + 1);
    for (int d = 16; d; d >>= 1) mine += __shfl_down_sync(~0u, mine, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(sum, mine);      // integers: the order does not matter
}

static void worker(int socket, uint32_t *slot)
{
    cudaStream_t stream; CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaHostRegister(slot, SLOT * 4, cudaHostRegisterMapped));
    uint32_t *mapped; CK(cudaHostGetDevicePointer((void **)&mapped, slot, 0));
    Request r;
    while (read(socket, &r, sizeof r) == sizeof r) {
        Reply reply = {r.number, 0, 0};
        uint32_t n = r.n, *p, *q, *c;
        if (r.kind == RETIRE || r.kind == STOP) {
            unsigned int times; CK(cudaMemcpyFromSymbol(&times, served, sizeof times));
            reply.words = times; SYS(write(socket, &reply, sizeof reply));
            if (r.kind == STOP) _exit(0);                   // neither destructors nor handlers run
            CK(cudaHostUnregister(slot)); CK(cudaStreamDestroy(stream)); exit(0);
        }
        if (r.kind == SORT) {
            reply.words = n; CK(cudaMallocAsync(&p, n * 4, stream));
            fill<<<(n + 255) / 256, 256, 0, stream>>>(p, n, r.seed);
            for (uint32_t k = 2; k <= n; k *= 2) for (uint32_t j = k / 2; j; j /= 2) bitonic<<<(n + 255) / 256, 256, 0, stream>>>(p, n, j, k);
            CK(cudaMemcpyAsync(slot, p, n * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaFreeAsync(p, stream));
        } else if (r.kind == PRODUCT) {
            reply.words = n * n; CK(cudaMalloc(&p, n * n * 4)); CK(cudaMalloc(&q, n * n * 4)); CK(cudaMalloc(&c, n * n * 4));
            std::vector<uint32_t> a(n * n);
            for (uint32_t i = 0; i < n * n; i++) a[i] = value(i, r.seed);
            CK(cudaMemcpyAsync(p, a.data(), n * n * 4, cudaMemcpyHostToDevice, stream));
            fill<<<(n * n + 255) / 256, 256, 0, stream>>>(q, n * n, r.seed + 1);
            product<<<dim3(n / 16, n / 16), dim3(16, 16), 0, stream>>>(c, p, q, n);
            CK(cudaMemcpyAsync(slot, c, n * n * 4, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
            CK(cudaFree(p)); CK(cudaFree(q)); CK(cudaFree(c));
        } else {
            reply.words = 256; CK(cudaMallocAsync(&p, n * 4, stream));
            fill<<<(n + 255) / 256, 256, 0, stream>>>(p, n, r.seed);
            histogram<<<1, 512, 0, stream>>>(mapped, p, n); CK(cudaFreeAsync(p, stream));
        }
        CK(cudaGetLastError()); CK(cudaStreamSynchronize(stream));
        reply.sum = hash_of(slot, reply.words);
        SYS(write(socket, &reply, sizeof reply));
    }
    exit(3);                                                // the parent went away
}

struct Child { pid_t pid; int socket; uint32_t *slot; unsigned histograms; };
static Child start(uint32_t *slot)
{
    int ends[2]; SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    fflush(stdout);
    pid_t pid = fork(); SYS(pid);
    if (pid == 0) { close(ends[0]); worker(ends[1], slot); }
    close(ends[1]);
    return {pid, ends[0], slot, 0};
}
static Reply ask(Child &c, Request r) { Reply a; SYS(write(c.socket, &r, sizeof r));
    if (read(c.socket, &a, sizeof a) != sizeof a) { fprintf(stderr, "a worker is gone\n"); exit(2); } return a; }
static int reap(Child &c) { int status; SYS(waitpid(c.pid, &status, 0)); close(c.socket); return WIFEXITED(status) ? WEXITSTATUS(status) : 99; }

static std::vector<uint32_t> model(const Request &r)
{
    std::vector<uint32_t> v;
    if (r.kind == SORT) { v.resize(r.n); for (uint32_t i = 0; i < r.n; i++) v[i] = value(i, r.seed); std::sort(v.begin(), v.end()); }
    else if (r.kind == PRODUCT) {
        v.assign(r.n * r.n, 0);
        for (uint32_t i = 0; i < r.n; i++) for (uint32_t k = 0; k < r.n; k++) { uint32_t a = value(i * r.n + k, r.seed);
            for (uint32_t j = 0; j < r.n; j++) v[i * r.n + j] += a * value(k * r.n + j, r.seed + 1); }
    } else { v.assign(256, 0); for (uint32_t i = 0; i < r.n; i++) v[value(i, r.seed) >> 24]++; }
    return v;
}

int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull;
    uint32_t *shared = (uint32_t *)mmap(nullptr, (size_t)WORKERS * SLOT * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) { perror("mmap"); return 2; }
    std::vector<Child> children; std::vector<Request> log; std::vector<unsigned long long> sums; std::vector<std::vector<uint32_t>> kept;
    for (int i = 0; i < WORKERS; i++) children.push_back(start(shared + i * SLOT));
    for (uint32_t round = 0; round < 8; round++) {
        std::vector<Request> now;
        for (uint32_t w = 0; w < WORKERS; w++) {            // all are busy at the same time
            Request r = {(round + w) % 3, 0, round * 10 + w, round * WORKERS + w};
            r.n = r.kind == SORT ? 1u << (14 + round % 3) : r.kind == PRODUCT ? 64 + 16 * (round % 4) : 100000 + 777 * round;
            SYS(write(children[w].socket, &r, sizeof r)); now.push_back(r); children[w].histograms += r.kind == HISTOGRAM;
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            Reply a; if (read(children[w].socket, &a, sizeof a) != sizeof a) { fprintf(stderr, "worker %u is gone\n", w); return 2; }
            std::vector<uint32_t> expected = model(now[w]), got(children[w].slot, children[w].slot + a.words);
            if (a.number != now[w].number || got != expected || a.sum != hash_of(got.data(), got.size())) { wrong++;
                printf("request %u differs\n", now[w].number); }
            checksum = (checksum ^ a.sum) * 1099511628211ull; kept.push_back(got);
        }
        if (round == 3) {                                   // the middle one retires, another takes its place and its memory
            unsigned expected = children[1].histograms; Reply a = ask(children[1], {RETIRE, 0, 0, 0}); int status = reap(children[1]);
            printf("a worker retires: %s, exit status %d\n", a.words == expected ? "its count is right" : "its count is wrong", status);
            wrong += a.words != expected || status;
            children[1] = start(shared + SLOT);
        }
    }

    // Now the parent comes to the device, while the workers still have it
    uint32_t *device; unsigned long long *sum; CK(cudaMalloc(&device, SLOT * 4)); CK(cudaMallocManaged(&sum, sizeof *sum));
    for (size_t k = 0; k < kept.size(); k++) {
        *sum = 0; unsigned long long expected = 0;
        for (size_t i = 0; i < kept[k].size(); i++) expected += (unsigned long long)kept[k][i] * (i % 9973 + 1);
        CK(cudaMemcpy(device, kept[k].data(), kept[k].size() * 4, cudaMemcpyHostToDevice));
        digest<<<40, 256>>>(device, (uint32_t)kept[k].size(), sum); CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
        wrong += *sum != expected; checksum = (checksum ^ *sum) * 1099511628211ull;
        if (k == 5) {                                       // a command is run, as programs do to ask for the time or a version
            pid_t pid; char name[] = "true"; char *args[] = {name, nullptr};
            int error = posix_spawnp(&pid, "true", nullptr, nullptr, args, environ), status = 0;
            if (!error) SYS(waitpid(pid, &status, 0));
            printf("spawned: %d, status %d\n", error, status);
        }
    }
    FILE *pipe = popen("echo out of a shell", "r"); char line[64] = ""; if (pipe) { if (!fgets(line, sizeof line, pipe)) wrong++; pclose(pipe); }
    printf("read %s", line);
    for (int w = 0; w < WORKERS; w++) {
        Reply a = ask(children[w], {w == 2 ? STOP : RETIRE, 0, 0, 0}); int status = reap(children[w]);
        if (a.words != children[w].histograms || status) { wrong++;
            printf("worker %d: %u instead of %u, status %d\n", w, a.words, children[w].histograms, status); }
    }
    unsigned int mine; CK(cudaMemcpyFromSymbol(&mine, served, sizeof mine)); wrong += mine != 0;
    CK(cudaFree(device)); CK(cudaFree(sum));
    printf("prefork: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
