// nvcc: -rdc=true -lcudadevrt
// A world of objects with virtual functions in the device's heap. The host owns the directory: 16 KB of pointers with kinds in the
// low bits and generations in the high ones, which it fetches, sorts and puts back (one thread makes them: else their
// addresses would differ from run to run); it clones prototypes with their vtable pointers,
// builds programs of device function pointers, and walks and relinks lists that kernels have strung through __device__ arrays.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define LAUNCH(...) do { __VA_ARGS__; CK(cudaGetLastError()); } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(const std::vector<uint32_t> &v) { for (uint32_t x : v) sum = (sum ^ x) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

constexpr int N = 2048;                                     // entities
enum Kind : uint32_t { BALL = 0, SPINNER = 1, GROUP = 2 };
__host__ __device__ inline uint32_t kind_of(uint32_t id) { uint32_t k = mix(id + 77) % 8; return k < 4 ? BALL : k < 6 ? SPINNER : GROUP; }
__host__ __device__ inline uint32_t first_state(uint32_t id, uint32_t generation) { return mix(id * 64 + generation); }
__host__ __device__ inline uint32_t step_of(uint32_t kind, uint32_t id, uint32_t s, uint32_t k) {
    if (kind == BALL) return mix(s + k * 3 + id);
    if (kind == SPINNER) { uint32_t r = (id + k) % 31 + 1; return ((s << r) | (s >> (32 - r))) ^ k; }
    return s * 5 + k;
}
__host__ __device__ inline int children_of(uint32_t id) { return id % 6; }
__host__ __device__ inline uint32_t child_of(uint32_t id, int j) { uint32_t c = mix(id * 8 + j) % N; while (kind_of(c) == GROUP) c = (c + 1) % N; return c; }

struct Entity {
    uint32_t id, state;
    __device__ Entity(uint32_t i, uint32_t s) : id(i), state(s) {}
    __device__ virtual void step(uint32_t k) = 0;
    __device__ virtual uint32_t weigh() const { return state; }
    __device__ virtual ~Entity() {}
};
struct Ball : Entity { using Entity::Entity; __device__ void step(uint32_t k) override { state = step_of(BALL, id, state, k); } };
struct Spinner : Entity { using Entity::Entity; uint32_t turns = 0; __device__ void step(uint32_t k) override { state = step_of(SPINNER, id, state, k); turns++; } };
struct Link { const Entity *who; Link *next; };
struct Group : Entity {
    using Entity::Entity;
    Link *links = nullptr;
    __device__ void step(uint32_t k) override { state = step_of(GROUP, id, state, k); }
    __device__ uint32_t weigh() const override { uint32_t w = state; for (Link *l = links; l; l = l->next) w = w * 33 + l->who->weigh(); return w; }
    __device__ void clear() { while (links) { Link *l = links; links = l->next; free(l); } }
    __device__ ~Group() override { clear(); }
};

// A word of the directory: 48 bits of address (16-byte aligned), the kind in the low bits, the generation in the high ones.
__host__ __device__ inline uint64_t address(uint64_t w) { return w & 0x0000fffffffffff0ull; }
__host__ __device__ inline uint32_t generation(uint64_t w) { return (uint32_t)(w >> 48); }
__host__ __device__ inline uint64_t pack(uint64_t a, uint32_t kind, uint32_t g) { return a | kind | ((uint64_t)g << 48); }
__device__ inline Entity *entity(uint64_t w) { return (Entity *)address(w); }

__device__ uint32_t failures;
__global__ void create(uint64_t *directory, const uint32_t *slot_of, int modulus, int rest, uint32_t g) {
    for (uint32_t id = rest; id < N; id += modulus) {
        uint32_t kind = kind_of(id), s = first_state(id, g); Entity *e;
        if (kind == BALL) e = new Ball(id, s); else if (kind == SPINNER) e = new Spinner(id, s); else e = new Group(id, s);
        if (!e) { atomicAdd(&failures, 1); return; }
        directory[slot_of[id]] = pack((uint64_t)e, kind, g);
    }
}
__global__ void destroy(uint64_t *directory, int modulus, int rest) {
    for (int slot = 0; slot < N; slot++)
        if (entity(directory[slot])->id % modulus == (uint32_t)rest) { delete entity(directory[slot]); directory[slot] = 0; }
}
__global__ void connect(const uint64_t *directory, const uint32_t *slot_of) {
    for (int slot = 0; slot < N; slot++) {
    if ((directory[slot] & 15) != GROUP) continue;
    Group *g = (Group *)entity(directory[slot]);
    g->clear();
    for (int j = 0; j < children_of(g->id); j++) {
        Link *l = (Link *)malloc(sizeof(Link));
        if (!l) { atomicAdd(&failures, 1); return; }
        l->who = entity(directory[slot_of[child_of(g->id, j)]]); l->next = g->links; g->links = l;
    }
    }
}
__global__ void step_all(const uint64_t *directory, int n, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) entity(directory[i])->step(k); }
__global__ void weigh_all(const uint64_t *directory, uint32_t *out) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) { const Entity *e = entity(directory[i]); out[e->id] = e->weigh() + generation(directory[i]); } }

