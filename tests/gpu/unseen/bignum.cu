// nvcc: -lcufft -Xcompiler -pthread
// Numbers of a hundred thousand digits: Fibonacci's and Lucas's by doubling, each in a thread with a stream, products by double precision FFTs (exact
// after rounding). Plans are made for whatever length the last number turned out to have and kept in a cache; all share one work area that grows, and
// moves. Carries ripple until a word that is read back tells that there are none. Sums of neighbours take over memory; digits are written as text.
#include <cufft.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define CF(x) do { cufftResult e_ = (x); if (e_ != CUFFT_SUCCESS) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, (int)e_); \
    exit(2); } } while (0)

typedef long long Word;                                     // a limb, of base 10000; in between it may be anything
constexpr Word BASE = 10000; constexpr int T = 256;
#define EACH(i, n) int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x

__global__ void widen(double *to, const Word *a, const Word *b, int na, int nb, int size)      // three rows: a, b, and 2 b - a
{
    for (EACH(i, size)) {
        double x = i < na ? (double)a[i] : 0, y = i < nb ? (double)b[i] : 0;
        to[i] = x; to[size + i] = y; to[2 * size + i] = 2 * y - x;
    }
}
enum Kind { FIBONACCI, LUCAS, PRODUCT };
__device__ inline double2 times(double2 a, double2 b) { return make_double2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__global__ void combine(double2 *rows, int half, double scale, Kind kind)       // two rows come out of three
{
    for (EACH(i, half)) {
        double2 a = rows[i], b = rows[half + i], c = rows[2 * half + i], aa = times(a, a), bb = times(b, b), ab = times(a, b);
        double2 x = kind == FIBONACCI ? times(a, c) : kind == LUCAS ? aa : ab, y = kind == FIBONACCI ? make_double2(aa.x + bb.x, aa.y + bb.y) : ab;
        rows[i] = make_double2(x.x * scale, x.y * scale); rows[half + i] = make_double2(y.x * scale, y.y * scale);
    }
}
__global__ void narrow(Word *x, Word *y, const double *rows, int size, Word less_x, Word less_y)
{
    for (EACH(i, size)) { x[i] = llrint(rows[i]) - (i ? 0 : less_x); y[i] = llrint(rows[size + i]) - (i ? 0 : less_y); }
}
__device__ inline Word carry_of(Word v) { Word q = v / BASE; return q * BASE > v ? q - 1 : q; }       // towards minus infinity
__global__ void carry(Word *to, const Word *from, int n, int *more)      // each limb gives to the next one
{
    for (EACH(i, n)) {
        Word v = from[i], q = carry_of(v), r = v - q * BASE + (i ? carry_of(from[i - 1]) : 0);
        to[i] = r; if (r < 0 || r >= BASE) *more = 1;
    }
}
__global__ void length(const Word *a, int n, int *longest) { for (EACH(i, n)) if (a[i]) atomicMax(longest, i + 1); }
__global__ void add(Word *to, const Word *a, const Word *b, int n) { for (EACH(i, n)) to[i] = a[i] + b[i]; }
__global__ void digits(char *to, const Word *a, int n)     // the last limb first
{
    for (EACH(i, n)) { int v = (int)a[n - 1 - i]; for (int d = 3; d >= 0; d--) { to[i * 4 + d] = '0' + v % 10; v /= 10; } }
}

struct Number { Word *limbs = nullptr; int n = 0; };
class Machine {
    cudaStream_t s; std::map<int, std::pair<cufftHandle, cufftHandle>> plans; void *area = nullptr; size_t area_size = 4096;
    Word *spare = nullptr; double *rows = nullptr; int *flag, *mapped; size_t capacity = 0;
    void fit(int size)                                      // buffers in stream order, the work area by hand
    {
        if ((size_t)size <= capacity) return;
        if (capacity) { CK(cudaFreeAsync(spare, s)); CK(cudaFreeAsync(rows, s)); }
        capacity = size + size / 4; CK(cudaMallocAsync(&spare, capacity * 8, s)); CK(cudaMallocAsync(&rows, capacity * 3 * 8 + 1024, s));
    }
    std::pair<cufftHandle, cufftHandle> plan(int size)
    {
        auto at = plans.find(size); if (at != plans.end()) return at->second;
        cufftHandle there, back; size_t one, two; int half = size / 2 + 1;
        CF(cufftCreate(&there)); CF(cufftSetAutoAllocation(there, 0)); CF(cufftMakePlanMany(there, 1, &size, &size, 1, size, &half, 1, half,
            CUFFT_D2Z, 3, &one));
        CF(cufftCreate(&back)); CF(cufftSetAutoAllocation(back, 0)); CF(cufftMakePlanMany(back, 1, &size, &half, 1, half, &size, 1, size, CUFFT_Z2D,
            2, &two));
        CF(cufftSetStream(there, s)); CF(cufftSetStream(back, s));
        if (std::max(one, two) > area_size) {               // all the plans move to the new area
            CK(cudaStreamSynchronize(s)); CK(cudaFree(area));
            area_size = std::max(one, two) + 4096; CK(cudaMalloc(&area, area_size));
            for (auto &p : plans) { CF(cufftSetWorkArea(p.second.first, area)); CF(cufftSetWorkArea(p.second.second, area)); }
        }
        CF(cufftSetWorkArea(there, area)); CF(cufftSetWorkArea(back, area));
        return plans[size] = {there, back};
    }
    int blocks(int n) { return std::min((n + T - 1) / T, 264); }
public:
    long ripples = 0, transforms = 0; size_t lengths() { return plans.size(); }
    Machine()
    {
        CK(cudaSetDevice(0)); CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CK(cudaMalloc(&flag, 8)); CK(cudaMallocHost(&mapped, 8));
        CK(cudaMalloc(&area, area_size));
    }
    ~Machine()
    {
        CK(cudaStreamSynchronize(s)); for (auto &p : plans) { CF(cufftDestroy(p.second.first)); CF(cufftDestroy(p.second.second)); }
        CK(cudaFree(area)); if (capacity) { CK(cudaFreeAsync(spare, s)); CK(cudaFreeAsync(rows, s)); }
        CK(cudaStreamSynchronize(s)); CK(cudaFree(flag)); CK(cudaFreeHost(mapped)); CK(cudaStreamDestroy(s));
    }
    Number make(int n) { Number x; x.n = n; CK(cudaMallocAsync(&x.limbs, n * 8, s)); return x; }
    Number from(const std::vector<Word> &v) { Number x = make(v.size()); CK(cudaMemcpyAsync(x.limbs, v.data(), v.size() * 8, cudaMemcpyHostToDevice,
        s)); return x; }
    void drop(Number &x) { CK(cudaFreeAsync(x.limbs, s)); x = Number(); }
    void normalize(Number &x)
    {
        for (;;) {                                          // as often as there is something to carry
            fit(x.n); CK(cudaMemsetAsync(flag, 0, 8, s)); carry<<<blocks(x.n), T, 0, s>>>(spare, x.limbs, x.n, flag); CK(cudaGetLastError());
            ripples++;
            CK(cudaMemcpyAsync(x.limbs, spare, x.n * 8, cudaMemcpyDeviceToDevice, s));
            CK(cudaMemcpyAsync(mapped, flag, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); if (!*mapped) break;
        }
        length<<<blocks(x.n), T, 0, s>>>(x.limbs, x.n, flag + 1); CK(cudaGetLastError());
        CK(cudaMemcpyAsync(mapped + 1, flag + 1, 4, cudaMemcpyDeviceToHost, s)); CK(cudaStreamSynchronize(s)); x.n = std::max(mapped[1], 1);
    }
    void multiply(Number a, Number b, Number &x, Number &y, Kind kind, Word less_x = 0, Word less_y = 0)
    {
        int least = 2 * std::max(a.n, b.n) + 2, size = 0;   // the next length of the form 2^i 3^j 5^k, and even
        for (size = least + least % 2;; size += 2) { int r = size; for (int p : {2, 3, 5}) while (r % p == 0) r /= p; if (r == 1) break; }
        auto p = plan(size); fit(size + 2); transforms++;
        double *wide; CK(cudaMallocAsync(&wide, (size_t)size * 3 * 8, s)); double2 *spectrum;
        CK(cudaMallocAsync(&spectrum, (size_t)(size / 2 + 1) * 3 * 16, s));
        widen<<<blocks(size), T, 0, s>>>(wide, a.limbs, b.limbs, a.n, b.n, size); CK(cudaGetLastError());
        CF(cufftExecD2Z(p.first, wide, spectrum));
        combine<<<blocks(size / 2 + 1), T, 0, s>>>(spectrum, size / 2 + 1, 1.0 / size, kind); CK(cudaGetLastError());
        CF(cufftExecZ2D(p.second, spectrum, rows));
        x = make(size); y = make(size); narrow<<<blocks(size), T, 0, s>>>(x.limbs, y.limbs, rows, size, less_x, less_y); CK(cudaGetLastError());
        CK(cudaFreeAsync(wide, s)); CK(cudaFreeAsync(spectrum, s));
    }
    // (F(n), F(n + 1)), or Lucas's
    void sequence(Kind kind, unsigned n, Number &a, Number &b)
    {
        a = from({kind == LUCAS ? 2 : 0}); b = from({1}); unsigned k = 0;
        for (int bit = 31 - __builtin_clz(n); bit >= 0; bit--) {
            Number x, y; Word sign = k % 2 ? -1 : 1;
            multiply(a, b, x, y, kind, kind == LUCAS ? 2 * sign : 0, kind == LUCAS ? sign : 0); drop(a); drop(b); k *= 2;
            if (n >> bit & 1) {                             // one further: x is lost, its place used again
                add<<<blocks(x.n), T, 0, s>>>(x.limbs, x.limbs, y.limbs, x.n); CK(cudaGetLastError()); std::swap(x, y); k++;
            }
            normalize(x); normalize(y); a = x; b = y;
        }
    }
    std::vector<Word> fetch(const Number &x) { std::vector<Word> v(x.n); CK(cudaMemcpyAsync(v.data(), x.limbs, x.n * 8, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s)); return v; }
    std::string text(const Number &x)
    {
        char *d; std::string t(x.n * 4, ' '); CK(cudaMallocAsync(&d, t.size(), s)); digits<<<blocks(x.n), T, 0, s>>>(d, x.limbs, x.n);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(&t[0], d, t.size(), cudaMemcpyDeviceToHost, s)); CK(cudaFreeAsync(d, s)); CK(cudaStreamSynchronize(s));
        return t.substr(t.find_first_not_of('0'));
    }
};

typedef unsigned __int128 Wide;
static const uint64_t primes[3] = {(1ull << 61) - 1, 1000000000000000003ull, 999999999999999989ull};
static uint64_t mod_text(const std::string &t, uint64_t p) { uint64_t r = 0; for (char c : t) r = (uint64_t)(((Wide)r * 10 + (c - '0')) % p);
    return r; }
static uint64_t mod_sequence(Kind kind, unsigned n, uint64_t p)          // F(n) modulo p; L(n) = 2 F(n + 1) - F(n)
{
    Wide a = 0, b = 1;
    for (int bit = 31; bit >= 0; bit--) { Wide c = a * ((2 * b + p - a) % p) % p, d = (a * a % p + b * b % p) % p; if (n >> bit & 1) { a = d;
        b = (c + d) % p; } else { a = c; b = d; } }
    return (uint64_t)(kind == LUCAS ? (2 * b + p - a) % p : a);
}

int main()
{
    struct Result { std::string last; std::vector<std::string> all; long ripples, transforms; size_t lengths; } results[2];
    const unsigned numbers[2][3] = {{500000, 91, 15625}, {400001, 1000, 6250}};
    auto work = [&](int which) {
        Machine m; Kind kind = which ? LUCAS : FIBONACCI; Result &r = results[which];
        for (unsigned n : numbers[which]) {
            Number a, b; m.sequence(kind, n, a, b); r.all.push_back(m.text(a)); r.all.push_back(m.text(b));
            // their product
            Number x, y; m.multiply(a, b, x, y, PRODUCT); m.drop(y); m.normalize(x); r.all.push_back(m.text(x)); m.drop(x); m.drop(a); m.drop(b);
        }
        r.ripples = m.ripples; r.transforms = m.transforms; r.lengths = m.lengths();
    };
    std::thread one(work, 0), two(work, 1); one.join(); two.join();
    int wrong = 0; uint64_t sum = 14695981039346656037ull;
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < 3; i++) {
            Kind kind = w ? LUCAS : FIBONACCI; unsigned n = numbers[w][i]; std::string *t = &results[w].all[i * 3];
            for (uint64_t p : primes) {
                uint64_t a = mod_sequence(kind, n, p), b = mod_sequence(kind, n + 1, p);
                wrong += mod_text(t[0], p) != a || mod_text(t[1], p) != b || mod_text(t[2], p) != (uint64_t)((Wide)a * b % p);
            }
            for (int k = 0; k < 3; k++) for (char c : t[k]) sum = (sum ^ (unsigned char)c) * 1099511628211ull;
            printf("%c(%u): %zu digits, %s...%s\n", w ? 'L' : 'F', n, t[0].size(), t[0].substr(0, 8).c_str(), t[0].substr(t[0].size() - 8).c_str());
        }
        printf("%ld transforms of %zu lengths, %ld carries\n", results[w].transforms, results[w].lengths, results[w].ripples);
    }
    printf("bignum: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
