// Managed variables and classes with virtual functions made on the device, in two namespaces with equal names, managed vectors and
// lists changed by the CPU and the GPU in turn, and symbols copied to, from and addressed.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull;
static void fold(uint64_t v) { sum = (sum ^ v) * 1099511628211ull; }
__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }

struct Managed {                                            // what derives from it lives in managed memory
    static void *operator new(size_t n) { void *p; CK(cudaMallocManaged(&p, n)); return p; }
    static void operator delete(void *p) { CK(cudaDeviceSynchronize()); CK(cudaFree(p)); }
};
template <class T> struct Vector : Managed {
    T *data = nullptr; int size = 0, capacity = 0;
    Vector(int n = 16) { CK(cudaMallocManaged(&data, n * sizeof(T))); capacity = n; }
    ~Vector() { CK(cudaFree(data)); }
    void reserve(int n) {
        if (n <= capacity) return;
        T *more; CK(cudaMallocManaged(&more, n * sizeof(T)));
        for (int i = 0; i < size; i++) more[i] = data[i];
        CK(cudaFree(data)); data = more; capacity = n;
    }
    void push(const T &v) { if (size == capacity) reserve(capacity * 2); data[size++] = v; }
    __device__ void push_device(const T &v) { int at = atomicAdd(&size, 1); if (at < capacity) data[at] = v; }
};

namespace shapes {
    __managed__ uint32_t counter = 5;
    __managed__ struct { int steps; uint32_t seed; uint32_t history[32]; } settings = {2, 1234, {1, 2, 3}};
    __constant__ uint32_t factors[8] = {3, 5, 7, 11, 13, 17, 19, 23};
    __device__ uint32_t table[64];

    struct State { uint32_t a, b; int kind; };              // what both sides may read
    class Shape {
    public:
        State *state;
        __device__ Shape(State *s, int kind) : state(s) { s->kind = kind; }
        __device__ virtual uint32_t area() const = 0;
        __device__ virtual void grow(uint32_t by) { state->a += by; }
        __device__ virtual ~Shape() { state->kind = -1 - state->kind; }
    };
    class Square : public Shape {
    public:
        __device__ Square(State *s) : Shape(s, 0) {}
        __device__ uint32_t area() const override { return state->a * state->a; }
    };
    class Rectangle : public Square {
    public:
        uint32_t extra;
        __device__ Rectangle(State *s, uint32_t e) : Square(s), extra(e) { s->kind = 1; }
        __device__ uint32_t area() const override { return state->a * state->b + extra; }
        __device__ void grow(uint32_t by) override { Square::grow(by); state->b ^= by; extra++; }
    };
    class Round : public Shape {
    public:
        __device__ Round(State *s) : Shape(s, 2) {}
        __device__ uint32_t area() const override { return factors[state->b % 8] * state->a * state->a + table[state->a % 64]; }
        __device__ void grow(uint32_t by) override { state->a = state->a * 3 + by; }
    };
    union Room { char square[sizeof(Square)], rectangle[sizeof(Rectangle)], round[sizeof(Round)]; long long align[4]; };

    __global__ void build(Room *rooms, Shape **all, State *states, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        if (i % 3 == 0) all[i] = new (&rooms[i]) Square(&states[i]);
        else if (i % 3 == 1) all[i] = new (&rooms[i]) Rectangle(&states[i], i);
        else all[i] = new (&rooms[i]) Round(&states[i]);
    }
    __global__ void step(Shape **all, uint32_t *areas, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        for (int k = 0; k < settings.steps; k++) all[i]->grow(settings.seed + k);
        areas[i] = all[i]->area();
        if (areas[i] & 1) atomicAdd(&counter, 1);
        if (i == 0) settings.history[settings.steps] = areas[0];
    }
    __global__ void clear(Shape **all, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { all[i]->~Shape(); all[i] = nullptr; } }
}

namespace ledger {
    __managed__ uint32_t counter = 9;
    __managed__ Vector<uint64_t> *book = nullptr;
    __constant__ uint32_t factors[8];
    __device__ uint32_t table[64] = {7};
    struct Node { uint32_t value; Node *next; };

