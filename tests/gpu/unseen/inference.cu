// nvcc: --default-stream per-thread
// An "inference server": one thread per model (its default stream is its own), a batching thread that packs the requests of
// two client threads, weights in pinned memory that are paged in layer by layer, request buffers from malloc that are
// registered for a while and unregistered when others still run, streams of high priority for small requests.
#include <cuda_runtime.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>
#include <atomic>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int MODELS = 3, LAYERS = 4, WIDTH = 128, BATCH = 16, REQUESTS = 120, CLIENTS = 2;

// Integers throughout: exact on both sides.
__global__ void layer(const int8_t *weights, const int32_t *bias, const int8_t *in, int8_t *out, int rows, int shift) {
    __shared__ int8_t row[WIDTH];
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        row[threadIdx.x] = in[r * WIDTH + threadIdx.x];
        __syncthreads();
        int32_t s = bias[threadIdx.x];
        for (int k = 0; k < WIDTH; k++) s += row[k] * weights[k * WIDTH + threadIdx.x];
        s >>= shift;
        out[r * WIDTH + threadIdx.x] = (int8_t)max(0, min(127, s));
        __syncthreads();
    }
}
__global__ void argmax(const int8_t *in, int32_t *out, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int best = 0;
    for (int k = 1; k < WIDTH; k++) if (in[r * WIDTH + k] > in[r * WIDTH + best]) best = k;
    out[r] = best * 256 + in[r * WIDTH + best];
}

struct Request {
    int id, model, rows;
    int8_t *input; size_t bytes;        // malloc, registered by the client
    std::vector<int32_t> answer;
    bool urgent, done = false;
};
struct Queue {
    std::mutex m; std::condition_variable cv; std::deque<std::vector<Request *>> batches; bool closed = false;
    void push(std::vector<Request *> b) { std::lock_guard<std::mutex> l(m); batches.push_back(std::move(b)); cv.notify_one(); }
    bool pop(std::vector<Request *> &b) {
        std::unique_lock<std::mutex> l(m);
        cv.wait(l, [&] { return closed || !batches.empty(); });
        if (batches.empty()) return false;
        b = std::move(batches.front()); batches.pop_front();
        return true;
    }
    void close() { std::lock_guard<std::mutex> l(m); closed = true; cv.notify_all(); }
};
static Queue incoming, models[MODELS];
static std::mutex done_mutex; static std::condition_variable done_cv;
static std::atomic<int> wrong{0};
static uint64_t sums[CLIENTS];
static int8_t *weights[MODELS];         // pinned
static int32_t *biases[MODELS];         // pinned, write combined on one model: read by the CPU from these copies
static std::vector<int32_t> bias_copies[MODELS];

static int shift_of(int model, int l) { return 6 + (model + l) % 3; }

