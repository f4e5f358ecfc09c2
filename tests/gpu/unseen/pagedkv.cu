// nvcc: DRIVER
// A paged cache of tokens for sequences: each has a reserved range of addresses, filled with physical pages as it grows. Forked
// sequences see the same pages at two addresses until one of them writes (copy on write); idle ones are swapped out to the CPU, which
// changes them there, and come back in other pages; pages are handed on with their old contents, and two sequences exchange places.
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define CU(x) do { CUresult e_ = (x); if (e_ != CUDA_SUCCESS) { const char *n_ = "?"; cuGetErrorName(e_, &n_); \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, n_); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint32_t v) { sum = (sum ^ v) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

constexpr uint32_t WORDS = 4096;                            // of a token; word w is seed * (w + 1) + shift
constexpr int MOST = 512, PAGES = 5, SWAPPED = 10, ROUNDS = 24;    // entries of the table, pages of a sequence, of the swap memory
struct Entry { uint32_t *base; uint32_t tokens, id; };
struct Token { uint32_t seed, shift; };

__global__ void append(uint32_t *base, uint32_t first, uint32_t seed) {
    uint32_t t = first + blockIdx.x; uint32_t *p = base + (size_t)t * WORDS;
    for (uint32_t w = threadIdx.x; w < WORDS; w += blockDim.x) p[w] = (seed + t) * (w + 1);
}
__global__ void shift_all(const Entry *table, int which, uint32_t by) {
    Entry e = table[which]; size_t n = (size_t)e.tokens * WORDS;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) e.base[i] += by;
}
__global__ void digest(const Entry *table, uint32_t *out, int stride) {     // a block for a token of a sequence
    Entry e = table[blockIdx.y]; uint32_t t = blockIdx.x;
    if (t >= e.tokens) { if (threadIdx.x == 0) out[blockIdx.y * stride + t] = 0; return; }
    const uint32_t *p = e.base + (size_t)t * WORDS; uint32_t s = 0;
    for (uint32_t w = threadIdx.x; w < WORDS; w += blockDim.x) s += p[w] * (w | 1);
    __shared__ uint32_t total; if (threadIdx.x == 0) total = 0; __syncthreads();
    atomicAdd(&total, s); __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.y * stride + t] = total + e.id;
}

struct Page { CUmemGenericAllocationHandle handle; int users = 0; std::vector<Token> tokens; };
struct Sequence { uint32_t id; CUdeviceptr base; std::vector<Page *> pages; uint32_t tokens = 0; std::vector<std::vector<Token>> swapped; std::vector<int> slots; };

static size_t page_bytes; static uint32_t per_page;
static CUmemAllocationProp prop = {}; static CUmemAccessDesc access_device = {};
static std::vector<Page *> idle; static int created;
static cudaStream_t stream; static CUdeviceptr window;
static uint32_t *swap; static std::vector<int> swap_slots; static bool swap_by_vmm; static CUmemGenericAllocationHandle swap_handle; static size_t swap_bytes;

static void sync() { CK(cudaStreamSynchronize(stream)); }
static Page *take() {
    if (!idle.empty()) { Page *p = idle.back(); idle.pop_back(); p->users = 1; return p; }      // with what was in it
    Page *p = new Page; CU(cuMemCreate(&p->handle, page_bytes, &prop, 0)); p->tokens.resize(per_page); p->users = 1; created++; return p;
}
static void leave(Page *p) {
    if (--p->users) return;
    if (idle.size() < 4) { idle.insert(idle.begin(), p); return; }
    CU(cuMemRelease(p->handle)); delete p;
}
static void map_at(CUdeviceptr at, CUmemGenericAllocationHandle h) { CU(cuMemMap(at, page_bytes, 0, h, 0)); CU(cuMemSetAccess(at, page_bytes, &access_device, 1)); }
static Sequence *make(uint32_t id, CUdeviceptr hint) { auto *s = new Sequence; s->id = id; CU(cuMemAddressReserve(&s->base, PAGES * page_bytes, 0, hint, 0)); return s; }
static void unmap_all(Sequence *s) { if (!s->pages.empty()) CU(cuMemUnmap(s->base, s->pages.size() * page_bytes)); }      // all in one call
static void map_all(Sequence *s) { for (size_t i = 0; i < s->pages.size(); i++) map_at(s->base + i * page_bytes, s->pages[i]->handle); }