    __global__ void step(uint32_t turn, int n) {            // appends in any order: the CPU sorts
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        uint32_t v = mix(i + turn * 977) ^ factors[i % 8];
        if (v % 4 == turn % 4) { book->push_device((uint64_t)v << 32 | (uint32_t)i); atomicAdd(&counter, 2); }
        if (i < 64) table[i] = table[i] * 3 + v;
    }
    __global__ void walk(Node *head, uint32_t *out) {       // changes the list that the CPU made
        uint32_t s = 0; Node *previous = nullptr;
        for (Node *n = head; n; ) { s = s * 31 + n->value; n->value += s; Node *next = n->next; n->next = previous; previous = n; n = next; }
        *out = s; *(Node **)(out + 2) = previous;
    }
}

static void run_shapes(cudaStream_t s) {
    using namespace shapes;
    const int n = 5000;
    Room *rooms; Shape **all; State *states; uint32_t *areas;
    CK(cudaMalloc(&rooms, n * sizeof(Room))); CK(cudaMallocManaged(&all, n * sizeof *all)); CK(cudaMallocManaged(&states, n * sizeof *states));
    CK(cudaMallocManaged(&areas, n * 4));
    std::vector<State> ref(n); std::vector<uint32_t> extra(n), areas_ref(n);
    uint32_t tab[64], fac[8] = {3, 5, 7, 11, 13, 17, 19, 23}, count = 5;
    for (int i = 0; i < 64; i++) tab[i] = mix(i);
    CK(cudaMemcpyToSymbol(table, tab, sizeof tab));
    for (int i = 0; i < n; i++) { states[i] = ref[i] = {(uint32_t)i, mix(i), 77}; extra[i] = i; ref[i].kind = i % 3; }
    wrong += settings.steps != 2 || settings.seed != 1234 || settings.history[2] != 3 || counter != 5;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    CK(cudaMemAdvise(states, n * sizeof *states, cudaMemAdviseSetPreferredLocation, device));
    CK(cudaMemPrefetchAsync(states, n * sizeof *states, device, 0, s));
    build<<<(n + 255) / 256, 256, 0, s>>>(rooms, all, states, n);
    CK(cudaStreamSynchronize(s));
    for (int turn = 0; turn < 12; turn++) {
        settings.steps = 1 + turn % 4; settings.seed = mix(turn);
        uint32_t f = turn * 2 + 1; size_t at = turn % 8;
        CK(cudaMemcpyToSymbolAsync(factors, &f, 4, at * 4, cudaMemcpyHostToDevice, s));
        fac[at] = f;
        if (turn == 6) {                                    // the table through its address
            void *address; size_t bytes; CK(cudaGetSymbolAddress(&address, table)); CK(cudaGetSymbolSize(&bytes, table));
            wrong += bytes != sizeof table;
            CK(cudaMemsetAsync((char *)address + 40, 0x21, 80, s)); for (int i = 10; i < 30; i++) tab[i] = 0x21212121;
        }
        step<<<(n + 127) / 128, 128, 0, s>>>(all, areas, n);
        CK(cudaStreamSynchronize(s));
        for (int i = 0; i < n; i++) {
            State &r = ref[i];
            for (int k = 0; k < settings.steps; k++) {
                uint32_t by = settings.seed + k;
                if (i % 3 == 2) r.a = r.a * 3 + by; else { r.a += by; if (i % 3 == 1) { r.b ^= by; extra[i]++; } }
            }
            areas_ref[i] = i % 3 == 0 ? r.a * r.a : i % 3 == 1 ? r.a * r.b + extra[i] : fac[r.b % 8] * r.a * r.a + tab[r.a % 64];
            count += areas_ref[i] & 1;
        }
        wrong += memcmp(areas, areas_ref.data(), n * 4) != 0; wrong += counter != count; wrong += settings.history[settings.steps] != areas_ref[0];
        for (int i = turn; i < n; i += 13) { states[i].b += turn; ref[i].b += turn; }     // the CPU's turn
        if (turn % 5 == 4) { CK(cudaMemPrefetchAsync(states, n * sizeof *states, host, 0, s)); CK(cudaStreamSynchronize(s)); }
        fold(counter);
    }
    wrong += memcmp(states, ref.data(), n * sizeof(State)) != 0;
    clear<<<(n + 255) / 256, 256, 0, s>>>(all, n);
    CK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) { wrong += states[i].kind != -1 - i % 3 || all[i] != nullptr; fold(states[i].a); }
    CK(cudaFree(rooms)); CK(cudaFree(all)); CK(cudaFree(states)); CK(cudaFree(areas));
}

