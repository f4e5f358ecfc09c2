// A log-structured key-value store. Four clients submit batches through pinned rings; each has its own log on the GPU,
// a compaction at the end of every epoch merges the four logs into a snapshot that all clients may read afterwards.
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

enum : uint32_t { GET = 0, PUT = 1, DEL = 2, GET_SNAPSHOT = 3 };
constexpr int CLIENTS = 4, SLOTS = 6, BATCH = 256, EPOCHS = 4, BATCHES = 24, KEYS = 4096;
constexpr uint32_t LOG_CAPACITY = EPOCHS * BATCHES * BATCH;

struct Request { uint32_t op, key; uint64_t value; };
struct Answer { uint64_t value; uint32_t found, position; };
struct Slot { Request requests[BATCH]; };
struct AnswerSlot { Answer answers[BATCH]; };
struct Record { uint64_t value; uint32_t key, op; uint32_t owner, batch; };

struct Shard {                      // lies in device memory, holds device pointers
    Record *log;
    uint32_t *index;                // key -> newest position + 1
    uint32_t tail, done;
};

struct Snapshot { uint64_t *values; uint32_t *stamp; };

// One block for one batch: appends in the order of the requests, the later write of a key wins.
__global__ void append(Shard *shard, const Request *requests, uint32_t owner, uint32_t sequence) {
    __shared__ uint32_t ranks[BATCH];
    __shared__ uint32_t base;
    const int i = threadIdx.x;
    const Request r = requests[i];
    const bool writes = r.op == PUT || r.op == DEL;
    ranks[i] = writes;
    if (i == 0) base = shard->tail;
    __syncthreads();
    for (int step = 1; step < BATCH; step *= 2) {
        uint32_t add = i >= step ? ranks[i - step] : 0;
        __syncthreads();
        ranks[i] += add;
        __syncthreads();
    }
    if (writes) {
        uint32_t at = base + ranks[i] - 1;
        shard->log[at] = Record{r.value, r.key, r.op, owner, sequence};
        atomicMax(&shard->index[r.key], at + 1);
    }
    __syncthreads();
    if (i == 0) shard->tail = base + ranks[BATCH - 1];
}

__global__ void answer(Shard *shard, Snapshot snapshot, const Request *requests, Answer *answers, volatile uint32_t *flag, uint32_t sequence) {
    const int i = threadIdx.x;
    const Request r = requests[i];
    Answer a{0, 0, 0};
    if (r.op == GET_SNAPSHOT) {
        a.value = snapshot.values[r.key];
        a.position = snapshot.stamp[r.key];
        a.found = a.position != 0;
    } else {
        uint32_t at = shard->index[r.key];
        if (at && shard->log[at - 1].op == PUT) { a.value = shard->log[at - 1].value; a.found = 1; }
        a.position = at;
    }
    answers[i] = a;
    __threadfence_system();
    __syncthreads();
    if (i == 0) {
        shard->done = sequence;
        __threadfence_system();
        *flag = sequence;
    }
}

// The snapshot: per key, the client (key + epoch) % CLIENTS wins if it has it, else the next one.
__global__ void compact(Shard *const *shards, Snapshot snapshot, uint32_t epoch) {
    uint32_t key = blockIdx.x * blockDim.x + threadIdx.x;
    if (key >= KEYS) return;
    for (uint32_t c = 0; c < CLIENTS; c++) {
        const Shard *s = shards[(key + epoch + c) % CLIENTS];
        uint32_t at = s->index[key];
        if (!at || s->log[at - 1].op != PUT) continue;
        snapshot.values[key] = s->log[at - 1].value * 31 + epoch;
        snapshot.stamp[key] = at;
        return;
    }
}

struct Barrier {
    std::mutex mutex; std::condition_variable cv; int waiting = 0; unsigned round = 0;
    bool wait() {                   // true for the last one to come
        std::unique_lock<std::mutex> lock(mutex);
        unsigned mine = round;
        if (++waiting == CLIENTS) { waiting = 0; round++; cv.notify_all(); return true; }
        cv.wait(lock, [&] { return round != mine; });
        return false;
    }
};

struct Reference {                  // what the CPU believes of one client
    std::vector<uint64_t> value = std::vector<uint64_t>(KEYS);
    std::vector<uint32_t> at = std::vector<uint32_t>(KEYS), live = std::vector<uint32_t>(KEYS);
    uint32_t tail = 0;
};

static Reference references[CLIENTS];
static std::vector<uint64_t> snapshot_values(KEYS);
static std::vector<uint32_t> snapshot_stamp(KEYS);
static Shard *shards[CLIENTS], **device_shards;
static Snapshot snapshot;
static Barrier barrier_a, barrier_b;
static cudaEvent_t compacted, client_done[CLIENTS];
static cudaStream_t compaction_stream;
static std::atomic<int> wrong{0};
static uint64_t sums[CLIENTS];