static void grow(Sequence *s, uint32_t count, uint32_t seed) {
    count = std::min(count, PAGES * per_page - s->tokens); if (!count) return;
    uint32_t first = s->tokens, last_page = (first + count - 1) / per_page;
    if (first % per_page && s->pages[first / per_page]->users > 1) {        // copy on write, of what is filled
        size_t i = first / per_page; Page *old = s->pages[i], *fresh = take(); CUdeviceptr at = s->base + i * page_bytes;
        map_at(window, fresh->handle);
        CK(cudaMemcpyAsync((void *)window, (void *)at, first % per_page * WORDS * 4, cudaMemcpyDeviceToDevice, stream)); sync();
        CU(cuMemUnmap(window, page_bytes)); CU(cuMemUnmap(at, page_bytes)); map_at(at, fresh->handle);
        fresh->tokens = old->tokens; leave(old); s->pages[i] = fresh;
    }
    while (s->pages.size() <= last_page) { Page *p = take(); map_at(s->base + s->pages.size() * page_bytes, p->handle); s->pages.push_back(p); }    // nobody waits
    append<<<count, 256, 0, stream>>>((uint32_t *)s->base, first, seed); CK(cudaGetLastError());
    for (uint32_t t = first; t < first + count; t++) s->pages[t / per_page]->tokens[t % per_page] = {seed + t, 0};
    s->tokens += count;
}
static Sequence *fork_of(Sequence *s, uint32_t id) {
    Sequence *f = make(id, 0); f->tokens = s->tokens; f->pages = s->pages;
    for (size_t i = 0; i < f->pages.size(); i++) {          // the handles by the addresses of the other one
        CUmemGenericAllocationHandle h; CU(cuMemRetainAllocationHandle(&h, (void *)(s->base + i * page_bytes)));
        map_at(f->base + i * page_bytes, h); CU(cuMemRelease(h)); f->pages[i]->users++;
    }
    return f;
}
static bool shared(Sequence *s) { for (Page *p : s->pages) if (p->users > 1) return true; return false; }
static void swap_out(Sequence *s, uint32_t by) {
    std::vector<void *> to; std::vector<const void *> from; std::vector<size_t> sizes;
    for (size_t i = 0; i < s->pages.size(); i++) {
        s->slots.push_back(swap_slots.back()); swap_slots.pop_back(); s->swapped.push_back(s->pages[i]->tokens);
        to.push_back((char *)swap + s->slots[i] * page_bytes); from.push_back((void *)(s->base + i * page_bytes));
        sizes.push_back(std::min<size_t>(page_bytes, (size_t)(s->tokens - i * per_page) * WORDS * 4));
    }
    cudaMemcpyAttributes attribute = {}; attribute.srcAccessOrder = cudaMemcpySrcAccessOrderStream; size_t index = 0;
    CK(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), &attribute, &index, 1, stream)); sync();
    unmap_all(s); for (Page *p : s->pages) leave(p); s->pages.clear();
    CU(cuMemAddressFree(s->base, PAGES * page_bytes)); s->base = 0;
    for (size_t i = 0; i < to.size(); i++) {                // the CPU has them now: looks and changes
        uint32_t *p = (uint32_t *)to[i], n = sizes[i] / 4;
        for (uint32_t j = 0; j < n; j += 997) { Token t = s->swapped[i][j / WORDS]; uint32_t v = t.seed * (j % WORDS + 1) + t.shift; wrong += p[j] != v; fold(p[j]); }
        for (uint32_t j = 0; j < n; j++) p[j] += by;
        for (auto &t : s->swapped[i]) t.shift += by;
    }
}
static void swap_in(Sequence *s, CUdeviceptr hint) {
    CU(cuMemAddressReserve(&s->base, PAGES * page_bytes, 0, hint, 0));
    for (size_t i = 0; i < s->swapped.size(); i++) {
        Page *p = take(); p->tokens = s->swapped[i]; s->pages.push_back(p); map_at(s->base + i * page_bytes, p->handle);
        size_t bytes = std::min<size_t>(page_bytes, (size_t)(s->tokens - i * per_page) * WORDS * 4);
        CU(cuMemcpyHtoDAsync(s->base + i * page_bytes, (char *)swap + s->slots[i] * page_bytes, bytes, stream));
    }
    sync();
    for (int slot : s->slots) { memset((char *)swap + slot * page_bytes, 0xee, page_bytes); swap_slots.push_back(slot); }
    s->slots.clear(); s->swapped.clear();
}
static void drop(Sequence *s) { sync(); unmap_all(s); for (Page *p : s->pages) leave(p); CU(cuMemAddressFree(s->base, PAGES * page_bytes)); delete s; }