static void run_ledger(cudaStream_t s) {
    using namespace ledger;
    const int n = 9000;
    uint32_t fac[8], tab[64] = {7}, count = 9; std::vector<uint64_t> reference;
    book = new Vector<uint64_t>(64);
    wrong += counter != 9;
    for (uint32_t turn = 0; turn < 9; turn++) {
        for (int i = 0; i < 8; i++) fac[i] = mix(turn * 8 + i);
        CK(cudaMemcpyToSymbol(factors, fac, sizeof fac));
        book->reserve(book->size + n);
        step<<<(n + 191) / 192, 192, 0, s>>>(turn, n);
        CK(cudaStreamSynchronize(s));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v = mix(i + turn * 977) ^ fac[i % 8];
            if (v % 4 == turn % 4) { reference.push_back((uint64_t)v << 32 | i); count += 2; }
            if (i < 64) tab[i] = tab[i] * 3 + v;
        }
        std::sort(book->data, book->data + book->size);
        std::sort(reference.begin(), reference.end());
        book->push(turn); reference.push_back(turn);        // may grow
        wrong += book->size != (int)reference.size() || !std::equal(reference.begin(), reference.end(), book->data);
        for (int i = 0; i < book->size; i += 2) { book->data[i] ^= turn; reference[i] ^= turn; }
        if (turn == 4) { counter = 1000; count = 1000; }
        wrong += counter != count;
        fold(book->data[book->size / 2]);
    }
    uint32_t seen[64], part[4];
    CK(cudaMemcpyFromSymbol(seen, table, sizeof seen)); wrong += memcmp(seen, tab, sizeof seen) != 0;
    CK(cudaMemcpyFromSymbolAsync(part, table, sizeof part, 20 * 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s));
    wrong += memcmp(part, tab + 20, sizeof part) != 0;
    CK(cudaMemcpyFromSymbol(&count, counter, 4)); wrong += count != counter;      // a managed one by its symbol
    count += 3; CK(cudaMemcpyToSymbol(counter, &count, 4)); CK(cudaDeviceSynchronize()); wrong += counter != count;
    delete book; book = nullptr;

    std::vector<Node *> nodes; Node *head = nullptr; uint32_t *out; CK(cudaMallocManaged(&out, 16));
    for (int i = 0; i < 300; i++) { Node *m; CK(cudaMallocManaged(&m, sizeof(Node))); m->value = mix(i); m->next = head; head = m; nodes.push_back(m); }
    for (int turn = 0; turn < 3; turn++) {
        uint32_t expected = 0; std::vector<uint32_t> values;
        for (Node *m = head; m; m = m->next) { expected = expected * 31 + m->value; values.push_back(m->value + expected); }
        walk<<<1, 1, 0, s>>>(head, out);
        CK(cudaStreamSynchronize(s));
        head = *(Node **)(out + 2);
        wrong += out[0] != expected; fold(expected);
        size_t k = values.size();
        for (Node *m = head; m; m = m->next) { if (!k) { wrong++; break; } wrong += m->value != values[--k]; m->value += 1; }
    }
    for (Node *m : nodes) CK(cudaFree(m));
    CK(cudaFree(out));
}

int main() {
    CK(cudaSetDevice(0));
    cudaStream_t s; CK(cudaStreamCreate(&s));
    run_shapes(s); run_ledger(s);
    fold(shapes::counter); fold(ledger::counter);
    CK(cudaStreamDestroy(s));
    printf("managedclasses: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
