// A training loop fed by loader processes: forked before CUDA starts, they fill slots of shared memory (memfd) which the parent has
// registered and copies or reads over the bus; headers are patched through a second view of the same pages that CUDA was never
// told of; an auditor process reads the results and sends its sums back by a pipe straight into pinned memory.
#include <cuda_runtime.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)
#define SYS(x) do { if ((x) < 0) { perror(#x); exit(2); } } while (0)

constexpr int LOADERS = 3, SLOTS = 6, ROWS = 192, COLS = 90, BATCHES = 40, EPOCHS = 3, TOTAL = BATCHES * EPOCHS;
struct Sample { uint32_t label, serial; uint16_t x[COLS]; };
struct Slot { uint32_t batch, epoch, patched, count; Sample samples[ROWS]; };
struct Result { uint64_t rows[ROWS]; };
struct Control { sem_t ready[SLOTS], freed[SLOTS], result_ready[SLOTS], result_freed[SLOTS]; };
struct Data { Slot slots[SLOTS]; Result results[SLOTS]; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 15; v *= 0x2c1b3c6du; v ^= v >> 12; v *= 0x297a2d39u; return v ^ (v >> 15); }
__host__ __device__ inline uint64_t row_value(const Sample &s, uint32_t patched, const uint32_t *weights, uint64_t state) {
    uint64_t dot = s.label;
    for (int c = 0; c < COLS; c++) dot += (uint64_t)s.x[c] * (weights[c] & 0xffff);
    return state * 6364136223846793005ull + dot + ((uint64_t)patched << 32) + s.serial;
}

__global__ void forward(const Slot *slot, const uint32_t *weights, uint64_t *states, uint64_t *out) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < (int)slot->count) out[row] = states[row] = row_value(slot->samples[row], slot->patched, weights, states[row]);
}
__global__ void train(uint32_t *weights, const uint64_t *states, uint32_t batch) {      // weights follow the states, in a fixed order
    int c = threadIdx.x;
    if (c >= COLS) return;
    uint64_t g = batch;
    for (int row = c; row < ROWS; row += COLS) g = g * 31 + states[row];
    weights[c] = mix(weights[c] + (uint32_t)(g ^ (g >> 32)));
}
__global__ void fold_sums(const uint64_t *sums, int n, uint64_t *out) {
    uint64_t s = 1;
    for (int i = threadIdx.x; i < n; i += 32) s = s * 1099511628211ull + sums[i];
    out[threadIdx.x] = s;
}

static void make_sample(Sample &s, uint32_t batch, int row) {
    s.label = mix(batch * 977 + row); s.serial = batch * ROWS + row;
    for (int c = 0; c < COLS; c++) s.x[c] = (uint16_t)mix(s.serial * 131 + c);
}
static void wait_for(sem_t *s) { while (sem_wait(s) != 0) if (errno != EINTR) { perror("sem_wait"); _exit(3); } }

static void loader(int id, Control *control, Data *data) {
    for (uint32_t b = id; b < TOTAL; b += LOADERS) {            // SLOTS is a multiple of LOADERS: a slot belongs to one loader
        Slot &slot = data->slots[b % SLOTS];
        wait_for(&control->freed[b % SLOTS]);
        slot.batch = b; slot.epoch = b / BATCHES; slot.patched = 0xdead; slot.count = ROWS;
        for (int r = 0; r < ROWS; r++) make_sample(slot.samples[r], b, r);
        sem_post(&control->ready[b % SLOTS]);
    }
    _exit(0);
}
static void auditor(Control *control, Data *data, int pipe_out) {
    std::vector<uint64_t> sums(TOTAL);
    uint64_t sum = 14695981039346656037ull;
    for (int b = 0; b < TOTAL; b++) {
        wait_for(&control->result_ready[b % SLOTS]);
        for (uint64_t v : data->results[b % SLOTS].rows) sum = (sum ^ v) * 1099511628211ull;
        sums[b] = sum;
        memset(&data->results[b % SLOTS], 0x55, sizeof(Result));        // the next result must be a whole one
        sem_post(&control->result_freed[b % SLOTS]);
    }
    for (size_t at = 0; at < TOTAL * 8;) { ssize_t n = write(pipe_out, (char *)sums.data() + at, TOTAL * 8 - at); if (n <= 0) _exit(3); at += n; }
    _exit(0);
}

