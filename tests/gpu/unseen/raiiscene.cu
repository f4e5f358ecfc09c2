// A C++ program that leaves everything to destructors: buffers, streams, events, captures and graphs are objects, errors are exceptions. Jobs fail
// half way (memory that is not there, a launch that wants too much, a check of their own, in the middle of a capture), unwinding gives back what is
// still in use by the stream, and the job is tried anew from its checkpoint. Objects live in static and thread_local storage and in a singleton
// whose destructor runs at exit; exceptions travel between threads.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct CudaError : std::runtime_error {
    cudaError_t code;
    CudaError(cudaError_t c, const char *what) : std::runtime_error(std::string(what) + ": " + cudaGetErrorName(c)), code(c) {}
};
#define TRY(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { cudaGetLastError(); throw CudaError(e_, #x); } } while (0)
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

__host__ __device__ inline uint32_t step(uint32_t v, uint32_t k) { v = (v + k) * 0x9E3779B1u; return v ^ (v >> 13); }
__global__ void advance(uint32_t *p, const uint32_t *noise, uint32_t n, uint32_t k)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = step(p[i], k) ^ noise[(i + k) & 1023];
}
__global__ void spin_add(uint32_t *p, uint32_t n, uint32_t turns)          // takes a while, so that its memory is given back while it runs
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { uint32_t v = p[i]; for (uint32_t t = 0; t < turns; t++) v = v * 1664525u + 1013904223u; p[i] = v; }
}

struct Stream {
    cudaStream_t s = nullptr;
    explicit Stream(unsigned flags = cudaStreamNonBlocking) { TRY(cudaStreamCreateWithFlags(&s, flags)); }
    Stream(Stream &&o) noexcept : s(std::exchange(o.s, nullptr)) {}
    ~Stream() { if (s) cudaStreamDestroy(s); }
};
struct Freer { cudaStream_t s; void operator()(uint32_t *p) const { cudaFreeAsync(p, s); } };
struct PlainFreer { void operator()(uint32_t *p) const { cudaFree(p); } };
struct HostFreer { void operator()(uint32_t *p) const { cudaFreeHost(p); } };
using Async = std::unique_ptr<uint32_t, Freer>;
using Plain = std::shared_ptr<uint32_t>;
using Pinned = std::unique_ptr<uint32_t, HostFreer>;
static Async async_buffer(size_t words, cudaStream_t s) { uint32_t *p; TRY(cudaMallocAsync(&p, words * 4, s)); return Async(p, Freer{s}); }
static Plain plain_buffer(size_t words) { uint32_t *p; TRY(cudaMalloc(&p, words * 4)); return Plain(p, PlainFreer()); }
static Pinned pinned_buffer(size_t words) { uint32_t *p; TRY(cudaMallocHost(&p, words * 4)); return Pinned(p); }

// Made before main() begins, and destroyed after it has ended
struct Noise {
    std::vector<uint32_t> host; uint32_t *device = nullptr;
    Noise() : host(1024)
    {
        for (uint32_t i = 0; i < 1024; i++) host[i] = step(i, 4711);
        CK(cudaMalloc(&device, 4096)); CK(cudaMemcpy(device, host.data(), 4096, cudaMemcpyHostToDevice)); CK(cudaDeviceSynchronize());
    }
    ~Noise() { cudaFree(device); }
};
static Noise noise;
static Stream early(cudaStreamDefault);

// A cache of blocks, made when first asked; its destructor runs at exit, before that of what was made earlier
class Cache {
    std::mutex lock; std::multimap<size_t, uint32_t *> blocks;
public:
    static Cache &get() { static Cache cache; return cache; }
    std::shared_ptr<uint32_t> take(size_t words)
    {
        std::lock_guard<std::mutex> hold(lock);
        auto at = blocks.lower_bound(words); uint32_t *p; size_t size = words;
        if (at != blocks.end() && at->first < words * 2) { p = at->second; size = at->first; blocks.erase(at); } else TRY(cudaMalloc(&p, words * 4));
        return std::shared_ptr<uint32_t>(p, [this, size](uint32_t *q) { std::lock_guard<std::mutex> h(lock); blocks.emplace(size, q); });
    }
    ~Cache() { for (auto &b : blocks) cudaFree(b.second); }
};

