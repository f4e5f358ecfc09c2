// A store for backups: files come in from memory of every kind, which is gone as soon as the copying call returns (strings, the stack, a file's
// mapping, constants of the program), are cut where their contents say, fingerprinted, deduplicated and compressed on the GPU. How much is copied,
// and where to, always depends on what was read back before. Chunks are packed into a slab that grows, files are restored by the GPU, and by the
// CPU from many small copies of one batch. Three clients, each with a store of its own.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <sys/mman.h>
#include <unistd.h>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
typedef unsigned long long u64;

constexpr int MOST = 160 << 10, LEAST_CHUNK = 512, MOST_CHUNK = 6000, CHUNKS = MOST / LEAST_CHUNK + 1, TABLE = 1024,
    BOUND = MOST_CHUNK + MOST_CHUNK / 100 + 64;
struct Chunk { int from, length, packed; int reserved; u64 print; u64 at; };    // packed, print: by the GPU; at: by the host
static const char notice[] = "Permission is hereby given to nobody in particular to read this constant text, which comes out of the "
    "program's own read-only data, over and over, so that there is something in it which a compressor finds again: read this "
    "constant text, read this constant text, over and over.";

__device__ __constant__ uint32_t gear[256];
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }

__global__ void boundaries(uint32_t *bits, const uint8_t *data, int n)          // a bit for each byte after which the contents say "cut"
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; uint32_t h = 0;
    if (i < n) for (int k = i < 31 ? 0 : i - 31; k <= i; k++) h = h * 2 + gear[data[k]];
    uint32_t votes = __ballot_sync(~0u, i < n && (h >> 20 & 0x7FF) == 0x123);
    if (threadIdx.x % 32 == 0 && i < n) bits[i / 32] = votes;
}
__global__ void fingerprints(Chunk *chunks, const uint8_t *data)                 // a block for each chunk
{
    Chunk &c = chunks[blockIdx.x]; __shared__ u64 sum;
    if (threadIdx.x == 0) sum = c.length;
    __syncthreads();
    u64 mine = 0;
    for (int i = threadIdx.x; i < c.length; i += blockDim.x) { u64 v = (data[c.from + i] + 1) * 0x9E3779B97F4A7C15ull * (2 * i + 1);
        mine += v ^ (v >> 29); }
    atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0) c.print = sum;
}
// One thread for each chunk. Runs of literals: length - 1, bytes. Repetitions: 124 + length (from 4 on), distance in two bytes
__global__ void compress(Chunk *chunks, const int *which, int count, const uint8_t *data, uint8_t *out, uint16_t *tables)
{
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= count) return;
    Chunk &c = chunks[which[w]]; const uint8_t *d = data + c.from; uint8_t *o = out + (size_t)w * BOUND; uint16_t *table = tables + (size_t)w * TABLE;
    int n = c.length, at = 0, literals = 0, size = 0;
    auto flush = [&](int end) { while (literals) { int run = literals < 128 ? literals : 128; o[size++] = run - 1;
        for (int k = 0; k < run; k++) o[size++] = d[end - literals + k]; literals -= run; } };
    while (at < n) {
        int length = 0, distance = 0;
        if (at + 4 <= n) {
            uint32_t four = d[at] | d[at + 1] << 8 | d[at + 2] << 16 | (uint32_t)d[at + 3] << 24, slot = four * 2654435761u >> 22;
            int before = table[slot]; table[slot] = at;
            if (before != 0xFFFF) { distance = at - before; while (length < 131 && at + length < n && d[before + length] == d[at + length]) length++;
                }
        }
        if (length >= 4) { flush(at); o[size++] = 124 + length; o[size++] = distance & 255; o[size++] = distance >> 8; at += length; }
        else { literals++; at++; }
    }
    flush(n); c.packed = size;
}
__global__ void pack(uint8_t *slab, const Chunk *chunks, const int *which, const uint8_t *out)
{
    const Chunk &c = chunks[which[blockIdx.x]];
    for (int i = threadIdx.x; i < c.packed; i += blockDim.x) slab[c.at + i] = out[(size_t)blockIdx.x * BOUND + i];
}
__host__ __device__ inline int unpack(uint8_t *to, const uint8_t *from, int packed)
{
    int n = 0;
    for (int at = 0; at < packed;) {
        int control = from[at++];
        if (control < 128) for (int k = 0; k <= control; k++) to[n++] = from[at++];
        else { int distance = from[at] | from[at + 1] << 8; at += 2; for (int k = 0; k < control - 124; k++, n++) to[n] = to[n - distance]; }
    }
    return n;
}
__global__ void restore(uint8_t *to, const uint8_t *slab, const Chunk *chunks, int count) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) unpack(to + chunks[i].from, slab + chunks[i].at, chunks[i].packed); }