// Objects in ordinary memory, of which the kernel makes two and the host all others, vtable pointer included.
struct alignas(16) Raw { uint64_t vtable; uint32_t id, state, more[2]; uint64_t tail; };
static_assert(sizeof(Raw) >= sizeof(Spinner) && sizeof(Raw) >= sizeof(Ball), "a place for each");
__global__ void prototypes(Raw *place) { new (place) Ball(1, 2); new (place + 1) Spinner(3, 4); }
__global__ void step_raw(Raw *place, int n, uint32_t k) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) ((Entity *)(place + i))->step(k); }

// Function pointers.
typedef uint32_t (*Op)(uint32_t, uint32_t);
__device__ __noinline__ uint32_t op_add(uint32_t a, uint32_t b) { return a + b; }
__device__ __noinline__ uint32_t op_xor(uint32_t a, uint32_t b) { return (a ^ b) * 9; }
__device__ __noinline__ uint32_t op_mix(uint32_t a, uint32_t b) { return mix(a + b * 5); }
__device__ Op ops[3] = {op_add, op_xor, op_mix};
__device__ uint32_t registers[64];
struct Instruction { Op op; uint32_t argument, pad; uint32_t *target; const uint32_t *source; };
__global__ void compile(Instruction *code, int n) {         // the second half by the device
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) code[i] = Instruction{ops[mix(i) % 3], mix(i + 5), 0, registers + mix(i + 9) % 64, registers + mix(i + 13) % 64};
}
__global__ void execute(const Instruction *code, int n) { for (int i = 0; i < n; i++) *code[i].target = code[i].op(*code[i].target, *code[i].source + code[i].argument); }

// A list through a __device__ array and a piece of ordinary memory.
struct Node { Node *next; uint32_t value, index; };
__device__ Node arena[600];
__device__ Node *head;
__global__ void string_up(Node *extra, int n) {             // place p of the list is node (p * 7) % n
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    auto at = [&](int q) { int i = q * 7 % n; return i & 1 ? extra + i / 2 : arena + i / 2; };
    *at(p) = Node{p + 1 < n ? at(p + 1) : nullptr, mix(p), (uint32_t)p};
    if (p == 0) head = at(0);
}
__global__ void sum_list(uint32_t *out) { uint32_t s = 1, n = 0; for (const Node *p = head; p; p = p->next, n++) s = s * 31 + p->value; out[0] = s; out[1] = n; }

