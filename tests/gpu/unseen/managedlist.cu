// Managed memory: a linked tree with pointers that CPU and GPU walk and change in turn, prefetches and advice, attachment to
// streams, a __managed__ variable, C++ objects whose operator new takes managed memory, copies to and from other memory.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

struct Managed {
    void *operator new(size_t n) { void *p; CK(cudaMallocManaged(&p, n)); return p; }
    void *operator new[](size_t n) { void *p; CK(cudaMallocManaged(&p, n)); return p; }
    void operator delete(void *p) { CK(cudaFree(p)); }
    void operator delete[](void *p) { CK(cudaFree(p)); }
};

struct Node { Node *left, *right; uint64_t key, value; };
struct Arena : Managed {            // nodes by index, links by pointer
    Node *nodes; uint32_t count, capacity;
    Node *root; uint64_t walked;
};
struct Counter : Managed { uint64_t hits[16]; const char *name; int length; };

__managed__ uint64_t generation = 3;
__managed__ Arena *current;
__device__ uint64_t lookups;

__host__ __device__ inline uint64_t mix(uint64_t v) { v ^= v >> 31; v *= 0x7fb5d329728ea185ull; v ^= v >> 27; v *= 0x81dadef4bc2dd44dull; return v ^ (v >> 33); }

static void insert(Arena *a, uint64_t key, uint64_t value) {         // on the CPU
    Node **at = &a->root;
    while (*at) {
        if ((*at)->key == key) { (*at)->value += value; return; }
        at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    }
    if (a->count == a->capacity) { fprintf(stderr, "arena full\n"); exit(2); }
    Node *n = &a->nodes[a->count++];
    *n = Node{nullptr, nullptr, key, value};
    *at = n;
}

__global__ void lookup(const uint64_t *keys, uint64_t *found, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Node *at = current->root;
    uint64_t depth = 1;
    while (at && at->key != keys[i]) { at = keys[i] < at->key ? at->left : at->right; depth++; }
    found[i] = at ? at->value * 64 + depth : ~depth;
    atomicAdd((unsigned long long *)&lookups, 1ull);
}
__global__ void age(Arena *a) {      // the GPU changes the values
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a->count) return;
    a->nodes[i].value = mix(a->nodes[i].value + generation) >> 8;
}
__global__ void relink(Arena *from, Arena *to) {     // a copy of the tree with links into the new arena
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) { to->count = from->count; to->root = to->nodes + (from->root - from->nodes); }
    if (i >= from->count) return;
    const Node n = from->nodes[i];
    to->nodes[i] = Node{n.left ? to->nodes + (n.left - from->nodes) : nullptr, n.right ? to->nodes + (n.right - from->nodes) : nullptr, n.key, n.value ^ 0x55};
}
__global__ void count_letters(Counter *c) {
    int i = threadIdx.x;
    if (i < c->length) atomicAdd((unsigned long long *)&c->hits[c->name[i] & 15], 1ull + generation);
}
__global__ void scale(float *p, int n, float f) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = p[i] * f + 1.0f; }

static uint64_t walk(const Node *n) {                               // in order, on the CPU
    uint64_t h = 7; std::vector<const Node *> stack;
    while (n || !stack.empty()) {
        while (n) { stack.push_back(n); n = n->left; }
        n = stack.back(); stack.pop_back();
        h = (h ^ n->key ^ (n->value << 7)) * 1099511628211ull;
        n = n->right;
    }
    return h;
}