static void model_thread(int id) {
    CK(cudaSetDevice(0));
    int8_t *w[2], *act[2], *urgent_act[2]; int32_t *b[2], *result, *urgent_result, *staged;
    cudaStream_t pages, urgent; cudaEvent_t loaded[2], used[2], finished;
    int least, greatest; CK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CK(cudaStreamCreateWithPriority(&pages, cudaStreamNonBlocking, least));
    CK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
    for (int i = 0; i < 2; i++) {
        CK(cudaMalloc(&w[i], WIDTH * WIDTH)); CK(cudaMalloc(&b[i], WIDTH * 4));
        CK(cudaMalloc(&act[i], BATCH * 8 * WIDTH)); CK(cudaMalloc(&urgent_act[i], 8 * WIDTH));
        CK(cudaEventCreateWithFlags(&loaded[i], cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&used[i], cudaEventDisableTiming));
    }
    CK(cudaEventCreateWithFlags(&finished, cudaEventDisableTiming | cudaEventBlockingSync));
    CK(cudaMalloc(&result, BATCH * 8 * 4)); CK(cudaMalloc(&urgent_result, 8 * 4)); CK(cudaMallocHost(&staged, BATCH * 8 * 4));
    // All layers for urgent requests stay resident.
    int8_t *resident; int32_t *resident_bias;
    CK(cudaMalloc(&resident, LAYERS * WIDTH * WIDTH)); CK(cudaMalloc(&resident_bias, LAYERS * WIDTH * 4));
    CK(cudaMemcpyAsync(resident, weights[id], LAYERS * WIDTH * WIDTH, cudaMemcpyHostToDevice, urgent));
    CK(cudaMemcpyAsync(resident_bias, biases[id], LAYERS * WIDTH * 4, cudaMemcpyHostToDevice, urgent));
    std::vector<Request *> batch;
    while (models[id].pop(batch)) {
        int at = 0;
        if (batch.size() == 1 && batch[0]->urgent) {
            Request *r = batch[0];
            CK(cudaMemcpyAsync(urgent_act[0], r->input, r->bytes, cudaMemcpyHostToDevice, urgent));
            for (int l = 0; l < LAYERS; l++)
                layer<<<r->rows, WIDTH, 0, urgent>>>(resident + l * WIDTH * WIDTH, resident_bias + l * WIDTH, urgent_act[l & 1], urgent_act[~l & 1], r->rows, shift_of(id, l));
            argmax<<<1, 32, 0, urgent>>>(urgent_act[LAYERS & 1], urgent_result, r->rows);
            CK(cudaMemcpyAsync(staged, urgent_result, r->rows * 4, cudaMemcpyDeviceToHost, urgent));
            CK(cudaGetLastError());
            CK(cudaStreamSynchronize(urgent));
        } else {
            int rows = 0;
            for (Request *r : batch) {      // straight from the clients' registered buffers, in the default stream of this thread
                CK(cudaMemcpyAsync(act[0] + rows * WIDTH, r->input, r->bytes, cudaMemcpyHostToDevice));
                rows += r->rows;
            }
            for (int l = 0; l < LAYERS; l++) {      // the next layer's weights come while this one works
                if (l >= 2) CK(cudaStreamWaitEvent(pages, used[l & 1], 0));
                CK(cudaMemcpyAsync(w[l & 1], weights[id] + l * WIDTH * WIDTH, WIDTH * WIDTH, cudaMemcpyHostToDevice, pages));
                CK(cudaMemcpyAsync(b[l & 1], biases[id] + l * WIDTH, WIDTH * 4, cudaMemcpyHostToDevice, pages));
                CK(cudaEventRecord(loaded[l & 1], pages));
                CK(cudaStreamWaitEvent(cudaStreamPerThread, loaded[l & 1], 0));
                layer<<<(rows + 1) / 2, WIDTH>>>(w[l & 1], b[l & 1], act[l & 1], act[~l & 1], rows, shift_of(id, l));
                CK(cudaEventRecord(used[l & 1]));
            }
            argmax<<<(rows + 31) / 32, 32>>>(act[LAYERS & 1], result, rows);
            CK(cudaGetLastError());
            CK(cudaMemcpyAsync(staged, result, rows * 4, cudaMemcpyDeviceToHost, 0));
            CK(cudaEventRecord(finished, 0));
            CK(cudaEventSynchronize(finished));
        }
        std::lock_guard<std::mutex> l(done_mutex);
        for (Request *r : batch) { r->answer.assign(staged + at, staged + at + r->rows); at += r->rows; r->done = true; }
        done_cv.notify_all();
    }
    CK(cudaStreamSynchronize(0)); CK(cudaStreamSynchronize(pages));
    for (int i = 0; i < 2; i++) {
        CK(cudaFree(w[i])); CK(cudaFree(b[i])); CK(cudaFree(act[i])); CK(cudaFree(urgent_act[i])); CK(cudaEventDestroy(loaded[i])); CK(cudaEventDestroy(used[i]));
    }
    CK(cudaFree(result)); CK(cudaFree(urgent_result)); CK(cudaFreeHost(staged)); CK(cudaFree(resident)); CK(cudaFree(resident_bias));
    CK(cudaEventDestroy(finished)); CK(cudaStreamDestroy(pages)); CK(cudaStreamDestroy(urgent));
}

// Packs what comes: batches differ from run to run, the answers do not.
static void batcher() {
    std::vector<Request *> open[MODELS], one; int rows[MODELS] = {};
    auto flush = [&](int m) { if (!open[m].empty()) models[m].push(std::move(open[m])); open[m].clear(); rows[m] = 0; };
    while (incoming.pop(one)) {
        bool last = false;
        for (Request *r : one) {
            if (!r) { last = true; continue; }
            if (r->urgent) { models[r->model].push({r}); continue; }
            if ((int)open[r->model].size() == BATCH) flush(r->model);
            open[r->model].push_back(r); rows[r->model] += r->rows;
        }
        if (last) for (int m = 0; m < MODELS; m++) flush(m);        // a client waits
    }
    for (int m = 0; m < MODELS; m++) { flush(m); models[m].close(); }
}

static void reference(const Request &r, std::vector<int32_t> &out) {
    std::vector<int8_t> in(r.input, r.input + r.bytes), next(r.bytes);
    for (int l = 0; l < LAYERS; l++, in.swap(next))
        for (int row = 0; row < r.rows; row++) {
            int32_t acc[WIDTH]; memcpy(acc, &bias_copies[r.model][l * WIDTH], sizeof acc);
            for (int k = 0; k < WIDTH; k++) { int32_t v = in[row * WIDTH + k]; const int8_t *w = weights[r.model] + (l * WIDTH + k) * WIDTH; if (v) for (int c = 0; c < WIDTH; c++) acc[c] += v * w[c]; }
            for (int c = 0; c < WIDTH; c++) { int32_t s = acc[c] >> shift_of(r.model, l); next[row * WIDTH + c] = s < 0 ? 0 : s > 127 ? 127 : s; }
        }
    out.clear();
    for (int row = 0; row < r.rows; row++) { int best = 0; for (int k = 1; k < WIDTH; k++) if (in[row * WIDTH + k] > in[row * WIDTH + best]) best = k; out.push_back(best * 256 + in[row * WIDTH + best]); }
}