static uint64_t next(uint64_t &s) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }

static void client(int id) {
    CK(cudaSetDevice(0));
    cudaStream_t stream;
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Slot *ring, *staged; AnswerSlot *answers, *answers_dev; uint32_t *flags, *flags_dev; Slot *ring_dev;
    CK(cudaHostAlloc((void **)&ring, sizeof(Slot) * SLOTS, cudaHostAllocMapped | (id & 1 ? cudaHostAllocWriteCombined : 0)));
    CK(cudaHostAlloc((void **)&answers, sizeof(AnswerSlot) * SLOTS, cudaHostAllocMapped | cudaHostAllocPortable));
    CK(cudaHostAlloc((void **)&flags, sizeof(uint32_t) * SLOTS * 16, cudaHostAllocMapped));
    memset(flags, 0, sizeof(uint32_t) * SLOTS * 16);
    memset(answers, 0, sizeof(AnswerSlot) * SLOTS);
    CK(cudaHostGetDevicePointer((void **)&ring_dev, ring, 0));
    CK(cudaHostGetDevicePointer((void **)&answers_dev, answers, 0));
    CK(cudaHostGetDevicePointer((void **)&flags_dev, flags, 0));
    CK(cudaMalloc((void **)&staged, sizeof(Slot) * SLOTS));
    cudaEvent_t events[SLOTS];
    for (auto &e : events) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));

    struct Expected { std::vector<Answer> answers; uint32_t sequence = 0; } expected[SLOTS];
    Reference &ref = references[id];
    uint64_t random = 0x9e3779b97f4a7c15ull * (id + 1), sum = 0;
    uint32_t sequence = 0;

    auto harvest = [&](int slot) {
        Expected &e = expected[slot];
        if (!e.sequence) return;
        volatile uint32_t *flag = flags + slot * 16;
        for (unsigned polls = 0; *flag != e.sequence; polls++) {
            cudaError_t state = polls & 1 ? cudaEventQuery(events[slot]) : cudaStreamQuery(stream);
            if (state != cudaSuccess && state != cudaErrorNotReady) CK(state);
            if (polls > 64) std::this_thread::yield();
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        for (int i = 0; i < BATCH; i++) {
            const Answer &a = answers[slot].answers[i], &b = e.answers[i];
            if (a.value != b.value || a.found != b.found || a.position != b.position) wrong++;
            sum = sum * 1099511628211ull + (a.value ^ a.position ^ ((uint64_t)a.found << 60));
        }
        e.sequence = 0;
    };

    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (int b = 0; b < BATCHES; b++) {
            int slot = sequence % SLOTS;
            harvest(slot);
            sequence++;
            Expected &e = expected[slot];
            e.answers.assign(BATCH, Answer{0, 0, 0});
            Request batch[BATCH];
            for (int i = 0; i < BATCH; i++) {
                uint64_t r = next(random);
                uint32_t dice = r % 16, key = (r >> 8) % KEYS;
                if (dice < 2) key = key % 17;                       // hot keys, often twice in a batch
                batch[i] = Request{dice < 8 ? PUT : dice < 9 ? DEL : dice < 13 ? GET : GET_SNAPSHOT, key, r >> 3};
                if (batch[i].op == PUT || batch[i].op == DEL) {
                    ref.at[key] = ++ref.tail; ref.live[key] = batch[i].op == PUT; ref.value[key] = r >> 3;
                }
            }
            for (int i = 0; i < BATCH; i++) {                       // all answers see the batch as a whole
                uint32_t key = batch[i].key;
                if (batch[i].op == GET_SNAPSHOT) e.answers[i] = Answer{snapshot_values[key], snapshot_stamp[key] != 0, snapshot_stamp[key]};
                else e.answers[i] = Answer{ref.live[key] ? ref.value[key] : 0, ref.live[key], ref.at[key]};
            }
            memcpy(ring[slot].requests, batch, sizeof batch);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            e.sequence = sequence;
            const Request *source = ring_dev[slot].requests;        // every third batch is read over the bus by the kernels
            if (sequence % 3) {
                CK(cudaMemcpyAsync(staged[slot].requests, ring[slot].requests, sizeof(Slot), cudaMemcpyHostToDevice, stream));
                source = staged[slot].requests;
            }
            append<<<1, BATCH, 0, stream>>>(shards[id], source, id, sequence);
            answer<<<1, BATCH, 0, stream>>>(shards[id], snapshot, source, answers_dev[slot].answers, flags_dev + slot * 16, sequence);
            CK(cudaGetLastError());
            CK(cudaEventRecord(events[slot], stream));
        }
        for (int s = 0; s < SLOTS; s++) harvest((sequence + s) % SLOTS);
        CK(cudaEventRecord(client_done[id], stream));
        if (barrier_a.wait()) {                                     // whoever comes last compacts
            for (auto e : client_done) CK(cudaStreamWaitEvent(compaction_stream, e, 0));
            compact<<<(KEYS + 127) / 128, 128, 0, compaction_stream>>>(device_shards, snapshot, epoch);
            CK(cudaGetLastError());
            CK(cudaEventRecord(compacted, compaction_stream));
            for (uint32_t key = 0; key < KEYS; key++)
                for (uint32_t c = 0; c < CLIENTS; c++) {
                    const Reference &r = references[(key + epoch + c) % CLIENTS];
                    if (!r.live[key]) continue;
                    snapshot_values[key] = r.value[key] * 31 + epoch;
                    snapshot_stamp[key] = r.at[key];
                    break;
                }
        }
        barrier_b.wait();
        CK(cudaStreamWaitEvent(stream, compacted, 0));
    }
    CK(cudaStreamSynchronize(stream));
    sums[id] = sum;
    for (auto e : events) CK(cudaEventDestroy(e));
    CK(cudaFree(staged));
    CK(cudaFreeHost(ring)); CK(cudaFreeHost(answers)); CK(cudaFreeHost(flags));
    CK(cudaStreamDestroy(stream));
}

