// A scene whose links are no plain addresses: relative to where they stand, shifted beside a tag, split into two arrays, and XORed with a
// neighbour's. Nodes lie in four places at once: a __device__ array, cudaMalloc, a pool, and memory that a graph has allocated. The GPU walks,
// reverses and prunes the lists; the host fetches them, decodes and relinks them, and puts them back.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int PLACES = 4, PER_PLACE = 300, NODES = PLACES * PER_PLACE, ROUNDS = 10;
struct Node {
    uint32_t id, value;
    int64_t relative;           // to the next one, from this field; 0: none
    uint64_t tagged;            // the next one's address / 8, above 19 bits of tag
    uint64_t both;              // the next one's address, XORed with the previous one's
    uint64_t spare;
};
// The same links once more, in halves: [place][index], the upper and the lower 32 bits far from each other.
struct Split { uint32_t low[NODES], between[64], high[NODES]; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__device__ Node in_module[PER_PLACE];
__device__ Split split_in_module;

__device__ inline Node *by_relative(const Node *n) { return n->relative ? (Node *)((char *)&n->relative + n->relative) : nullptr; }
__device__ inline Node *by_tag(const Node *n) { return (Node *)(uintptr_t)((n->tagged >> 19) << 3); }
__device__ inline void set(Node *n, const Node *next, const Node *before, Split *split) {
    uint64_t at = (uint64_t)(uintptr_t)next;
    n->relative = next ? (const char *)next - (const char *)&n->relative : 0;
    n->tagged = at >> 3 << 19 | (n->tagged & 0x7ffff);
    n->both = at ^ (uint64_t)(uintptr_t)before;
    split->low[n->id] = (uint32_t)at; split->high[n->id] = (uint32_t)(at >> 32);
}
// Four walks by four kinds of links, which must all see the same.
__global__ void walk(const Node *first, const Split *split, uint32_t round, unsigned long long *sums) {
    unsigned long long s = round; uint32_t steps = 0; const Node *n = first, *before = nullptr;
    while (n && steps++ < 2 * NODES) {
        s = s * 6364136223846793005ull + n->value + (n->tagged & 0x7ffff);
        const Node *next;
        if (threadIdx.x == 0) next = by_relative(n);
        else if (threadIdx.x == 1) next = by_tag(n);
        else if (threadIdx.x == 2) next = (const Node *)(uintptr_t)(n->both ^ (uint64_t)(uintptr_t)before);
        else next = (const Node *)(uintptr_t)((uint64_t)split->high[n->id] << 32 | split->low[n->id]);
        before = n; n = next;
    }
    sums[threadIdx.x] = s;
}
__global__ void reverse(Node **first, Split *split, uint32_t round) {       // and drops the nodes whose value says so
    Node *n = *first, *last = nullptr;
    while (n) {
        Node *next = by_relative(n);
        n->value = mix(n->value + round);
        if (n->value % 37 != 0) {
            set(n, last, nullptr, split);
            if (last) last->both ^= (uint64_t)(uintptr_t)n;          // whose previous one is known now
            last = n;
        }
        n = next;
    }
    *first = last;
}

struct Place { Node *at; std::vector<Node> copy; };
static Place places[PLACES]; static Split *split_at, split_copy;
static int wrong; static uint64_t checksum = 14695981039346656037ull;

static Node *host_of(const Node *dev) {                      // where its copy is
    for (auto &p : places) if (dev >= p.at && dev < p.at + PER_PLACE) return p.copy.data() + (dev - p.at);
    fprintf(stderr, "an address of nobody's\n"); exit(3);
}
static Node *dev_of(uint32_t id) { return places[id % PLACES].at + id / PLACES; }
static void set_on_host(uint32_t id, const Node *next, const Node *before) {
    Node *n = host_of(dev_of(id)); uint64_t at = (uint64_t)(uintptr_t)next, field = (uint64_t)(uintptr_t)&dev_of(id)->relative;
    n->relative = next ? (int64_t)(at - field) : 0;
    n->tagged = at >> 3 << 19 | (mix(n->id) & 0x7ffff);
    n->both = at ^ (uint64_t)(uintptr_t)before;
    split_copy.low[id] = (uint32_t)at; split_copy.high[id] = (uint32_t)(at >> 32);
}

int main() {
    cudaStream_t stream; Node **first; unsigned long long *sums; cudaGraph_t graph; cudaGraphExec_t exec; cudaGraphNode_t allocation, fill;
    CK(cudaSetDevice(0)); CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaGetSymbolAddress((void **)&places[0].at, in_module)); CK(cudaGetSymbolAddress((void **)&split_at, split_in_module));
    CK(cudaMalloc(&places[1].at, PER_PLACE * sizeof(Node))); CK(cudaMallocAsync((void **)&places[2].at, PER_PLACE * sizeof(Node), stream));
    // The fourth place is a graph's, and outlives its launch.
    cudaMemAllocNodeParams wanted = {};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned; wanted.poolProps.location.type = cudaMemLocationTypeDevice; wanted.bytesize = PER_PLACE * sizeof(Node);
    CK(cudaGraphCreate(&graph, 0)); CK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &wanted));
    places[3].at = (Node *)wanted.dptr;
    cudaMemsetParams zeros = {}; zeros.dst = wanted.dptr; zeros.elementSize = 4; zeros.width = PER_PLACE * sizeof(Node) / 4; zeros.height = 1;
    CK(cudaGraphAddMemsetNode(&fill, graph, &allocation, 1, &zeros));
    CK(cudaGraphInstantiate(&exec, graph, 0)); CK(cudaGraphLaunch(exec, stream));
    CK(cudaMalloc(&first, 8)); CK(cudaMalloc(&sums, 32)); CK(cudaStreamSynchronize(stream));
    for (auto &p : places) {
        if ((uint64_t)(uintptr_t)p.at % 8 || (uint64_t)(uintptr_t)p.at >> 48) { fprintf(stderr, "an address that cannot be tagged\n"); return 2; }
        p.copy.assign(PER_PLACE, Node());
    }

    std::vector<uint32_t> order; std::vector<uint32_t> values(NODES);       // the model: ids in the order of the list
    auto upload = [&] {                                      // the list as `order` says
        for (size_t i = 0; i < order.size(); i++)
            set_on_host(order[i], i + 1 < order.size() ? dev_of(order[i + 1]) : nullptr, i ? dev_of(order[i - 1]) : nullptr);
        for (int p = 0; p < PLACES; p++) {
            if (p % 2) CK(cudaMemcpyAsync(places[p].at, places[p].copy.data(), PER_PLACE * sizeof(Node), cudaMemcpyHostToDevice, stream));
            else if (p == 0) CK(cudaMemcpyToSymbolAsync(in_module, places[p].copy.data(), PER_PLACE * sizeof(Node), 0, cudaMemcpyHostToDevice, stream));
            else CK(cudaMemcpy2DAsync(places[p].at, sizeof(Node), places[p].copy.data(), sizeof(Node), sizeof(Node), PER_PLACE, cudaMemcpyHostToDevice, stream));
        }
        CK(cudaMemcpyAsync(split_at, &split_copy, sizeof(Split), cudaMemcpyHostToDevice, stream));
        Node *head = order.empty() ? nullptr : dev_of(order[0]);
        CK(cudaMemcpyAsync(first, &head, sizeof head, cudaMemcpyHostToDevice, stream));
        CK(cudaStreamSynchronize(stream));
    };
    for (uint32_t id = 0; id < NODES; id++) { Node *n = host_of(dev_of(id)); n->id = id; n->value = values[id] = mix(id + 1); n->tagged = mix(id) & 0x7ffff; order.push_back(id); }
    for (uint32_t i = NODES - 1; i > 0; i--) std::swap(order[i], order[mix(i) % (i + 1)]);
    upload();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        Node *head; unsigned long long got[4], s = round;
        CK(cudaMemcpyAsync(&head, first, sizeof head, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        walk<<<1, 4, 0, stream>>>(head, split_at, round, sums);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(got, sums, sizeof got, cudaMemcpyDeviceToHost, stream));
        reverse<<<1, 1, 0, stream>>>(first, split_at, round);
        CK(cudaGetLastError()); CK(cudaStreamSynchronize(stream));
        for (uint32_t id : order) s = s * 6364136223846793005ull + values[id] + (mix(id) & 0x7ffff);
        for (unsigned long long g : got) { wrong += g != s; checksum = (checksum ^ g) * 1099511628211ull; }
        std::vector<uint32_t> turned;
        for (uint32_t id : order) { values[id] = mix(values[id] + round); if (values[id] % 37 != 0) turned.insert(turned.begin(), id); }
        order = turned;
        if (round % 3 == 1) {                                // the host takes it all, follows the tagged links, and takes some out
            for (auto &p : places) CK(cudaMemcpyAsync(p.copy.data(), p.at, PER_PLACE * sizeof(Node), cudaMemcpyDeviceToHost, stream));
            CK(cudaMemcpyAsync(&split_copy, split_at, sizeof(Split), cudaMemcpyDeviceToHost, stream));
            CK(cudaMemcpyAsync(&head, first, sizeof head, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
            std::vector<uint32_t> seen;
            for (const Node *n = head; n; n = (const Node *)(uintptr_t)((host_of(n)->tagged >> 19) << 3)) {
                const Node *h = host_of(n); uint64_t other = (uint64_t)split_copy.high[h->id] << 32 | split_copy.low[h->id];
                wrong += h->value != values[h->id] || other != (h->tagged >> 19) << 3;
                if (h->id % 11 != round) seen.push_back(h->id);
                if (seen.size() > NODES) break;
            }
            std::vector<uint32_t> kept; for (uint32_t id : order) if (id % 11 != round) kept.push_back(id);
            wrong += seen != kept;
            order = kept; upload();
        }
    }
    printf("nodes left: %zu\n", order.size());
    CK(cudaFreeAsync(places[3].at, stream)); CK(cudaFreeAsync(places[2].at, stream)); CK(cudaStreamSynchronize(stream));
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph)); CK(cudaFree(places[1].at)); CK(cudaFree(first)); CK(cudaFree(sums));
    CK(cudaStreamDestroy(stream));
    printf("relptr: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