// The memory to swap to: the CPU's own by the same functions, if there is such a thing here, else pinned.
static void make_swap() {
    int yes = 0; CUdevice d; CU(cuDeviceGet(&d, 0)); cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, d);
    CUmemAllocationProp hp = {}; hp.type = CU_MEM_ALLOCATION_TYPE_PINNED; hp.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; hp.location.id = 0;
    size_t g = 0; CUdeviceptr at = 0;
    if (yes && cuMemGetAllocationGranularity(&g, &hp, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS) {
        swap_bytes = (SWAPPED * page_bytes + g - 1) / g * g;
        if (cuMemCreate(&swap_handle, swap_bytes, &hp, 0) == CUDA_SUCCESS) {
            CUmemAccessDesc both[2] = {access_device, access_device}; both[1].location = hp.location;
            CU(cuMemAddressReserve(&at, swap_bytes, 0, 0, 0)); CU(cuMemMap(at, swap_bytes, 0, swap_handle, 0));
            if (cuMemSetAccess(at, swap_bytes, both, 2) == CUDA_SUCCESS) { swap = (uint32_t *)at; swap_by_vmm = true; return; }
            CU(cuMemUnmap(at, swap_bytes)); CU(cuMemAddressFree(at, swap_bytes)); CU(cuMemRelease(swap_handle));
        }
    }
    fprintf(stderr, "the CPU's memory is not managed here\n");
    CU(cuMemAllocHost((void **)&swap, SWAPPED * page_bytes));
}