int main() {
    const size_t page = sysconf(_SC_PAGESIZE), bytes = (sizeof(Data) + page - 1) / page * page;
    int fd = memfd_create("slots", 0); SYS(fd); SYS(ftruncate(fd, bytes));
    Control *control = (Control *)mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Data *data = (Data *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED || data == MAP_FAILED) { perror("mmap"); return 2; }
    for (int i = 0; i < SLOTS; i++) {
        SYS(sem_init(&control->ready[i], 1, 0)); SYS(sem_init(&control->freed[i], 1, 1));
        SYS(sem_init(&control->result_ready[i], 1, 0)); SYS(sem_init(&control->result_freed[i], 1, 1));
    }
    int pipes[2]; SYS(pipe(pipes));
    pid_t children[LOADERS + 1];
    for (int i = 0; i <= LOADERS; i++) {
        children[i] = fork(); SYS(children[i]);
        if (children[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (i < LOADERS) loader(i, control, data);
        auditor(control, data, pipes[1]);
    }
    SYS(close(pipes[1]));

    // From here on there is CUDA. The second view is ordinary memory to it.
    Data *view = (Data *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (view == MAP_FAILED) { perror("mmap"); return 2; }
    cudaStream_t stream, out_stream; Slot *staged; uint32_t *weights; uint64_t *states, *out; cudaEvent_t done[SLOTS], computed[SLOTS];
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&out_stream, cudaStreamNonBlocking));
    CK(cudaMalloc(&staged, sizeof(Slot) * SLOTS)); CK(cudaMalloc(&weights, COLS * 4)); CK(cudaMalloc(&states, ROWS * 8));
    CK(cudaMalloc(&out, sizeof(Result) * SLOTS));
    for (auto &e : done) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventBlockingSync));
    for (auto &e : computed) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    std::vector<uint32_t> ref_weights(COLS); std::vector<uint64_t> ref_states(ROWS, 3), ref_sums(TOTAL);
    for (int c = 0; c < COLS; c++) ref_weights[c] = mix(c);
    CK(cudaMemcpy(weights, ref_weights.data(), COLS * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(states, ref_states.data(), ROWS * 8, cudaMemcpyHostToDevice));

    // Hands slots and results on as soon as the GPU has done with them.
    std::mutex mutex; std::condition_variable cv; std::deque<int> queue; int finished = 0;
    std::thread releaser([&] {
        for (int n = 0; n < TOTAL; n++) {
            int b;
            { std::unique_lock<std::mutex> lock(mutex); cv.wait(lock, [&] { return !queue.empty(); }); b = queue.front(); queue.pop_front(); }
            CK(cudaEventSynchronize(done[b % SLOTS]));
            sem_post(&control->freed[b % SLOTS]);
            sem_post(&control->result_ready[b % SLOTS]);
            { std::lock_guard<std::mutex> lock(mutex); finished++; } cv.notify_all();
        }
    });

    std::atomic<int> wrong{0}; uint64_t sum = 14695981039346656037ull, ref_sum = sum; int registered_epochs = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        // The view for CUDA is made anew for each epoch: once elsewhere, once at the same address as before.
        Data *before = data;
        data = (Data *)mmap(epoch == 2 ? before : nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (epoch == 2 ? MAP_FIXED : 0), fd, 0);
        if (data == MAP_FAILED) { perror("mmap"); return 2; }
        if (data != before) SYS(munmap(before, bytes));
        Data *mapped = nullptr;
        bool registered = cudaHostRegister(data, bytes, cudaHostRegisterMapped | (epoch & 1 ? cudaHostRegisterPortable : 0)) == cudaSuccess;
        if (registered) { CK(cudaHostGetDevicePointer(&mapped, data, 0)); registered_epochs++; }
        else { cudaGetLastError(); fprintf(stderr, "the pages cannot be registered\n"); }
        for (int b = epoch * BATCHES; b < (epoch + 1) * BATCHES; b++) {
            const int s = b % SLOTS;
            wait_for(&control->ready[s]); wait_for(&control->result_freed[s]);
            wrong += view->slots[s].batch != (uint32_t)b;
            view->slots[s].patched = mix(b) % 1000;             // through the view CUDA does not know
            std::atomic_thread_fence(std::memory_order_seq_cst);
            const Slot *source = staged + s;
            if (registered && b % 4 == 1) source = &mapped->slots[s];
            else if (b % 4 == 3) CK(cudaMemcpyAsync(staged + s, &view->slots[s], sizeof(Slot), cudaMemcpyHostToDevice, stream));   // pageable
            else CK(cudaMemcpyAsync(staged + s, &data->slots[s], sizeof(Slot), cudaMemcpyHostToDevice, stream));
            uint64_t *to = registered && b % 8 == 5 ? mapped->results[s].rows : out + s * ROWS;
            forward<<<(ROWS + 63) / 64, 64, 0, stream>>>(source, weights, states, to);
            train<<<1, 128, 0, stream>>>(weights, states, b);
            CK(cudaGetLastError());
            CK(cudaEventRecord(computed[s], stream)); CK(cudaStreamWaitEvent(out_stream, computed[s], 0));
            if (to == out + s * ROWS) CK(cudaMemcpyAsync(&data->results[s], out + s * ROWS, sizeof(Result), cudaMemcpyDeviceToHost, out_stream));
            CK(cudaEventRecord(done[s], out_stream));
            { std::lock_guard<std::mutex> lock(mutex); queue.push_back(b); } cv.notify_all();
            Sample sample;                                      // what the auditor is going to see
            for (int r = 0; r < ROWS; r++) {
                make_sample(sample, b, r);
                ref_states[r] = row_value(sample, mix(b) % 1000, ref_weights.data(), ref_states[r]);
                ref_sum = (ref_sum ^ ref_states[r]) * 1099511628211ull;
            }
            ref_sums[b] = ref_sum;
            for (int c = 0; c < COLS; c++) {
                uint64_t g = b;
                for (int row = c; row < ROWS; row += COLS) g = g * 31 + ref_states[row];
                ref_weights[c] = mix(ref_weights[c] + (uint32_t)(g ^ (g >> 32)));
            }
        }
        { std::unique_lock<std::mutex> lock(mutex); cv.wait(lock, [&] { return finished == (epoch + 1) * BATCHES; }); }
        CK(cudaStreamSynchronize(stream));
        if (registered) CK(cudaHostUnregister(data));
    }
    releaser.join();

    // The auditor's sums, read by the kernel of the operating system into pinned memory.
    uint64_t *pinned, *folded; CK(cudaMallocHost(&pinned, TOTAL * 8)); CK(cudaMalloc(&folded, 32 * 8 + TOTAL * 8));
    for (size_t at = 0; at < TOTAL * 8;) { ssize_t n = read(pipes[0], (char *)pinned + at, TOTAL * 8 - at); if (n <= 0) { wrong++; break; } at += n; }
    wrong += memcmp(pinned, ref_sums.data(), TOTAL * 8) != 0;
    CK(cudaMemcpyAsync(folded + 32, pinned, TOTAL * 8, cudaMemcpyHostToDevice, stream));
    fold_sums<<<1, 32, 0, stream>>>(folded + 32, TOTAL, folded);
    fold_sums<<<1, 32, 0, stream>>>(pinned, TOTAL, pinned);     // in place: thread t alone reads and writes [t]
    CK(cudaGetLastError());
    CK(cudaStreamSynchronize(stream));
    uint64_t back[32], ref[32];
    CK(cudaMemcpy(back, folded, sizeof back, cudaMemcpyDeviceToHost));
    for (int t = 0; t < 32; t++) { ref[t] = 1; for (int i = t; i < TOTAL; i += 32) ref[t] = ref[t] * 1099511628211ull + ref_sums[i]; }
    wrong += memcmp(back, ref, sizeof ref) != 0 || memcmp(pinned, ref, sizeof ref) != 0;
    std::vector<uint32_t> w(COLS); CK(cudaMemcpy(w.data(), weights, COLS * 4, cudaMemcpyDeviceToHost)); wrong += w != ref_weights;
    for (uint64_t v : back) sum = (sum ^ v) * 1099511628211ull;
    for (uint32_t v : w) sum = (sum ^ v) * 1099511628211ull;
    for (pid_t child : children) { int status = 0; SYS(waitpid(child, &status, 0)); wrong += !WIFEXITED(status) || WEXITSTATUS(status); }
    for (auto e : done) CK(cudaEventDestroy(e)); for (auto e : computed) CK(cudaEventDestroy(e));
    CK(cudaFreeHost(pinned)); CK(cudaFree(folded)); CK(cudaFree(staged)); CK(cudaFree(weights)); CK(cudaFree(states)); CK(cudaFree(out));
    CK(cudaStreamDestroy(stream)); CK(cudaStreamDestroy(out_stream));
    munmap(data, bytes); munmap(view, bytes); close(fd);
    printf("loaderproc: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