struct Local {                                              // what each thread has for itself, until it ends
    Stream stream; Pinned scratch = pinned_buffer(1 << 16); cudaEvent_t done;
    Local() { TRY(cudaEventCreateWithFlags(&done, cudaEventDisableTiming)); }
    ~Local() { cudaEventDestroy(done); }                   // the stream may still be busy
};
static Local &local() { thread_local Local l; return l; }

// A capture that is ended, and whose graph is destroyed, also when an exception goes through it
class Capture {
    cudaStream_t s; cudaGraph_t graph = nullptr; bool open = true;
public:
    explicit Capture(cudaStream_t stream) : s(stream) { TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); }
    void run(int times)
    {
        open = false; TRY(cudaStreamEndCapture(s, &graph));
        cudaGraphExec_t exec; TRY(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < times; i++) TRY(cudaGraphLaunch(exec, s));
        TRY(cudaGraphExecDestroy(exec));                   // while it runs
    }
    ~Capture() { if (open) { cudaStreamEndCapture(s, &graph); cudaGetLastError(); } if (graph) cudaGraphDestroy(graph); }
};

struct Invalid { int stage; };
static std::map<std::string, int> failures; static std::mutex failures_lock;
static void note(const std::string &what) { std::lock_guard<std::mutex> hold(failures_lock); failures[what]++; }

// One stage of a job: `data` is the checkpoint, and is only changed if everything has gone well
static void stage(std::vector<uint32_t> &data, int job, int number, int attempt)
{
    Local &l = local(); uint32_t n = (uint32_t)data.size(); size_t bytes = n * 4; uint32_t blocks = (n + 127) / 128, k = job * 100 + number;
    Async p = async_buffer(n, l.stream.s); std::shared_ptr<uint32_t> waste = Cache::get().take(n + job * 64);
    std::copy(data.begin(), data.end(), l.scratch.get());
    TRY(cudaMemcpyAsync(p.get(), l.scratch.get(), bytes, cudaMemcpyHostToDevice, l.stream.s));
    TRY(cudaMemsetAsync(waste.get(), job, bytes, l.stream.s));
    int trouble = attempt == 0 ? (job + number) % 6 : 5;
    if (trouble == 0) { spin_add<<<blocks, 128, 0, l.stream.s>>>(p.get(), n, 2000); TRY(cudaGetLastError()); throw Invalid{number}; }
    if (trouble == 1) { spin_add<<<blocks, 128, 0, l.stream.s>>>(waste.get(), n, 2000); Plain huge = plain_buffer((size_t)1 << 46); }
    if (trouble == 2) { spin_add<<<blocks, 2048, 0, l.stream.s>>>(p.get(), n, 1); TRY(cudaGetLastError()); }
    if (number % 2) {
        Capture capture(l.stream.s);
        advance<<<blocks, 128, 0, l.stream.s>>>(p.get(), noise.device, n, k);
        if (trouble == 3) throw std::out_of_range("found in a capture");
        if (trouble == 4) { TRY(cudaStreamSynchronize(l.stream.s)); }      // not allowed here: spoils the capture
        capture.run(3);
    } else for (int i = 0; i < 3; i++) advance<<<blocks, 128, 0, l.stream.s>>>(p.get(), noise.device, n, k);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(l.scratch.get(), p.get(), bytes, cudaMemcpyDeviceToHost, l.stream.s));
    TRY(cudaEventRecord(l.done, l.stream.s)); p.reset();
    TRY(cudaEventSynchronize(l.done));
    std::copy(l.scratch.get(), l.scratch.get() + n, data.begin());
}
static std::vector<uint32_t> run_job(int job)
{
    std::vector<uint32_t> data(3000 + job * 1237);
    for (uint32_t i = 0; i < data.size(); i++) data[i] = i * 31 + job;
    for (int number = 0; number < 6; number++)
        for (int attempt = 0;; attempt++) {
            try { stage(data, job, number, attempt); break; }
            catch (const CudaError &e) { note(cudaGetErrorName(e.code)); }
            catch (const Invalid &) { note("the program's own"); }
            catch (const std::exception &e) { note(e.what()); }
            // scratch may still be read by the failed attempt's copy
            TRY(cudaStreamSynchronize(local().stream.s));
        }
    // gives its result by a throw
    if (job % 8 == 7) { spin_add<<<4, 128, 0, local().stream.s>>>(Cache::get().take(512).get(), 512, 100000); throw data; }
    return data;
}
static std::vector<uint32_t> model(int job)
{
    std::vector<uint32_t> data(3000 + job * 1237);
    for (uint32_t i = 0; i < data.size(); i++) data[i] = i * 31 + job;
    for (int number = 0; number < 6; number++) for (int r = 0; r < 3; r++) { uint32_t k = job * 100 + number;
        for (uint32_t i = 0; i < data.size(); i++) data[i] = step(data[i], k) ^ noise.host[(i + k) & 1023]; }
    return data;
}

