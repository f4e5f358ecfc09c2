// nvcc: -Xcompiler -pthread
// One thread and an event loop (epoll): the GPU announces itself by eventfds that host functions write, or by a signal that is read from a signalfd;
// timers start the jobs; a filter in another process (cat) reads inputs straight from pinned memory and writes them into another piece of it, byte
// by byte as the pipe takes them. Meanwhile two interval timers interrupt whatever runs, CUDA's calls too, and a watchdog thread sleeps. What is
// slow to come decides only when, never what, is done: each lane's job depends on its last result.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define OS(x) do { if ((x) < 0) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(2); } } while (0)

constexpr int LANES = 5, JOBS = 14, N = 9000;
extern char **environ;

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x21f0aaadu; v ^= v >> 15; v *= 0x735a2d97u; return v ^ (v >> 15); }
__global__ void grind(uint32_t *p, int n, uint32_t turns, uint32_t salt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { uint32_t v = p[i]; for (uint32_t t = 0; t < turns; t++) v = mix(v + salt) + i; p[i] = v; }
}
__global__ void digest(uint32_t *out, const uint32_t *p, int n)          // one block; out: the sum, the minimum, the xor, and a mark of being there
{
    __shared__ uint32_t s[256], m[256], x[256]; uint32_t a = 0, b = ~0u, c = 0;
    for (int i = threadIdx.x; i < n; i += 256) { a += p[i]; b = min(b, p[i]); c ^= p[i] * (2u * i + 1); }
    s[threadIdx.x] = a; m[threadIdx.x] = b; x[threadIdx.x] = c; __syncthreads();
    for (int d = 128; d; d /= 2) {
        int t = threadIdx.x;
        if (t < d) { s[t] += s[t + d]; m[t] = min(m[t], m[t + d]); x[t] ^= x[t + d]; }
        __syncthreads();
    }
    if (threadIdx.x == 0) { out[0] = s[0]; out[1] = m[0]; out[2] = x[0]; out[3] = 0x600D; }
}

static volatile sig_atomic_t alarms, profiles;
static void on_alarm(int) { alarms = alarms + 1; }
static void on_profile(int) { profiles = profiles + 1; }

struct Lane {
    int id, fd, job = 0, size = 0; uint32_t seed; cudaStream_t stream; cudaEvent_t done;
    uint32_t *raw, *in, *out, *device, *answer;             // pinned: before the filter, behind it, the result; on the device
    size_t sent = 0, got = 0; std::atomic<bool> told{false};
};
static Lane lanes[LANES];
static void CUDART_CB ring_fd(void *p) { uint64_t one = 1; ssize_t r = write(((Lane *)p)->fd, &one, 8); (void)r; }
static void CUDART_CB ring_signal(void *p) { ((Lane *)p)->told.store(true); kill(getpid(), SIGUSR1); }

static int wrong; static uint64_t sums[LANES];
static std::deque<Lane *> to_filter, from_filter;           // in the order in which the filter gets and gives
static int to_cat, from_cat, epoll_fd, finished;