static std::string content(int client, int file)            // pieces that other files have as well, with something new between them
{
    std::string s; uint32_t h = mix(client * 1000 + file);
    for (int piece = 0; piece < 9 + file % 4; piece++) {
        uint32_t seed = piece % 3 == 2 ? h + piece : mix(client * 77 + (file + piece * 5) % 6); int words = 900 + seed % 700;
        for (int w = 0; w < words; w++) { seed = seed * 1664525u + 1013904223u; uint32_t word = mix(seed >> 9 & (w % 5 ? 63 : 4095));
            for (int k = 0; k < 4 + int(word % 6); k++) s += char('a' + (word >> k * 3) % 26); s += ' '; }
    }
    return s.substr(0, MOST - 2000);
}
struct Store {
    cudaStream_t s; uint8_t *data, *out, *slab; size_t room = 64 << 10, used = 0; uint32_t *bits, *host_bits; Chunk *chunks; int *which;
    uint16_t *tables;
    std::map<u64, std::pair<u64, int>> known; std::vector<std::vector<Chunk>> files; int grown = 0;
    Store()
    {
        CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaMalloc(&data, MOST)); CK(cudaMalloc(&out, (size_t)CHUNKS * BOUND));
        CK(cudaMalloc(&bits, MOST / 8)); CK(cudaMallocHost(&host_bits, MOST / 8));
        CK(cudaMalloc(&chunks, CHUNKS * sizeof(Chunk))); CK(cudaMalloc(&which, CHUNKS * 4)); CK(cudaMalloc(&tables, (size_t)CHUNKS * TABLE * 2));
        CK(cudaMallocAsync(&slab, room, s));
    }
    ~Store() { CK(cudaFreeAsync(slab, s)); CK(cudaStreamSynchronize(s)); CK(cudaStreamDestroy(s));
        for (void *p : {(void *)data, (void *)out, (void *)bits, (void *)chunks, (void *)which, (void *)tables}) CK(cudaFree(p));
        CK(cudaFreeHost(host_bits)); }
    // Brings a file to the GPU piece by piece, each from other memory, which is given back or written over at once
    int upload(const std::string &file)
    {
        size_t at = 0, n = file.size(); int piece = 0;
        while (at < n) {
            size_t length = std::min<size_t>(n - at, 3000 + piece * 4111 % 90000); const char *from = file.data() + at;
            switch (piece++ % 4) {
            case 0: { std::string copy(from, length); CK(cudaMemcpyAsync(data + at, copy.data(), length, cudaMemcpyHostToDevice, s));
                std::fill(copy.begin(), copy.end(), '#'); break; }
            case 1: { char local[9000]; length = std::min<size_t>(length, sizeof local); memcpy(local, from, length);
                CK(cudaMemcpyAsync(data + at, local, length, cudaMemcpyDefault, s)); memset(local, '!', sizeof local); break; }
            case 2: {
                int fd = memfd_create("piece", 0); if (fd < 0 || write(fd, from, length) != (ssize_t)length) { perror("memfd"); exit(2); }
                void *p = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0); if (p == MAP_FAILED) { perror("mmap"); exit(2); }
                CK(cudaMemcpyAsync(data + at, p, length, cudaMemcpyHostToDevice, s)); munmap(p, length); close(fd); break;
            }
            default: { char *p = (char *)malloc(length); memcpy(p, from, length);
                CK(cudaMemcpyAsync(data + at, p, length, cudaMemcpyHostToDevice, s)); free(p); }
            }
            at += length;
        }
        CK(cudaMemcpyAsync(data + n, notice, sizeof notice, cudaMemcpyHostToDevice, s));   // every file ends with the notice
        return int(n + sizeof notice);
    }
    void add(const std::string &file)
    {
        int n = upload(file); boundaries<<<(n + 255) / 256, 256, 0, s>>>(bits, data, n); CK(cudaGetLastError());
        CK(cudaMemcpyAsync(host_bits, bits, (n + 31) / 32 * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        std::vector<Chunk> list;
        for (int from = 0, i = 0; i < n; i++) if (i + 1 == n || i + 1 - from == MOST_CHUNK
            || (i + 1 - from >= LEAST_CHUNK && (host_bits[i / 32] >> (i % 32) & 1))) { list.push_back({from, i + 1 - from, 0, 0, 0, 0}); from = i + 1;
                }
        int count = (int)list.size();
        CK(cudaMemcpyAsync(chunks, list.data(), count * sizeof(Chunk), cudaMemcpyHostToDevice, s));
        fingerprints<<<count, 128, 0, s>>>(chunks, data);
        CK(cudaMemcpyAsync(list.data(), chunks, count * sizeof(Chunk), cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
        std::vector<int> fresh; std::map<u64, int> first;
        for (int i = 0; i < count; i++) if (!known.count(list[i].print) && first.emplace(list[i].print, i).second) fresh.push_back(i);
        if (!fresh.empty()) {
            int f = (int)fresh.size(); CK(cudaMemcpyAsync(which, fresh.data(), f * 4, cudaMemcpyHostToDevice, s));
            CK(cudaMemsetAsync(tables, 0xFF, (size_t)f * TABLE * 2, s));
            compress<<<(f + 31) / 32, 32, 0, s>>>(chunks, which, f, data, out, tables); CK(cudaGetLastError());
            CK(cudaMemcpyAsync(list.data(), chunks, count * sizeof(Chunk), cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
            size_t before = used;
            for (int i : fresh) { list[i].at = used; used += list[i].packed; known[list[i].print] = {list[i].at, list[i].packed}; }
            if (used > room) {                              // a larger slab; the old one goes when the copy has been made
                uint8_t *larger; while (room < used) room *= 2; CK(cudaMallocAsync(&larger, room, s));
                CK(cudaMemcpyAsync(larger, slab, before, cudaMemcpyDeviceToDevice, s)); CK(cudaFreeAsync(slab, s)); slab = larger; grown++;
            }
            CK(cudaMemcpyAsync(chunks, list.data(), count * sizeof(Chunk), cudaMemcpyHostToDevice, s));
            pack<<<f, 64, 0, s>>>(slab, chunks, which, out); CK(cudaGetLastError());
        }
        for (Chunk &c : list) { c.at = known[c.print].first; c.packed = known[c.print].second; }
        files.push_back(list);
    }
    std::string restore_by_gpu(int file)                    // the result lands in pages of a file's mapping
    {
        std::vector<Chunk> list = files[file]; int n = list.back().from + list.back().length;
        CK(cudaMemcpyAsync(chunks, list.data(), list.size() * sizeof(Chunk), cudaMemcpyHostToDevice, s)); CK(cudaMemsetAsync(data, 0, MOST, s));
        restore<<<(list.size() + 31) / 32, 32, 0, s>>>(data, slab, chunks, (int)list.size()); CK(cudaGetLastError());
        int fd = memfd_create("restored", 0); if (fd < 0 || ftruncate(fd, n)) { perror("memfd"); exit(2); }
        char *p = (char *)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); if (p == MAP_FAILED) { perror("mmap"); exit(2); }
        CK(cudaMemcpyAsync(p, data, n, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); munmap(p, n);
        std::string got(n, 0); if (pread(fd, &got[0], n, 0) != n) { perror("pread"); exit(2); } close(fd);
        return got;
    }
    std::string restore_by_cpu(int file)                    // the packed chunks one behind the other in the CPU's memory, by one batch of copies
    {
        std::vector<Chunk> &list = files[file]; std::vector<void *> to; std::vector<const void *> from; std::vector<size_t> sizes; size_t total = 0;
        for (Chunk &c : list) total += c.packed;
        uint8_t *packed; CK(cudaMallocHost(&packed, total)); size_t at = 0; std::string got;
        for (Chunk &c : list) { to.push_back(packed + at); from.push_back(slab + c.at); sizes.push_back(c.packed); at += c.packed; }
        cudaMemcpyAttributes a = {}; a.srcAccessOrder = cudaMemcpySrcAccessOrderStream; size_t index = 0;
        CK(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), list.size(), &a, &index, 1, s)); CK(cudaStreamSynchronize(s));
        for (size_t i = 0, p = 0; i < list.size(); p += list[i++].packed) { std::vector<uint8_t> plain(list[i].length + 256);
            int n = unpack(plain.data(), packed + p, list[i].packed); got.append((char *)plain.data(), n); }
        CK(cudaFreeHost(packed)); return got;
    }
};
int main()
{
    uint32_t table[256]; for (int i = 0; i < 256; i++) table[i] = mix(i * 977 + 1); CK(cudaMemcpyToSymbol(gear, table, sizeof table));
    CK(cudaDeviceSynchronize());
    constexpr int CLIENTS = 3, FILES = 9; u64 sums[CLIENTS]; int wrong[CLIENTS] = {}; std::string lines[CLIENTS]; std::thread threads[CLIENTS];
    for (int t = 0; t < CLIENTS; t++) threads[t] = std::thread([&, t] {
        Store store; u64 sum = 14695981039346656037ull; size_t bytes = 0, chunks = 0;
        for (int f = 0; f < FILES; f++) {
            store.add(content(t, f));
            for (int back : {f, f / 2}) {                   // this one, and an old one, from the slab that may have moved since
                std::string expected = content(t, back) + std::string(notice, sizeof notice), got = (f + back) % 2 ? store.restore_by_gpu(back)
                    : store.restore_by_cpu(back);
                if (got != expected) wrong[t]++;
                for (char c : got) sum = (sum ^ (uint8_t)c) * 1099511628211ull;
            }
            bytes += content(t, f).size(); chunks += store.files.back().size();
        }
        for (auto &l : store.files) for (Chunk &c : l) sum = (sum ^ (c.print + c.packed)) * 1099511628211ull;
        char line[200]; snprintf(line, sizeof line, "client %d: %zu bytes, %zu chunks, %zu different, %zu bytes packed, slab grown %d times\n", t,
            bytes, chunks, store.known.size(), store.used, store.grown);
        lines[t] = line; sums[t] = sum;
    });
    u64 checksum = 0; int all = 0;
    for (int t = 0; t < CLIENTS; t++) { threads[t].join(); printf("%s", lines[t].c_str()); checksum = checksum * 1099511628211ull ^ sums[t];
        all += wrong[t]; }
    printf("packstore: checksum %016llx wrong %d\n", checksum, all);
    return all != 0;
}