static void world() {
    uint64_t *directory; uint32_t *slots, *out;
    CK(cudaMalloc(&directory, N * 8)); CK(cudaMalloc(&slots, N * 4)); CK(cudaMalloc(&out, N * 4)); CK(cudaMemset(directory, 0, N * 8));
    std::vector<uint32_t> slot_of(N), generations(N, 0), state(N), weights(N), ref(N); std::vector<uint64_t> words(N);
    for (uint32_t i = 0; i < N; i++) { slot_of[i] = i; state[i] = first_state(i, 0); }
    CK(cudaMemcpy(slots, slot_of.data(), N * 4, cudaMemcpyHostToDevice));
    LAUNCH(create<<<1, 1>>>(directory, slots, 1, 0, 0));
    for (uint32_t round = 1; round <= 8; round++) {
        // The host puts the directory in another order: by kind, turned by the round; and counts the generations up.
        CK(cudaMemcpy(words.data(), directory, N * 8, cudaMemcpyDeviceToHost));
        std::vector<uint32_t> order(N), id_at(N);
        for (uint32_t i = 0; i < N; i++) id_at[slot_of[i]] = i;
        for (uint32_t i = 0; i < N; i++) order[i] = (i * 5 + round) % N;
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return (words[a] & 15) < (words[b] & 15); });
        std::vector<uint64_t> sorted(N); uint32_t balls = 0;
        for (uint32_t i = 0; i < N; i++) {
            uint32_t id = id_at[order[i]]; uint64_t w = words[order[i]];
            wrong += generation(w) != generations[id] || (w & 15) != kind_of(id);
            balls += (w & 15) == BALL;
            sorted[i] = pack(address(w), w & 15, ++generations[id]); slot_of[id] = i;
        }
        CK(cudaMemcpy(directory, sorted.data(), N * 8, cudaMemcpyHostToDevice)); CK(cudaMemcpy(slots, slot_of.data(), N * 4, cudaMemcpyHostToDevice));
        LAUNCH(step_all<<<N / 128, 128>>>(directory, N, round));
        LAUNCH(step_all<<<(balls + 63) / 64, 64>>>(directory, balls, round + 100));      // the balls once more
        for (uint32_t i = 0; i < N; i++) { state[i] = step_of(kind_of(i), i, state[i], round); if (kind_of(i) == BALL) state[i] = step_of(BALL, i, state[i], round + 100); }
        if (round % 3 == 0) {                               // a seventh dies and is born again
            LAUNCH(destroy<<<1, 1>>>(directory, 7, round % 7)); LAUNCH(create<<<1, 1>>>(directory, slots, 7, round % 7, round));
            for (uint32_t i = round % 7; i < N; i += 7) { state[i] = first_state(i, round); generations[i] = round; }
        }
        LAUNCH(connect<<<1, 1>>>(directory, slots)); LAUNCH(weigh_all<<<N / 128, 128>>>(directory, out));
        CK(cudaMemcpy(weights.data(), out, N * 4, cudaMemcpyDeviceToHost));
        for (uint32_t i = 0; i < N; i++) {
            ref[i] = state[i];
            if (kind_of(i) == GROUP) for (int j = children_of(i) - 1; j >= 0; j--) ref[i] = ref[i] * 33 + state[child_of(i, j)];
            ref[i] += generations[i];
        }
        if (weights != ref) { wrong++; fprintf(stderr, "round %u differs\n", round); }
        fold(weights);
    }
    LAUNCH(destroy<<<1, 1>>>(directory, 1, 0));
    uint32_t failed = 1; CK(cudaMemcpyFromSymbol(&failed, failures, 4)); wrong += failed != 0;
    CK(cudaFree(directory)); CK(cudaFree(slots)); CK(cudaFree(out));
}