int main() {
    int managed, concurrent, pageable;
    CK(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
    CK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    CK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0));
    if (!managed) { printf("no managed memory\n"); return 1; }
    const cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0}, cpu = {cudaMemLocationTypeHost, 0};
    int wrong = 0; uint64_t checksum = 14695981039346656037ull;
    auto fold = [&](uint64_t v) { checksum = (checksum ^ v) * 1099511628211ull; };

    // Alternating phases: the CPU inserts, the GPU looks up and ages.
    const uint32_t capacity = 6000; const int queries = 2048;
    auto make_arena = [&] { Arena *a = new Arena; a->nodes = nullptr; a->count = 0; a->capacity = capacity; a->root = nullptr; a->walked = 0;
        CK(cudaMallocManaged(&a->nodes, capacity * sizeof(Node))); return a; };
    Arena *a = make_arena();
    current = a;
    if (concurrent) {
        CK(cudaMemAdvise(a->nodes, capacity * sizeof(Node), cudaMemAdviseSetPreferredLocation, gpu));
        CK(cudaMemAdvise(a->nodes, capacity * sizeof(Node), cudaMemAdviseSetAccessedBy, cpu));
    }
    uint64_t *keys, *found, *found_dev, random = 88172645463325252ull, asked = 0;
    CK(cudaMallocManaged(&keys, queries * 8)); CK(cudaMallocHost(&found, queries * 8)); CK(cudaMalloc(&found_dev, queries * 8));
    auto next = [&] { random ^= random << 13; random ^= random >> 7; random ^= random << 17; return random; };
    cudaStream_t s; CK(cudaStreamCreate(&s));
    for (int phase = 0; phase < 10; phase++) {
        for (int i = 0; i < 400; i++) insert(a, mix(next() % 20000) >> 20, next() >> 40);
        for (int i = 0; i < queries; i++) keys[i] = i % 3 ? a->nodes[next() % a->count].key : mix(next() % 20000) >> 20;
        generation += phase;
        if (concurrent && phase % 2) {
            CK(cudaMemPrefetchAsync(a->nodes, a->count * sizeof(Node), gpu, 0, s));
            CK(cudaMemPrefetchAsync(keys, queries * 8, gpu, 0, s));
        }
        age<<<(a->count + 127) / 128, 128, 0, s>>>(a);
        lookup<<<queries / 128, 128, 0, s>>>(keys, found_dev, queries);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(found, found_dev, queries * 8, cudaMemcpyDeviceToHost, s));
        if (concurrent && phase % 3 == 2) CK(cudaMemPrefetchAsync(a->nodes, a->count * sizeof(Node), cpu, 0, s));
        CK(cudaStreamSynchronize(s));
        asked += queries;
        for (int i = 0; i < queries; i++) {                         // the same walk here
            const Node *at = a->root; uint64_t depth = 1;
            while (at && at->key != keys[i]) { at = keys[i] < at->key ? at->left : at->right; depth++; }
            wrong += found[i] != (at ? at->value * 64 + depth : ~depth);
            fold(found[i]);
        }
        if (phase == 4) {                                           // move house: another arena, the old one is freed
            Arena *b = make_arena();
            if (concurrent) CK(cudaMemAdvise(b->nodes, capacity * sizeof(Node), cudaMemAdviseSetPreferredLocation, cpu));
            relink<<<(capacity + 255) / 256, 256, 0, s>>>(a, b);
            CK(cudaStreamSynchronize(s));
            wrong += b->count != a->count || b->root->key != a->root->key;
            CK(cudaFree(a->nodes)); delete a;
            current = a = b;
        }
        fold(walk(a->root));
    }
    uint64_t counted, generation_there;
    CK(cudaMemcpyFromSymbol(&counted, lookups, sizeof counted));
    CK(cudaMemcpyFromSymbol(&generation_there, generation, sizeof generation_there));    // a copy from a managed variable
    wrong += counted != asked || generation_there != generation;

    // Objects with the string beside them, an array of them, written by the CPU between launches.
    const char *names[4] = {"prefetch", "advise", "attach to streams", "copy between kinds of memory"};
    Counter *counters = new Counter[4];
    for (int i = 0; i < 4; i++) {
        char *text; CK(cudaMallocManaged(&text, 64, cudaMemAttachHost));
        memset(text, 0, 64); strcpy(text, names[i]);
        memset(counters[i].hits, 0, sizeof counters[i].hits);
        counters[i].name = text; counters[i].length = strlen(names[i]);
        CK(cudaStreamAttachMemAsync(s, text, 0, cudaMemAttachSingle));
    }
    CK(cudaStreamSynchronize(s));
    for (int i = 0; i < 4; i++) count_letters<<<1, 32, 0, s>>>(counters + i);
    CK(cudaStreamSynchronize(s));
    for (int i = 0; i < 4; i++) {
        uint64_t all = 0;
        for (auto h : counters[i].hits) { all += h; fold(h); }
        wrong += all != strlen(names[i]) * (1 + generation);
        CK(cudaFree((void *)counters[i].name));
    }
    delete[] counters;

    // Two threads, each with memory attached to its own stream; the CPU works on its part while the other's kernels run.
    float *parts[2]; const int n = 1 << 16;
    for (auto &p : parts) { CK(cudaMallocManaged(&p, n * 4, cudaMemAttachHost)); for (int i = 0; i < n; i++) p[i] = (float)(i % 1000); }
    auto worker = [&](int id) {
        cudaStream_t mine; CK(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
        CK(cudaStreamAttachMemAsync(mine, parts[id], 0, cudaMemAttachSingle));
        CK(cudaStreamSynchronize(mine));
        for (int round = 0; round < 20; round++) {
            scale<<<n / 256, 256, 0, mine>>>(parts[id], n, 0.5f);
            CK(cudaStreamSynchronize(mine));
            for (int i = round; i < n; i += 37 + id) parts[id][i] += 2.0f;
        }
        CK(cudaStreamAttachMemAsync(mine, parts[id], 0, cudaMemAttachGlobal));
        CK(cudaStreamSynchronize(mine));
        CK(cudaStreamDestroy(mine));
    };
    std::thread t0(worker, 0), t1(worker, 1); t0.join(); t1.join();
    for (int id = 0; id < 2; id++) {
        std::vector<float> ref(n); for (int i = 0; i < n; i++) ref[i] = (float)(i % 1000);
        for (int round = 0; round < 20; round++) { for (auto &v : ref) v = v * 0.5f + 1.0f; for (int i = round; i < n; i += 37 + id) ref[i] += 2.0f; }
        for (int i = 0; i < n; i++) wrong += fabsf(ref[i] - parts[id][i]) > 1e-4f;
        for (int i = 0; i < n; i += 11) { uint32_t bits; memcpy(&bits, &parts[id][i], 4); fold(bits); }
    }

    // Copies: managed <-> device, pinned, pageable, managed; by kind and by default; read-mostly with a duplicate.
    float *device, *pinned; std::vector<float> plain(n);
    CK(cudaMalloc(&device, n * 4)); CK(cudaMallocHost(&pinned, n * 4));
    CK(cudaMemcpyAsync(device, parts[0], n * 4, cudaMemcpyDeviceToDevice, s));
    CK(cudaMemcpyAsync(parts[1], device, n * 2, cudaMemcpyDefault, s));
    scale<<<n / 256, 256, 0, s>>>(device, n, 2.0f);
    CK(cudaMemcpyAsync(pinned, parts[1], n * 4, cudaMemcpyDefault, s));
    CK(cudaMemcpy2DAsync(parts[0], 512, device, 1024, 256, n * 4 / 1024, cudaMemcpyDefault, s));
    CK(cudaStreamSynchronize(s));
    CK(cudaMemcpy(plain.data(), parts[0], n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i += 7) { uint32_t x, y; memcpy(&x, &plain[i], 4); memcpy(&y, &pinned[i], 4); fold(x + 3ull * y); wrong += plain[i] != parts[0][i]; }
    if (concurrent) {
        CK(cudaMemAdvise(parts[1], n * 4, cudaMemAdviseSetReadMostly, gpu));
        CK(cudaMemPrefetchAsync(parts[1], n * 4, gpu, 0, s));
        int mostly = 0; CK(cudaMemRangeGetAttribute(&mostly, 4, cudaMemRangeAttributeReadMostly, parts[1], n * 4));
        wrong += mostly != 1;
    }
    CK(cudaMemsetAsync(parts[0], 0, n * 4, s));
    CK(cudaMemcpyAsync(parts[0], pinned, n, cudaMemcpyHostToDevice, s));
    scale<<<n / 256, 256, 0, s>>>(parts[0], n, 3.0f);
    CK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) wrong += parts[0][i] != (i < n / 4 ? fmaf(pinned[i], 3.0f, 1.0f) : 1.0f);
    cudaPointerAttributes attributes; CK(cudaPointerGetAttributes(&attributes, parts[0] + 5));
    wrong += attributes.type != cudaMemoryTypeManaged || attributes.devicePointer != attributes.hostPointer;
    CK(cudaFree(parts[0])); CK(cudaFree(parts[1])); CK(cudaFree(device)); CK(cudaFreeHost(pinned));
    fold(walk(a->root));
    CK(cudaFree(a->nodes)); delete a;
    CK(cudaFree(keys)); CK(cudaFreeHost(found)); CK(cudaFree(found_dev)); CK(cudaStreamDestroy(s));
    printf("managedlist: checksum %016llx wrong %d concurrent %d pageable %d\n", (unsigned long long)checksum, wrong, concurrent, pageable);
    return wrong != 0;
}