static void client(int id) {
    CK(cudaSetDevice(0));
    uint32_t state = 777 + id; auto next = [&] { state = state * 1664525u + 1013904223u; return state >> 8; };
    uint64_t sum = 0;
    for (int sent = 0; sent < REQUESTS; ) {
        // A window of requests: their buffers are registered before and unregistered after, while other threads run.
        int window = 4 + next() % 8; std::vector<Request> requests(window); std::vector<Request *> pointers;
        for (int i = 0; i < window; i++) {
            Request &r = requests[i];
            r.id = sent++; r.model = next() % MODELS; r.rows = 1 + next() % 8; r.bytes = r.rows * WIDTH; r.urgent = next() % 5 == 0;
            r.input = (int8_t *)malloc(r.bytes + 64) ;
            for (size_t k = 0; k < r.bytes; k++) r.input[k] = next() % 100;
        }
        void *slab = nullptr, *inner = nullptr; size_t slab_bytes = 0;
        if (window % 2) {               // all in one aligned slab
            for (auto &r : requests) slab_bytes += r.bytes;
            slab_bytes = (slab_bytes + 4095) / 4096 * 4096;
            if (posix_memalign(&slab, 4096, slab_bytes)) exit(2);
            memset(slab, 0, slab_bytes);
            CK(cudaHostRegister(slab, slab_bytes, window % 3 ? cudaHostRegisterPortable : cudaHostRegisterMapped));
            size_t at = 0;
            for (auto &r : requests) { memcpy((char *)slab + at, r.input, r.bytes); free(r.input); r.input = (int8_t *)slab + at; at += r.bytes; }
        } else {                        // or unregistered: the copies are staged
            if (window % 4 == 0) { slab_bytes = 1 << 16; slab = malloc(slab_bytes); memset(slab, 1, slab_bytes);     // of malloc's memory the pages that are ours alone
                inner = (void *)(((uintptr_t)slab + 4095) & ~(uintptr_t)4095);
                CK(cudaHostRegister(inner, slab_bytes - 4096, cudaHostRegisterDefault)); }
        }
        for (auto &r : requests) { pointers.push_back(&r); if (pointers.size() == 3) { incoming.push(pointers); pointers.clear(); } }
        pointers.push_back(nullptr);
        incoming.push(pointers);
        { std::unique_lock<std::mutex> l(done_mutex); done_cv.wait(l, [&] { for (auto &r : requests) if (!r.done) return false; return true; }); }
        for (auto &r : requests) {
            std::vector<int32_t> expected; reference(r, expected);
            wrong += expected != r.answer;
            for (int32_t v : r.answer) sum = (sum ^ (uint32_t)v ^ ((uint64_t)r.id << 32)) * 1099511628211ull;
        }
        if (slab) { CK(cudaHostUnregister(inner ? inner : slab)); free(slab); }
        if (window % 2 == 0) for (auto &r : requests) free(r.input);
    }
    sums[id] = sum;
}

int main() {
    CK(cudaSetDevice(0));
    uint32_t state = 4711; auto next = [&] { state = state * 22695477u + 1; return state >> 16; };
    for (int m = 0; m < MODELS; m++) {
        CK(cudaHostAlloc(&weights[m], LAYERS * WIDTH * WIDTH, cudaHostAllocPortable));
        CK(cudaHostAlloc(&biases[m], LAYERS * WIDTH * 4, m == 1 ? cudaHostAllocWriteCombined : cudaHostAllocDefault));
        for (int i = 0; i < LAYERS * WIDTH * WIDTH; i++) weights[m][i] = (int)(next() % 31) - 15;
        for (int i = 0; i < LAYERS * WIDTH; i++) bias_copies[m].push_back((int)(next() % 4096) - 1000);
        memcpy(biases[m], bias_copies[m].data(), LAYERS * WIDTH * 4);
    }
    std::vector<std::thread> servers, clients;
    for (int m = 0; m < MODELS; m++) servers.emplace_back(model_thread, m);
    std::thread packing(batcher);
    for (int c = 0; c < CLIENTS; c++) clients.emplace_back(client, c);
    for (auto &t : clients) t.join();
    incoming.close();
    packing.join();
    for (auto &t : servers) t.join();
    uint64_t sum = 0;
    for (uint64_t s : sums) sum = sum * 31 + s;
    for (int m = 0; m < MODELS; m++) { CK(cudaFreeHost(weights[m])); CK(cudaFreeHost(biases[m])); }
    CK(cudaDeviceSynchronize());
    printf("inference: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