int main()
{
    int wrong = 0; unsigned long long checksum = 14695981039346656037ull;
    auto take = [&](int job, const std::vector<uint32_t> &got) {
        if (got != model(job)) { wrong++; printf("job %d differs\n", job); }
        for (uint32_t v : got) checksum = (checksum ^ v) * 1099511628211ull;
    };
    try {
        std::vector<uint32_t> seen(1024);                   // what was made before main() is there
        CK(cudaMemcpyAsync(seen.data(), noise.device, 4096, cudaMemcpyDeviceToHost, early.s)); CK(cudaStreamSynchronize(early.s));
        wrong += seen != noise.host;
        for (int wave = 0; wave < 4; wave++) {              // four waves of threads, each with its own streams and memory that die with it
            std::vector<std::future<std::vector<uint32_t>>> answers;
            for (int t = 0; t < 4; t++) answers.push_back(std::async(std::launch::async, run_job, wave * 4 + t));
            for (int t = 0; t < 4; t++) {
                try { take(wave * 4 + t, answers[t].get()); }
                catch (const std::vector<uint32_t> &thrown) { note("a result thrown"); take(wave * 4 + t, thrown); }
            }
        }
        std::exception_ptr carried;                         // an error of another thread's, rethrown here
        std::thread([&] { try { plain_buffer((size_t)1 << 46); } catch (...) { carried = std::current_exception(); } }).join();
        try { std::rethrow_exception(carried); } catch (const CudaError &e) { note(std::string("carried ") + cudaGetErrorName(e.code)); }
        std::vector<Plain> growing;                         // shared by two owners; the vector moves them as it grows
        for (int i = 0; i < 20; i++) { growing.push_back(plain_buffer(1000 + i)); TRY(cudaMemset(growing.back().get(), i + 1, 4000)); }
        std::vector<Plain> half(growing.begin() + 10, growing.end()); growing.clear();
        for (size_t i = 0; i < half.size(); i++) { uint32_t v; TRY(cudaMemcpy(&v, half[i].get() + 999, 4, cudaMemcpyDeviceToHost));
            wrong += v != 0x01010101u * (i + 11); checksum = (checksum ^ v) * 1099511628211ull; }
        Plain last = Cache::get().take(1 << 16);            // still being worked on when the program ends
        TRY(cudaMemset(last.get(), 0, 4 << 16)); spin_add<<<512, 128, 0, early.s>>>(last.get(), 1 << 16, 200000); TRY(cudaGetLastError());
    } catch (const std::exception &e) { fprintf(stderr, "not expected: %s\n", e.what()); exit(2); }
    for (auto &f : failures) printf("  %2d x %s\n", f.second, f.first.c_str());
    printf("raiiscene: checksum %016llx wrong %d\n", checksum, wrong);
    return wrong != 0;
}