static uint32_t turns_of(const Lane &l) { return 20 + (l.seed >> 5) % 400; }
static void begin(Lane &l)                                  // the timer says so
{
    l.size = 3000 + (int)(l.seed % (N - 3000)); l.sent = l.got = 0;
    for (int i = 0; i < l.size; i++) l.raw[i] = mix(l.seed + i);
    to_filter.push_back(&l); from_filter.push_back(&l);
    epoll_event e = {}; e.events = EPOLLOUT; e.data.fd = to_cat; OS(epoll_ctl(epoll_fd, EPOLL_CTL_MOD, to_cat, &e));
}
static void submit(Lane &l)                                 // the filter has given everything back
{
    uint32_t *d = l.device; int n = l.size;
    memset(l.answer, 0, 16);
    if (l.job % 4 == 3) {                                   // in two halves
        int h = n / 2;
        CK(cudaMemcpyAsync(d, l.in, h * 4, cudaMemcpyHostToDevice, l.stream)); CK(cudaMemcpyAsync(d + h, l.in + h, (n - h) * 4,
            cudaMemcpyHostToDevice, l.stream));
    } else CK(cudaMemcpyAsync(d, l.in, n * 4, cudaMemcpyHostToDevice, l.stream));
    grind<<<(n + 127) / 128, 128, 0, l.stream>>>(d, n, turns_of(l), l.seed); CK(cudaGetLastError());
    digest<<<1, 256, 0, l.stream>>>(d + N, d, n); CK(cudaGetLastError());
    CK(cudaMemcpyAsync(l.out, d, n * 4, cudaMemcpyDeviceToHost, l.stream));
    CK(cudaMemcpyAsync(l.answer, d + N, 16, cudaMemcpyDeviceToHost, l.stream));
    CK(cudaEventRecord(l.done, l.stream));
    CK(cudaLaunchHostFunc(l.stream, (l.job + l.id) % 3 == 1 ? ring_signal : ring_fd, &l));
}
static void finish(Lane &l)                                 // the GPU has told
{
    uint32_t s = 0, m = ~0u, x = 0, t = turns_of(l); bool same = true;
    for (int i = 0; i < l.size; i++) {
        uint32_t v = mix(l.seed + i); if (i % 7 == 0 || i < 300) { uint32_t w = v; for (uint32_t k = 0; k < t; k++) w = mix(w + l.seed) + i;
            same = same && w == l.out[i]; }
        v = l.out[i]; s += v; m = std::min(m, v); x ^= v * (2u * i + 1);
    }
    if (!same || l.answer[0] != s || l.answer[1] != m || l.answer[2] != x || l.answer[3] != 0x600D) { wrong++;
        fprintf(stderr, "lane %d job %d differs\n", l.id, l.job); }
    wrong += cudaEventQuery(l.done) != cudaSuccess;
    sums[l.id] = (sums[l.id] ^ s ^ (uint64_t)x << 32) * 1099511628211ull;
    memset(l.out, 0xCD, l.size * 4); memset(l.in, 0xAB, l.size * 4);
    l.seed = x ^ s * 3; l.job++;
    if (l.job == JOBS) finished++;
}

