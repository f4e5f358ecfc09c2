// Memory that guards itself: staging slots are sealed (mprotect) while the GPU has them, so that a stray touch of the CPU would be caught; a
// table that is uploaded in the pages that a write barrier (SIGSEGV) found changed; and an incremental checkpoint of registered memory, whose
// written pages the program has the kernel tell (userfaultfd), for memory tracked before it is registered and after kernels have used it.
#include <cuda_runtime.h>
#include <linux/userfaultfd.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define SYS(x) do { if ((x) < 0) { perror(#x); exit(2); } } while (0)

constexpr size_t PAGE = 4096, SLOTS = 4, SLOT_PAGES = 6, WORDS = SLOT_PAGES * PAGE / 4, ROUNDS = 48, TABLE_PAGES = 40, TRACKED_PAGES = 44;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__global__ void step(const uint32_t *in, uint32_t *state, uint32_t *out, uint32_t n, uint32_t round) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = state[i] = state[i] * 3 + mix(in[i] + round);
}
__global__ void sum_pages(const uint32_t *table, unsigned long long *sums, uint32_t pages) {
    uint32_t p = blockIdx.x;
    if (p >= pages) return;
    for (uint32_t i = threadIdx.x; i < PAGE / 4; i += blockDim.x) atomicAdd(sums + p, (unsigned long long)mix(table[p * (PAGE / 4) + i] + i));
}

static int wrong;
static uint64_t checksum = 14695981039346656037ull;
static void digest(uint64_t v) { checksum = (checksum ^ v) * 1099511628211ull; }

