// Memory that nobody got from CUDA: where the device reads pageable memory, kernels are given lists made by new, tables of the program itself,
// a thread's stack and a file's pages; else copies do the same. Then such memory is registered for a while: stacks of threads that end, static
// arrays, constant tables and files (read only), and one address whose memory is replaced by another again and again.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr size_t PAGE = 4096;
struct Node { uint32_t key, visits; Node *next; uint32_t payload[9]; };
struct alignas(PAGE) Table { uint32_t v[PAGE]; };           // four pages each
constexpr uint32_t primes_like(uint32_t i) { return (i * i * 41 + i * 7 + 13) | 1; }
template <size_t... I> constexpr Table table_of(std::index_sequence<I...>) { return Table{{primes_like(I)...}}; }
static const Table constants = table_of(std::make_index_sequence<512>());       // the rest is zero
static Table statics = {{1, 2, 3}};

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void gather(const uint32_t *from, uint32_t *to, uint32_t n, uint32_t round) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = mix(from[i] + to[i] + round);
}
__global__ void walk(Node *first, uint32_t round, unsigned long long *sum) {
    unsigned long long s = 0;
    for (Node *n = first; n; n = n->next) { n->visits += 1 + round; n->payload[n->key % 9] += round; s = s * 31 + n->key + n->payload[round % 9]; }
    *sum = s;
}

static int wrong; static bool pageable; static cudaStream_t stream;
static uint64_t checksum = 14695981039346656037ull;
static void digest(const uint32_t *p, size_t n) { for (size_t i = 0; i < n; i++) checksum = (checksum ^ p[i]) * 1099511628211ull; }
static void model(const uint32_t *from, uint32_t *to, uint32_t n, uint32_t round) { for (uint32_t i = 0; i < n; i++) to[i] = mix(from[i] + to[i] + round); }

// to[i] = mix(from[i] + to[i] + round), by the device, where the memory is, or with copies.
static void on_device(const uint32_t *from, uint32_t *to, uint32_t n, uint32_t round) {
    std::vector<uint32_t> expected(to, to + n);
    model(from, expected.data(), n, round);
    if (pageable) {
        gather<<<4, 128, 0, stream>>>(from, to, n, round);
        CK(cudaGetLastError()); CK(cudaStreamSynchronize(stream));
    } else {
        uint32_t *a, *b; CK(cudaMallocAsync((void **)&a, n * 4, stream)); CK(cudaMallocAsync((void **)&b, n * 4, stream));
        CK(cudaMemcpyAsync(a, from, n * 4, cudaMemcpyHostToDevice, stream)); CK(cudaMemcpyAsync(b, to, n * 4, cudaMemcpyHostToDevice, stream));
        gather<<<4, 128, 0, stream>>>(a, b, n, round);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(to, b, n * 4, cudaMemcpyDeviceToHost, stream));
        CK(cudaFreeAsync(a, stream)); CK(cudaFreeAsync(b, stream)); CK(cudaStreamSynchronize(stream));
    }
    wrong += memcmp(expected.data(), to, n * 4) != 0;
    digest(to, n);
}

static char *map_file(size_t bytes, uint32_t seed, bool writable) {             // a file without a name in a temporary directory
    FILE *f = tmpfile(); if (!f) { perror("tmpfile"); exit(2); }
    std::vector<uint32_t> words(bytes / 4); for (size_t i = 0; i < words.size(); i++) words[i] = mix(seed + (uint32_t)i);
    if (fwrite(words.data(), 4, words.size(), f) != words.size() || fflush(f) != 0) { perror("fwrite"); exit(2); }
    void *p = mmap(nullptr, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_PRIVATE, fileno(f), 0);
    if (p == MAP_FAILED) { perror("mmap"); exit(2); }
    fclose(f);
    return (char *)p;
}

static void unregistered() {
    uint32_t n = 2500;
    for (uint32_t round = 0; round < 6; round++) {
        std::unique_ptr<uint32_t[]> heap(new uint32_t[n]); std::vector<uint32_t> other(n, round);
        for (uint32_t i = 0; i < n; i++) heap[i] = mix(i + round * n);
        on_device(heap.get(), other.data(), n, round);
        on_device(constants.v, statics.v, 600, round);
        std::thread([&] {                                   // on a stack that is another thread's next time
            CK(cudaSetDevice(0));
            uint32_t local[900], more[900]; for (int i = 0; i < 900; i++) { local[i] = other[i] + i; more[i] = i * round; }
            on_device(local, more, 900, round + 100);
            for (int i = 0; i < 900; i++) other[i] += more[i];
        }).join();
        on_device(other.data(), heap.get(), n, round + 200);
        char *file = map_file(3 * PAGE, round, true);
        on_device((uint32_t *)(file + 100), (uint32_t *)(file + 8000), 1000, round);
        munmap(file, 3 * PAGE);
    }
    // A list that the CPU makes and mends, and the device walks.
    Node *first = nullptr; unsigned long long *sum, got; uint32_t key = 0;
    CK(cudaMallocHost(&sum, 8));
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = 0; i < 60 + round; i++) { first = new Node{mix(++key), 0, first, {}}; first->payload[0] = key; }
        for (Node **at = &first; *at;) {                    // some go; their memory is somebody else's then
            if (mix((*at)->key + round) % 5 == 0) { Node *gone = *at; *at = gone->next; delete gone; } else at = &(*at)->next;
        }
        unsigned long long s = 0; uint64_t visits = 0;
        for (Node *n = first; n; n = n->next) { uint32_t p = n->payload[round % 9] + (n->key % 9 == round % 9 ? round : 0); s = s * 31 + n->key + p; }
        if (pageable) {
            walk<<<1, 1, 0, stream>>>(first, round, sum);
            CK(cudaGetLastError()); CK(cudaStreamSynchronize(stream)); got = *sum;
        } else {
            for (Node *n = first; n; n = n->next) { n->visits += 1 + round; n->payload[n->key % 9] += round; }
            got = s;
        }
        for (Node *n = first; n; n = n->next) visits += n->visits;
        wrong += got != s; checksum = (checksum ^ got ^ visits) * 1099511628211ull;
    }
    while (first) { Node *gone = first; first = first->next; delete gone; }
    CK(cudaFreeHost(sum));
}