int main() {
    CK(cudaSetDeviceFlags(cudaDeviceMapHost | cudaDeviceScheduleYield));
    CK(cudaStreamCreateWithFlags(&compaction_stream, cudaStreamNonBlocking));
    CK(cudaEventCreateWithFlags(&compacted, cudaEventDisableTiming));
    CK(cudaMalloc((void **)&snapshot.values, KEYS * sizeof(uint64_t)));
    CK(cudaMalloc((void **)&snapshot.stamp, KEYS * sizeof(uint32_t)));
    CK(cudaMemset(snapshot.values, 0, KEYS * sizeof(uint64_t)));
    CK(cudaMemset(snapshot.stamp, 0, KEYS * sizeof(uint32_t)));
    Shard host[CLIENTS];
    for (int c = 0; c < CLIENTS; c++) {
        CK(cudaEventCreateWithFlags(&client_done[c], cudaEventDisableTiming | cudaEventBlockingSync));
        CK(cudaMalloc((void **)&host[c].log, LOG_CAPACITY * sizeof(Record)));
        CK(cudaMalloc((void **)&host[c].index, KEYS * sizeof(uint32_t)));
        CK(cudaMemset(host[c].index, 0, KEYS * sizeof(uint32_t)));
        host[c].tail = host[c].done = 0;
        CK(cudaMalloc((void **)&shards[c], sizeof(Shard)));
        CK(cudaMemcpy(shards[c], &host[c], sizeof(Shard), cudaMemcpyHostToDevice));
    }
    CK(cudaMalloc((void **)&device_shards, sizeof shards));
    CK(cudaMemcpy(device_shards, shards, sizeof shards, cudaMemcpyHostToDevice));
    CK(cudaDeviceSynchronize());

    std::vector<std::thread> threads;
    for (int c = 0; c < CLIENTS; c++) threads.emplace_back(client, c);
    for (auto &t : threads) t.join();

    uint64_t sum = 14695981039346656037ull;
    for (int c = 0; c < CLIENTS; c++) {
        Shard s;
        CK(cudaMemcpy(&s, shards[c], sizeof s, cudaMemcpyDeviceToHost));
        if (s.tail != references[c].tail || s.done != EPOCHS * BATCHES || s.log != host[c].log) wrong++;
        std::vector<Record> log(s.tail);
        CK(cudaMemcpy(log.data(), s.log, s.tail * sizeof(Record), cudaMemcpyDeviceToHost));
        for (auto &r : log) sum = (sum ^ r.value ^ r.key ^ ((uint64_t)r.op << 40) ^ ((uint64_t)r.batch << 20)) * 1099511628211ull;
        sum = (sum ^ sums[c]) * 1099511628211ull;
        CK(cudaFree(s.log)); CK(cudaFree(s.index)); CK(cudaFree(shards[c]));
        CK(cudaEventDestroy(client_done[c]));
    }
    std::vector<uint64_t> values(KEYS);
    CK(cudaMemcpy(values.data(), snapshot.values, KEYS * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    if (values != snapshot_values) wrong++;
    CK(cudaFree(snapshot.values)); CK(cudaFree(snapshot.stamp)); CK(cudaFree(device_shards));
    CK(cudaEventDestroy(compacted)); CK(cudaStreamDestroy(compaction_stream));
    printf("kvlog: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong.load());
    return wrong != 0;
}