int main()
{
    // Before CUDA is there: signals that are read from a descriptor are blocked in all its threads too
    sigset_t usr; sigemptyset(&usr); sigaddset(&usr, SIGUSR1); OS(sigprocmask(SIG_BLOCK, &usr, nullptr)); signal(SIGPIPE, SIG_IGN);
    struct sigaction a = {}; a.sa_flags = SA_RESTART; a.sa_handler = on_alarm; OS(sigaction(SIGALRM, &a, nullptr)); a.sa_handler = on_profile;
    OS(sigaction(SIGPROF, &a, nullptr));
    itimerval every = {{0, 1500}, {0, 1500}}; OS(setitimer(ITIMER_REAL, &every, nullptr)); every = {{0, 2000}, {0, 2000}};
    OS(setitimer(ITIMER_PROF, &every, nullptr));
    CK(cudaSetDevice(0));

    int down[2], up[2]; OS(pipe2(down, O_CLOEXEC)); OS(pipe2(up, O_CLOEXEC));
    posix_spawn_file_actions_t actions; posix_spawn_file_actions_init(&actions); posix_spawn_file_actions_adddup2(&actions, down[0], 0);
    posix_spawn_file_actions_adddup2(&actions, up[1], 1);
    int usr_fd, timer_fd; pid_t child; const char *argv[] = {"cat", nullptr};
    for (auto &l : lanes) {                                 // the device is open when the filter is spawned
        l.id = &l - lanes; l.seed = mix(l.id + 1); l.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); OS(l.fd);
        CK(cudaStreamCreateWithPriority(&l.stream, cudaStreamNonBlocking, -(l.id % 3)));
        CK(cudaEventCreateWithFlags(&l.done, cudaEventDisableTiming));
        CK(cudaMallocHost(&l.raw, N * 4)); CK(cudaHostAlloc(&l.in, N * 4, l.id % 2 ? cudaHostAllocDefault : cudaHostAllocPortable));
        CK(cudaMallocHost(&l.out, N * 4));
        CK(cudaMallocHost(&l.answer, 16)); CK(cudaMalloc(&l.device, (N + 4) * 4));
    }
    if (posix_spawnp(&child, "cat", &actions, nullptr, (char **)argv, environ)) { fprintf(stderr, "no cat\n"); return 2; }
    close(down[0]); close(up[1]); to_cat = down[1]; from_cat = up[0];
    OS(fcntl(to_cat, F_SETFL, O_NONBLOCK)); OS(fcntl(from_cat, F_SETFL, O_NONBLOCK));
    usr_fd = signalfd(-1, &usr, SFD_NONBLOCK | SFD_CLOEXEC); OS(usr_fd); timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    OS(timer_fd);
    itimerspec tick = {{0, 700000}, {0, 700000}}; OS(timerfd_settime(timer_fd, 0, &tick, nullptr));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC); OS(epoll_fd);
    auto watch = [&](int fd, uint32_t what) { epoll_event e = {}; e.events = what; e.data.fd = fd; OS(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e)); };
    watch(to_cat, 0); watch(from_cat, EPOLLIN); watch(usr_fd, EPOLLIN); watch(timer_fd, EPOLLIN); for (auto &l : lanes) watch(l.fd, EPOLLIN);

    int begun[LANES] = {}, turn = 0, interrupted = 0;
    while (finished < LANES) {
        epoll_event events[16]; int n = epoll_wait(epoll_fd, events, 16, 10000);
        if (n < 0 && errno == EINTR) { interrupted++; continue; }
        OS(n); if (n == 0) { fprintf(stderr, "nothing happens\n"); return 2; }
        for (int k = 0; k < n; k++) {
            int fd = events[k].data.fd;
            if (fd == timer_fd) {                           // the next lane that is idle begins
                uint64_t times; if (read(fd, &times, 8) != 8) continue;
                for (int i = 0; i < LANES; i++) {
                    Lane &l = lanes[turn++ % LANES];
                    if (begun[l.id] == l.job && l.job < JOBS) { begun[l.id]++; begin(l); break; }
                }
            } else if (fd == to_cat) {
                while (!to_filter.empty()) {
                    Lane &l = *to_filter.front(); size_t total = l.size * 4ul, piece = std::min<size_t>(total - l.sent, 5001);
                    ssize_t w = write(fd, (char *)l.raw + l.sent, piece); if (w < 0 && (errno == EAGAIN || errno == EINTR)) break; OS(w);
                    l.sent += w; if (l.sent == total) { memset(l.raw, 0x77, total); to_filter.pop_front(); }
                }
                if (to_filter.empty()) { epoll_event e = {}; e.data.fd = fd; OS(epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &e)); }
            } else if (fd == from_cat) {
                while (!from_filter.empty()) {
                    Lane &l = *from_filter.front(); size_t total = l.size * 4ul;
                    ssize_t r = read(fd, (char *)l.in + l.got, total - l.got); if (r < 0 && (errno == EAGAIN || errno == EINTR)) break; OS(r);
                    if (r == 0) { fprintf(stderr, "the filter has gone\n"); return 2; }
                    l.got += r; if (l.got == total) { from_filter.pop_front(); submit(l); }
                }
            } else if (fd == usr_fd) {                      // signals may have melted into one: look at all
                signalfd_siginfo info; while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {}
                for (auto &l : lanes) if (l.told.exchange(false)) finish(l);
            } else for (auto &l : lanes) if (l.fd == fd) { uint64_t times; if (read(fd, &times, 8) == 8) finish(l); }
        }
    }
    close(to_cat); int status = -1; while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    wrong += status != 0; wrong += alarms == 0;             // how many there were nobody knows
    for (auto &l : lanes) {
        CK(cudaStreamDestroy(l.stream)); CK(cudaEventDestroy(l.done)); CK(cudaFree(l.device)); close(l.fd);
        for (auto p : {l.raw, l.in, l.out, l.answer}) CK(cudaFreeHost(p));
    }
    every = {}; OS(setitimer(ITIMER_REAL, &every, nullptr)); OS(setitimer(ITIMER_PROF, &every, nullptr));
    uint64_t sum = 14695981039346656037ull; for (uint64_t s : sums) sum = (sum ^ s) * 1099511628211ull;
    printf("eventloop: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