static void clones() {
    const int n = 700; Raw *place; std::vector<Raw> host(n); std::vector<uint32_t> states(n), ref(n);
    CK(cudaMalloc(&place, n * sizeof(Raw))); CK(cudaMemset(place, 0, n * sizeof(Raw)));
    LAUNCH(prototypes<<<1, 1>>>(place));
    CK(cudaMemcpy(host.data(), place, 2 * sizeof(Raw), cudaMemcpyDeviceToHost));
    const Raw both[2] = {host[0], host[1]};
    for (int i = 0; i < n; i++) { host[i] = both[mix(i) & 1]; host[i].id = i; host[i].state = ref[i] = mix(i * 3); }
    CK(cudaMemcpy(place, host.data(), n * sizeof(Raw), cudaMemcpyHostToDevice));
    for (uint32_t k = 0; k < 4; k++) {
        LAUNCH(step_raw<<<(n + 63) / 64, 64>>>(place, n, k));
        for (int i = 0; i < n; i++) ref[i] = step_of(mix(i + (k > 1)) & 1, i, ref[i], k);
        if (k != 1) continue;                               // all are fetched, their classes exchanged by their neighbours' pointers
        CK(cudaMemcpy(host.data(), place, n * sizeof(Raw), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) host[i].vtable = both[mix(i + 1) & 1].vtable;
        CK(cudaMemcpy2D(place, sizeof(Raw), host.data(), sizeof(Raw), 8, n, cudaMemcpyHostToDevice));   // their first words only
    }
    CK(cudaMemcpy(host.data(), place, n * sizeof(Raw), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) states[i] = host[i].state;
    wrong += states != ref; fold(states); CK(cudaFree(place));
}

static void programs() {
    const int n = 600; Op table[3]; uint32_t *base; Instruction *code; std::vector<Instruction> host(n); std::vector<uint32_t> regs(64), ref(64);
    for (int i = 0; i < 64; i++) ref[i] = regs[i] = i * i;
    CK(cudaMemcpyToSymbol(registers, regs.data(), 256)); CK(cudaMemcpyFromSymbol(table, ops, sizeof table));
    CK(cudaGetSymbolAddress((void **)&base, registers)); CK(cudaMalloc(&code, n * sizeof(Instruction)));
    LAUNCH(compile<<<(n + 127) / 128, 128>>>(code, n));
    CK(cudaMemcpy(host.data() + n / 2, code + n / 2, n / 2 * sizeof(Instruction), cudaMemcpyDeviceToHost));
    struct Plain { int op, target, source; uint32_t argument; }; std::vector<Plain> plain(n);
    for (int i = 0; i < n; i++) {
        plain[i] = {(int)(mix(i) % 3), (int)(mix(i + 9) % 64), (int)(mix(i + 13) % 64), mix(i + 5)};
        if (i < n / 2) host[i] = Instruction{table[plain[i].op], plain[i].argument, 0, base + plain[i].target, base + plain[i].source};
        else wrong += host[i].op != table[plain[i].op] || host[i].target - base != plain[i].target;
    }
    for (int i = 0; i < n; i += 2) { std::swap(host[i], host[n - 1 - i]); std::swap(plain[i], plain[n - 1 - i]); }
    for (int i = 0; i < n; i += 5) {                        // the next table entry, the mirrored register
        int op = (plain[i].op + 1) % 3; host[i].op = table[op]; plain[i].op = op;
        host[i].target = base + (63 - (host[i].target - base)); plain[i].target = 63 - plain[i].target;
    }
    CK(cudaMemcpy(code, host.data(), n * sizeof(Instruction), cudaMemcpyHostToDevice));
    std::swap(table[0], table[2]); CK(cudaMemcpyToSymbol(ops, table, sizeof table));    // what compile will use from now on
    LAUNCH(execute<<<1, 1>>>(code, n));
    LAUNCH(compile<<<(n + 127) / 128, 128>>>(code, n)); LAUNCH(execute<<<1, 1>>>(code, n));
    auto run = [&](int op, int target, int source, uint32_t argument) {
        uint32_t a = ref[target], b = ref[source] + argument; ref[target] = op == 0 ? a + b : op == 1 ? (a ^ b) * 9 : mix(a + b * 5); };
    for (auto &p : plain) run(p.op, p.target, p.source, p.argument);
    for (int i = 0; i < n; i++) run(2 - mix(i) % 3, mix(i + 9) % 64, mix(i + 13) % 64, mix(i + 5));
    CK(cudaMemcpyFromSymbol(regs.data(), registers, 256)); wrong += regs != ref; fold(regs); CK(cudaFree(code));
}

static void lists() {
    const int n = 1199; Node *extra; uint32_t *out; CK(cudaMalloc(&extra, 600 * sizeof(Node))); CK(cudaMalloc(&out, 8));
    LAUNCH(string_up<<<(n + 127) / 128, 128>>>(extra, n));
    Node *first, *at; CK(cudaMemcpyFromSymbol(&first, head, 8));
    std::vector<uint32_t> values; for (int i = 0; i < n; i++) values.push_back(mix(i));
    std::vector<uint32_t> seen; at = first;                 // walk, and cut out each third node of the first 120
    for (int i = 0; i < 120; i++) {
        Node here; CK(cudaMemcpy(&here, at, sizeof here, cudaMemcpyDeviceToHost));
        seen.push_back(here.value); wrong += here.index != (uint32_t)i;
        if (i % 3 == 1) {
            Node gone; CK(cudaMemcpy(&gone, here.next, sizeof gone, cudaMemcpyDeviceToHost));
            CK(cudaMemcpy((char *)at + offsetof(Node, next), &gone.next, 8, cudaMemcpyHostToDevice));
            seen.push_back(gone.value); i++; here.next = gone.next;
        }
        at = here.next;
    }
    CK(cudaMemcpyToSymbol(head, &at, 8));                   // the list now begins there; the rest is put before it by the host
    Node last; Node *tail = at; do { CK(cudaMemcpy(&last, tail, sizeof last, cudaMemcpyDeviceToHost)); if (!last.next || last.index >= 400) break; tail = last.next; } while (true);
    Node *rest = last.next; CK(cudaMemcpy(&tail->next, &first, 8, cudaMemcpyHostToDevice));     // ... 400, then 0, 1, 3, 4, ...
    Node *end = first; for (int hops = 0;; hops++) { Node here; CK(cudaMemcpy(&here, end, sizeof here, cudaMemcpyDeviceToHost)); if (here.next == at) break; end = here.next; }
    CK(cudaMemcpy(&end->next, &rest, 8, cudaMemcpyHostToDevice));
    LAUNCH(sum_list<<<1, 1>>>(out));
    uint32_t got[2], s = 1, count = 0; CK(cudaMemcpy(got, out, 8, cudaMemcpyDeviceToHost));
    auto add = [&](int i) { s = s * 31 + values[i]; count++; };
    for (int i = 120; i <= 400; i++) add(i); for (int i = 0; i < 120; i++) if (i % 3 != 2) add(i); for (int i = 401; i < n; i++) add(i);
    for (int i = 0; i < 120; i++) wrong += seen[i] != values[i];
    wrong += got[0] != s || got[1] != count; fold(seen); fold({got[0], got[1]}); CK(cudaFree(extra)); CK(cudaFree(out));
}

int main() {
    CK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20)); CK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    world(); clones(); programs(); lists();
    printf("entities: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