int main() {
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr)); CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE; prop.location.id = 0;
    access_device.location = prop.location; access_device.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemGetAllocationGranularity(&page_bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)); per_page = page_bytes / (WORDS * 4);
    CU(cuMemAddressReserve(&window, page_bytes, 0, 0, 0)); make_swap(); for (int i = 0; i < SWAPPED; i++) swap_slots.push_back(i);
    uint32_t sum_a = 0, sum_b = 0; for (uint32_t w = 0; w < WORDS; w++) { sum_a += (w + 1) * (w | 1); sum_b += w | 1; }
    Entry *table, *host_table; uint32_t *out, *back, *words; const int stride = PAGES * per_page;
    CK(cudaMalloc(&table, MOST * sizeof(Entry))); CK(cudaMallocHost(&host_table, MOST * sizeof(Entry))); CK(cudaMalloc(&out, 16 * stride * 4));
    CK(cudaMallocHost(&back, 16 * stride * 4)); CK(cudaMallocHost(&words, 3 * WORDS * 4));
    std::vector<Sequence *> live, away; uint32_t next = 1; CUdeviceptr old_base = 0;
    for (int i = 0; i < 3; i++) live.push_back(make(next++, 0));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < live.size(); i++) grow(live[i], 5 + mix(round * 16 + i) % 60, mix(round * 100 + live[i]->id));
        uint32_t dice = mix(round + 1000); Sequence *one = live[dice / 16 % live.size()];
        if (round % 4 == 1 && live.size() < 7) live.push_back(fork_of(one, next++));
        if (round % 4 == 2 && !shared(one) && live.size() > 2 && one->tokens && one->pages.size() <= swap_slots.size()) {
            live.erase(std::find(live.begin(), live.end(), one)); old_base = one->base; swap_out(one, dice); away.push_back(one);
        }
        if (round % 4 == 0 && !away.empty()) { swap_in(away[0], round % 8 ? old_base : 0); live.push_back(away[0]); away.erase(away.begin()); }
        if (round % 6 == 5 && live.size() > 3) { Sequence *gone = live[1]; live.erase(live.begin() + 1); old_base = gone->base; drop(gone); live.push_back(make(next++, old_base)); grow(live.back(), 3, round); }
        if (round % 5 == 3) {                               // two exchange their places; their entries below, too
            sync(); Sequence *a = live[0], *b = live.back(); unmap_all(a); unmap_all(b); std::swap(a->base, b->base); map_all(a); map_all(b);
        }
        // The table, and what all sequences hold. A shift by one of them is seen by those that share its pages, once for each page.
        memset(host_table, 0, MOST * sizeof(Entry));
        int at[16]; for (size_t i = 0; i < live.size(); i++) { at[i] = i; host_table[at[i]] = Entry{(uint32_t *)live[i]->base, live[i]->tokens, live[i]->id}; }
        for (int i = 0; i < 300; i++) host_table[200 + i] = host_table[i % live.size()];
        CK(cudaMemcpyAsync(table, host_table, MOST * sizeof(Entry), cudaMemcpyHostToDevice, stream));
        int moved = dice / 256 % live.size();
        shift_all<<<64, 256, 0, stream>>>(table, 200 + (int)live.size() + moved, dice); CK(cudaGetLastError());
        for (uint32_t t = 0; t < live[moved]->tokens; t++) live[moved]->pages[t / per_page]->tokens[t % per_page].shift += dice;
        digest<<<dim3(stride, live.size()), 256, 0, stream>>>(table, out, stride); CK(cudaGetLastError());
        CK(cudaMemcpyAsync(back, out, live.size() * stride * 4, cudaMemcpyDeviceToHost, stream));
        uint32_t two = std::min(2u, live[0]->tokens); CK(cudaMemcpyAsync(words, (void *)live[0]->base, two * WORDS * 4, cudaMemcpyDefault, stream));
        sync();
        for (size_t i = 0; i < live.size(); i++) for (uint32_t t = 0; t < live[i]->tokens; t++) {
            Token k = live[i]->pages[t / per_page]->tokens[t % per_page]; uint32_t v = back[i * stride + t];
            if (v != k.seed * sum_a + k.shift * sum_b + live[i]->id) { if (!wrong++) fprintf(stderr, "round %u: sequence %u, token %u\n", round, live[i]->id, t); }
            fold(v);
        }
        for (uint32_t w = 0; w < two * WORDS; w++) { Token k = live[0]->pages[0]->tokens[w / WORDS]; wrong += words[w] != k.seed * (w % WORDS + 1) + k.shift; }
    }
    fold(created);
    for (auto *s : live) drop(s);
    for (auto *s : away) delete s;
    for (Page *p : idle) { CU(cuMemRelease(p->handle)); delete p; }
    CU(cuMemAddressFree(window, page_bytes));
    if (swap_by_vmm) { CU(cuMemUnmap((CUdeviceptr)swap, swap_bytes)); CU(cuMemAddressFree((CUdeviceptr)swap, swap_bytes)); CU(cuMemRelease(swap_handle)); } else CU(cuMemFreeHost(swap));
    CK(cudaFree(table)); CK(cudaFree(out)); CK(cudaFreeHost(host_table)); CK(cudaFreeHost(back)); CK(cudaFreeHost(words)); CK(cudaStreamDestroy(stream));
    printf("pagedkv: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