// Registered for one piece of work each.
static bool registered(const char *what, void *memory, size_t bytes, bool read_only, uint32_t *to, uint32_t n, uint32_t round) {
    uint32_t *dev; std::vector<uint32_t> back(n), expected(n);
    CK(cudaMemcpy(expected.data(), to, n * 4, cudaMemcpyDeviceToHost));
    cudaError_t e = cudaHostRegister(memory, bytes, cudaHostRegisterMapped | (read_only ? cudaHostRegisterReadOnly : 0));
    if (e != cudaSuccess) { cudaGetLastError(); if (what) printf("skipped: registering %s\n", what); return false; }
    CK(cudaHostGetDevicePointer(&dev, memory, 0));
    model((uint32_t *)memory, expected.data(), n, round);
    gather<<<4, 128, 0, stream>>>(dev, to, n, round);
    CK(cudaGetLastError());
    if (!read_only) {                                       // the CPU writes what the kernel has read, and it is read once more, by a copy
        CK(cudaStreamSynchronize(stream));
        for (uint32_t i = 0; i < n; i += 3) ((uint32_t *)memory)[i] ^= mix(i + round);
        uint32_t *near; CK(cudaMallocAsync((void **)&near, n * 4, stream));
        CK(cudaMemcpyAsync(near, memory, n * 4, cudaMemcpyHostToDevice, stream));
        gather<<<4, 128, 0, stream>>>(near, to, n, round + 1);
        CK(cudaGetLastError()); CK(cudaFreeAsync(near, stream));
        model((uint32_t *)memory, expected.data(), n, round + 1);
    }
    CK(cudaStreamSynchronize(stream));
    CK(cudaHostUnregister(memory));
    CK(cudaMemcpy(back.data(), to, n * 4, cudaMemcpyDeviceToHost));
    wrong += back != expected; digest(back.data(), n);
    return true;
}

int main() {
    int value = 0, read_only = 0;
    CK(cudaSetDevice(0)); CK(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 0));
    CK(cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, 0));
    pageable = value != 0;
    if (!pageable) printf("skipped: kernels that use pageable memory\n");
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unregistered();
    uint32_t *to; const uint32_t n = 2 * PAGE / 4; CK(cudaMalloc(&to, n * 4)); CK(cudaMemset(to, 0, n * 4)); CK(cudaDeviceSynchronize());
    if (!read_only) printf("skipped: registering read only\n");
    // One address at which other memory lies each time: anonymous, a file's, anonymous again; and what is there is given back and faulted in anew.
    char *place = (char *)mmap(nullptr, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) { perror("mmap"); return 2; }
    for (uint32_t round = 0; round < 8; round++) {
        registered(round ? nullptr : "static memory", statics.v, sizeof statics, false, to, n, round);
        if (read_only) {
            registered(round ? nullptr : "constants", (void *)constants.v, sizeof constants, true, to, n, round);
            char *file = map_file(2 * PAGE, round + 1000, false);
            registered(round ? nullptr : "a file", file, 2 * PAGE, true, to, n, round);
            munmap(file, 2 * PAGE);
        }
        std::thread([&] {
            CK(cudaSetDevice(0));
            alignas(PAGE) uint32_t local[n]; for (uint32_t i = 0; i < n; i++) local[i] = mix(i * 3 + round);
            registered(round ? nullptr : "a stack", local, sizeof local, false, to, n, round);
            digest(local, n);
        }).join();
        if (round % 3 == 1) madvise(place, 4 * PAGE, MADV_DONTNEED);
        if (round % 3 == 2 && mmap(place, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return 2;
        for (uint32_t i = 0; i < n; i += 2) ((uint32_t *)place)[i + PAGE / 4] += mix(i + round);
        registered(round ? nullptr : "anonymous memory", place + PAGE, 2 * PAGE, false, to, n, round + 50);
        digest((uint32_t *)place, PAGE);
    }
    munmap(place, 4 * PAGE);
    CK(cudaFree(to)); CK(cudaStreamDestroy(stream));
    printf("sysmem: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