// What the handler knows: one area with guards, one with a barrier.
static char *sealed, *table; static volatile sig_atomic_t stray, caught; static volatile unsigned char dirty[TABLE_PAGES];
static void on_fault(int, siginfo_t *info, void *) {
    char *at = (char *)info->si_addr;
    if (sealed && at >= sealed && at < sealed + SLOTS * 2 * SLOT_PAGES * PAGE) {
        stray = stray + 1;
        mprotect((char *)((uintptr_t)at & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
    } else if (table && at >= table && at < table + TABLE_PAGES * PAGE) {
        size_t page = (at - table) / PAGE;
        caught = caught + 1; dirty[page] = 1;
        mprotect(table + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
    } else {
        signal(SIGSEGV, SIG_DFL);                          // not ours
    }
}
static char *fresh(size_t pages) {
    char *p = (char *)mmap(nullptr, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) { perror("mmap"); exit(2); }
    madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
    memset(p, 0, pages * PAGE);
    return p;
}

static void slots() {                                       // [slot][in, out]
    const size_t bytes = SLOT_PAGES * PAGE;
    sealed = fresh(SLOTS * 2 * SLOT_PAGES);
    CK(cudaHostRegister(sealed, SLOTS * 2 * bytes, cudaHostRegisterMapped));
    uint32_t *dev, *state, *near_in, *near_out; cudaStream_t stream; cudaEvent_t done[SLOTS];
    CK(cudaHostGetDevicePointer(&dev, sealed, 0));
    CK(cudaMalloc(&state, bytes)); CK(cudaMalloc(&near_in, bytes)); CK(cudaMalloc(&near_out, bytes)); CK(cudaMemset(state, 0, bytes));
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto &e : done) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CK(cudaDeviceSynchronize());
    std::vector<uint32_t> model(WORDS, 0); std::vector<std::vector<uint32_t>> expected(SLOTS);
    auto in = [&](size_t s) { return (uint32_t *)(sealed + s * 2 * bytes); };
    auto out = [&](size_t s) { return (uint32_t *)(sealed + s * 2 * bytes + bytes); };
    auto take_back = [&](size_t s) {
        CK(cudaEventSynchronize(done[s]));
        SYS(mprotect(in(s), 2 * bytes, PROT_READ | PROT_WRITE));
        wrong += memcmp(out(s), expected[s].data(), expected[s].size() * 4) != 0;
        for (size_t i = 0; i < expected[s].size(); i += 5) digest(out(s)[i]);
    };
    for (uint32_t r = 0; r < ROUNDS; r++) {
        size_t s = r % SLOTS; uint32_t n = WORDS - r % 23, *in_dev = dev + s * 2 * WORDS, *out_dev = in_dev + WORDS;
        if (r >= SLOTS) take_back(s);
        for (uint32_t i = r % 3; i < n; i += 1 + r % 3) in(s)[i] = mix(i * 31 + r) ^ (r >= SLOTS ? out(s)[i] : 0);
        for (uint32_t i = 0; i < n; i++) model[i] = model[i] * 3 + mix(in(s)[i] + r);
        expected[s].assign(model.begin(), model.begin() + n);
        if (r % 2) {                                        // by copies: the CPU may still read what goes up, and do nothing with what comes
            SYS(mprotect(in(s), bytes, PROT_READ)); SYS(mprotect(out(s), bytes, PROT_NONE));
            CK(cudaMemcpyAsync(near_in, in(s), n * 4, cudaMemcpyHostToDevice, stream));
            step<<<8, 128, 0, stream>>>(near_in, state, near_out, n, r);
            CK(cudaMemcpyAsync(out(s), near_out, n * 4, cudaMemcpyDeviceToHost, stream));
            SYS(mprotect(in(s), bytes, PROT_NONE));
        } else {                                            // by mapped pointers
            SYS(mprotect(in(s), 2 * bytes, PROT_NONE));
            step<<<8, 128, 0, stream>>>(in_dev, state, out_dev, n, r);
        }
        CK(cudaGetLastError());
        CK(cudaEventRecord(done[s], stream));
    }
    for (size_t s = 0; s < SLOTS; s++) take_back(s);
    CK(cudaStreamSynchronize(stream));
    printf("sealed slots: %d stray touches\n", (int)stray);
    CK(cudaHostUnregister(sealed)); munmap(sealed, SLOTS * 2 * bytes); sealed = nullptr;
    CK(cudaFree(state)); CK(cudaFree(near_in)); CK(cudaFree(near_out)); CK(cudaStreamDestroy(stream));
    for (auto &e : done) CK(cudaEventDestroy(e));
}

static uint64_t sum_of(const uint32_t *page) { uint64_t s = 0; for (uint32_t i = 0; i < PAGE / 4; i++) s += mix(page[i] + i); return s; }

static void barrier() {
    char *near; unsigned long long *sums, got[TABLE_PAGES]; int uploaded = 0; cudaStream_t stream;
    table = fresh(TABLE_PAGES);
    CK(cudaHostRegister(table, TABLE_PAGES * PAGE, cudaHostRegisterMapped));
    CK(cudaMalloc(&near, TABLE_PAGES * PAGE)); CK(cudaMalloc(&sums, sizeof got)); CK(cudaMemset(near, 0, TABLE_PAGES * PAGE));
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); CK(cudaDeviceSynchronize());
    uint32_t *mapped; CK(cudaHostGetDevicePointer(&mapped, table, 0));
    for (uint32_t r = 0; r < 30; r++) {
        SYS(mprotect(table, TABLE_PAGES * PAGE, PROT_READ));
        for (uint32_t w = 0; w < 9 + r % 4; w++) {          // the barrier tells where
            uint32_t at = mix(r * 100 + w) % (TABLE_PAGES * PAGE / 4);
            ((volatile uint32_t *)table)[at] = mix(at + r);
        }
        CK(cudaMemsetAsync(sums, 0, sizeof got, stream));
        for (size_t p = 0; p < TABLE_PAGES; p++)
            if (dirty[p]) { dirty[p] = 0; uploaded++; CK(cudaMemcpyAsync(near + p * PAGE, table + p * PAGE, PAGE, cudaMemcpyHostToDevice, stream)); }
        sum_pages<<<TABLE_PAGES, 128, 0, stream>>>(r % 3 ? (uint32_t *)near : mapped, sums, TABLE_PAGES);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(got, sums, sizeof got, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        for (size_t p = 0; p < TABLE_PAGES; p++) { wrong += got[p] != sum_of((uint32_t *)(table + p * PAGE)); digest(got[p]); }
    }
    printf("write barrier: %d pages, %d uploads\n", (int)caught, uploaded);
    CK(cudaHostUnregister(table)); munmap(table, TABLE_PAGES * PAGE); table = nullptr;
    CK(cudaFree(near)); CK(cudaFree(sums)); CK(cudaStreamDestroy(stream));
}

// The program's own tracking of writes; the structures and numbers stand here because older headers lack them.
struct Region { uint64_t start, end, categories; };
struct Scan { uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, returned; };
static int tracker = -1, pagemap = -1;
static bool begin_tracking() {
    tracker = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uffdio_api api = {}; api.api = UFFD_API; api.features = (1ull << 13) | (1ull << 15);     // WP_UNPOPULATED, WP_ASYNC
    return tracker >= 0 && pagemap >= 0 && ioctl(tracker, UFFDIO_API, &api) == 0;
}
static bool track(char *p, size_t bytes) {
    uffdio_register r = {}; r.range.start = (uint64_t)p; r.range.len = bytes; r.mode = UFFDIO_REGISTER_MODE_WP;
    uffdio_writeprotect w = {}; w.range = r.range; w.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    return ioctl(tracker, UFFDIO_REGISTER, &r) == 0 && ioctl(tracker, UFFDIO_WRITEPROTECT, &w) == 0;
}
static int written(char *p, size_t bytes, std::vector<size_t> &pages) {         // and protected again
    Region found[TRACKED_PAGES]; Scan s = {};
    s.size = sizeof s; s.flags = 3; s.start = (uint64_t)p; s.end = s.start + bytes; s.vec = (uint64_t)found; s.vec_len = TRACKED_PAGES;
    s.mask = s.returned = 2;
    long n = ioctl(pagemap, _IOWR('f', 16, Scan), &s);
    pages.clear();
    for (long i = 0; i < n; i++) for (uint64_t at = found[i].start; at < found[i].end; at += PAGE) pages.push_back((at - (uint64_t)p) / PAGE);
    return n < 0 ? -1 : (int)pages.size();
}

static void checkpoint(const char *name, bool tracked_first) {
    const size_t bytes = TRACKED_PAGES * PAGE; char *live = fresh(TRACKED_PAGES); std::vector<char> saved(bytes, 0); std::vector<size_t> pages;
    uint32_t *mapped; unsigned long long *sums, got[TRACKED_PAGES]; cudaStream_t stream; bool tracks = false; int found = 0, missed = 0;
    if (tracked_first) tracks = track(live, bytes);
    CK(cudaHostRegister(live, bytes, cudaHostRegisterMapped)); CK(cudaHostGetDevicePointer(&mapped, live, 0));
    CK(cudaMalloc(&sums, sizeof got)); CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (uint32_t r = 0; r < 12; r++) {
        if (r == 3 && !tracked_first) tracks = track(live, bytes);              // kernels and copies have used it by now
        if (r == 3 && tracks) { written(live, bytes, pages); memcpy(saved.data(), live, bytes); }
        for (uint32_t w = 0; w < 5 + r; w++) {
            uint32_t at = mix(r * 50 + w + 7) % (bytes / 4);
            ((uint32_t *)live)[at] += mix(at ^ r);
        }
        CK(cudaMemsetAsync(sums, 0, sizeof got, stream));
        sum_pages<<<TRACKED_PAGES, 128, 0, stream>>>(mapped, sums, TRACKED_PAGES);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(got, sums, sizeof got, cudaMemcpyDeviceToHost, stream)); CK(cudaStreamSynchronize(stream));
        for (size_t p = 0; p < TRACKED_PAGES; p++) { wrong += got[p] != sum_of((uint32_t *)(live + p * PAGE)); digest(got[p]); }
        if (r >= 3 && tracks) {                                                 // the checkpoint takes what was written
            found += written(live, bytes, pages);
            for (size_t p : pages) memcpy(saved.data() + p * PAGE, live + p * PAGE, PAGE);
            missed += memcmp(saved.data(), live, bytes) != 0;
        }
    }
    if (tracks) printf("%s: %d pages written, %d checkpoints incomplete\n", name, found, missed);
    else printf("skipped: %s\n", name);
    CK(cudaHostUnregister(live)); munmap(live, bytes); CK(cudaFree(sums)); CK(cudaStreamDestroy(stream));
}

int main() {
    struct sigaction action = {}; action.sa_sigaction = on_fault; action.sa_flags = SA_SIGINFO | SA_RESTART;
    CK(cudaSetDevice(0)); CK(cudaFree(nullptr));
    SYS(sigaction(SIGSEGV, &action, nullptr));
    slots();
    barrier();
    if (begin_tracking()) { checkpoint("tracked, then registered", true); checkpoint("registered, then tracked", false); }
    else printf("skipped: tracking of writes\n");
    printf("sealed: checksum %016llx wrong %d\n", (unsigned long long)checksum, wrong);
    return wrong != 0;
}
