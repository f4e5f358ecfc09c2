// nvcc: -Xcompiler -pthread
// Rollback as games over a network have it: a frame is a graph whose kernels get other parameters, whose snapshot goes to another slot, and whose
// node for checking is switched off while old frames are simulated again. Four players' inputs come late, from threads; wrong guesses are undone by
// copying a snapshot back. A spectator in a stream of low priority draws confirmed frames (surface, texture) while the game goes on and overwrites.
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

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)

constexpr int PLAYERS = 4, THINGS = 6000, FRAMES = 150, RING = 16, LATEST = 9, W = 160, H = 120, FIELD = 4096, CELLS = 64;
struct Thing { int x, y, vx, vy; uint32_t hue; int owner; };
struct Inputs { uint32_t of[PLAYERS]; int frame; };         // by value to the kernels
struct State { Thing things[THINGS]; int score[PLAYERS], crowd[CELLS]; };

__host__ __device__ inline uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
__host__ __device__ inline int cell_of(const Thing &t) { return (t.y * 8 / FIELD) * 8 + t.x * 8 / FIELD; }
__host__ __device__ inline void move_thing(Thing &t, int i, const Inputs &in)
{
    uint32_t k = in.of[t.owner], r = mix(k + i * 31u + in.frame);
    t.vx += (int)(k & 7) - 3 + (int)(r & 3) - 1; t.vy += (int)(k >> 3 & 7) - 3 + (int)(r >> 2 & 3) - 1;
    t.vx = t.vx > 40 ? 40 : t.vx < -40 ? -40 : t.vx; t.vy = t.vy > 40 ? 40 : t.vy < -40 ? -40 : t.vy;
    t.x = (t.x + t.vx + FIELD) % FIELD; t.y = (t.y + t.vy + FIELD) % FIELD;
}
__host__ __device__ inline bool meet(Thing &t, int i, int crowd, const Inputs &in)      // in a crowded cell things may change owner; true if so
{
    if (crowd <= 110 || mix(i * 77u + in.frame) % 8) return false;
    int owner = (int)((t.owner + 1 + (t.hue + crowd) % 3) % PLAYERS); t.owner = owner; t.hue = mix(t.hue); return true;
}
__global__ void move(State *s, Inputs in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= THINGS) return;
    Thing t = s->things[i]; move_thing(t, i, in); s->things[i] = t; atomicAdd(&s->crowd[cell_of(t)], 1);
}
__global__ void collide(State *s, Inputs in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= THINGS) return;
    Thing t = s->things[i]; if (meet(t, i, s->crowd[cell_of(t)], in)) { s->things[i] = t; atomicAdd(&s->score[t.owner], 1); }
}
__global__ void check_sum(const State *s, uint32_t *out)   // one block; order does not matter
{
    __shared__ uint32_t sum; if (threadIdx.x == 0) sum = 0; __syncthreads();
    uint32_t a = 0; const uint32_t *p = (const uint32_t *)s; for (int i = threadIdx.x; i < (int)(sizeof(State) / 4);
        i += blockDim.x) a += mix(p[i] + i * 0x9E3779B9u);
    atomicAdd(&sum, a); __syncthreads(); if (threadIdx.x == 0) *out = sum;
}
static uint32_t check_sum_of(const State &s) { uint32_t a = 0; const uint32_t *p = (const uint32_t *)&s;
    for (size_t i = 0; i < sizeof s / 4; i++) a += mix(p[i] + (uint32_t)i * 0x9E3779B9u); return a; }
static void simulate(State &s, const Inputs &in)
{
    memset(s.crowd, 0, sizeof s.crowd);
    for (int i = 0; i < THINGS; i++) { move_thing(s.things[i], i, in); s.crowd[cell_of(s.things[i])]++; }
    for (int i = 0; i < THINGS; i++) if (meet(s.things[i], i, s.crowd[cell_of(s.things[i])], in)) s.score[s.things[i].owner]++;
}
// The spectator: counts into pixels, then colours by a texture over the counts, into a surface
__global__ void splat(const State *s, uint32_t *pixels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= THINGS) return;
    Thing t = s->things[i]; atomicAdd(&pixels[t.y * H / FIELD * W + t.x * W / FIELD], 1u + (t.hue & 15) + ((uint32_t)t.owner << 8));
}
__global__ void colour(cudaTextureObject_t counts, cudaTextureObject_t ramp, cudaSurfaceObject_t to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; if (x >= W) return;
    uint32_t v = 0; for (int d = -1; d <= 1; d++) v += tex1Dfetch<uint32_t>(counts, min(max(y + d, 0), H - 1) * W + x);
    surf2Dwrite(tex1Dfetch<uint32_t>(ramp, v & 255) + v, to, x * 4, y);
}

// A player's thread sends its inputs in order; which frame each of them arrives in is settled beforehand
struct Channel { std::mutex m; std::condition_variable c; std::deque<uint32_t> q; };
static Channel channels[PLAYERS];
static uint32_t input_of(int player, int frame) { return mix(player * 1000 + frame / (3 + player)) & 63; }       // a key is held for some frames
static int arrival_of(int player, int frame) { int a = 0; for (int f = std::max(0, frame - LATEST); f <= frame; f++) a = std::max(a,
    f + (int)(mix(player * 77 + f) % (LATEST - 1))); return a; }

int main()
{
    int wrong = 0, rollbacks = 0, again = 0; uint64_t sum = 14695981039346656037ull; CK(cudaSetDevice(0));
    static State truth; std::vector<std::thread> players;
    for (int i = 0; i < THINGS; i++) { uint32_t r = mix(i + 5); truth.things[i] = {(int)(r % FIELD), (int)(r / FIELD % FIELD), 0, 0, r,
        (int)(mix(r) % PLAYERS)}; }
    State *state, *ring; uint32_t *sums, *mapped; cudaStream_t game, view; int least, greatest;
    CK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CK(cudaStreamCreateWithPriority(&game, cudaStreamNonBlocking, greatest)); CK(cudaStreamCreateWithPriority(&view, cudaStreamNonBlocking, least));
    CK(cudaMalloc(&state, sizeof(State))); CK(cudaMalloc(&ring, RING * sizeof(State)));
    CK(cudaHostAlloc(&sums, FRAMES * 4, cudaHostAllocMapped)); CK(cudaHostGetDevicePointer(&mapped, sums, 0)); memset(sums, 0, FRAMES * 4);
    CK(cudaMemcpy(state, &truth, sizeof truth, cudaMemcpyHostToDevice)); CK(cudaDeviceSynchronize());

    // The frame: snapshot of what is before it, no crowds, movement, meetings, and the checksum into mapped memory
    cudaGraph_t g; cudaGraphExec_t exec; cudaGraphNode_t save, clear, moved, met, checked; Inputs in = {}; uint32_t *where = mapped;
    CK(cudaGraphCreate(&g, 0));
    CK(cudaGraphAddMemcpyNode1D(&save, g, nullptr, 0, ring, state, sizeof(State), cudaMemcpyDeviceToDevice));
    cudaMemsetParams ms = {}; ms.dst = state->crowd; ms.elementSize = 4; ms.width = CELLS; ms.height = 1;
    CK(cudaGraphAddMemsetNode(&clear, g, &save, 1, &ms));
    void *args[] = {&state, &in}, *check_args[] = {&state, &where}; cudaKernelNodeParams kp = {}, cp = {};
    kp.func = (void *)move; kp.gridDim = dim3((THINGS + 127) / 128); kp.blockDim = dim3(128); kp.kernelParams = args;
    CK(cudaGraphAddKernelNode(&moved, g, &clear, 1, &kp));
    cudaKernelNodeParams mp = kp; mp.func = (void *)collide; CK(cudaGraphAddKernelNode(&met, g, &moved, 1, &mp));
    cp.func = (void *)check_sum; cp.gridDim = dim3(1); cp.blockDim = dim3(512); cp.kernelParams = check_args;
    CK(cudaGraphAddKernelNode(&checked, g, &met, 1, &cp));
    CK(cudaGraphInstantiate(&exec, g, 0)); CK(cudaGraphUpload(exec, game));
    std::vector<Inputs> used(FRAMES);                       // what each frame was simulated with
    auto frame = [&](int f, const Inputs &with, bool check) {
        in = with; in.frame = f; used[f] = in; where = mapped + f;
        CK(cudaGraphExecMemcpyNodeSetParams1D(exec, save, ring + f % RING, state, sizeof(State), cudaMemcpyDeviceToDevice));
        CK(cudaGraphExecKernelNodeSetParams(exec, moved, &kp)); CK(cudaGraphExecKernelNodeSetParams(exec, met, &mp));
        CK(cudaGraphNodeSetEnabled(exec, checked, check)); if (check) CK(cudaGraphExecKernelNodeSetParams(exec, checked, &cp));
        CK(cudaGraphLaunch(exec, game)); in = {};           // the parameters were copied
    };

    // The spectator's things
    uint32_t *pixels, ramp_words[256], *ramp, *picture; cudaArray_t canvas; cudaSurfaceObject_t surface; cudaTextureObject_t counts, colours;
    State *seen;
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<uint32_t>(); CK(cudaMalloc(&pixels, W * H * 4)); CK(cudaMalloc(&ramp, 1024));
    CK(cudaMalloc(&seen, sizeof(State)));
    CK(cudaMallocArray(&canvas, &desc, W, H, cudaArraySurfaceLoadStore)); CK(cudaMallocHost(&picture, W * H * 4));
    for (int i = 0; i < 256; i++) ramp_words[i] = mix(i) & 0xFFFF; CK(cudaMemcpy(ramp, ramp_words, 1024, cudaMemcpyHostToDevice));
    CK(cudaDeviceSynchronize());
    cudaResourceDesc rd = {}; rd.resType = cudaResourceTypeLinear; rd.res.linear.devPtr = pixels; rd.res.linear.desc = desc;
    rd.res.linear.sizeInBytes = W * H * 4; cudaTextureDesc td = {};
    td.readMode = cudaReadModeElementType; CK(cudaCreateTextureObject(&counts, &rd, &td, nullptr)); rd.res.linear.devPtr = ramp;
    rd.res.linear.sizeInBytes = 1024; CK(cudaCreateTextureObject(&colours, &rd, &td, nullptr));
    rd = {}; rd.resType = cudaResourceTypeArray; rd.res.array.array = canvas; CK(cudaCreateSurfaceObject(&surface, &rd));
    cudaEvent_t taken, copied; CK(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
    CK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));

    for (int p = 0; p < PLAYERS; p++) players.emplace_back([p] {
        for (int f = 0; f < FRAMES; f++) { std::lock_guard<std::mutex> hold(channels[p].m); channels[p].q.push_back(input_of(p, f));
            channels[p].c.notify_one(); } });
    int known[PLAYERS] = {}; std::vector<Inputs> real(FRAMES); int confirmed = 0, drawn = 0;
    std::vector<int> views; std::vector<uint32_t> expected(W * H);
    for (int now = 0; now < FRAMES + LATEST; now++) {
        int back = FRAMES;                                  // the earliest frame that was guessed wrongly
        for (int p = 0; p < PLAYERS; p++) while (known[p] < FRAMES && arrival_of(p, known[p]) <= now) {
            std::unique_lock<std::mutex> hold(channels[p].m); channels[p].c.wait(hold, [&] { return !channels[p].q.empty(); });
            int f = known[p]++; real[f].of[p] = channels[p].q.front(); channels[p].q.pop_front();
            if (f < now && f < FRAMES && used[f].of[p] != real[f].of[p]) back = std::min(back, f);
        }
        auto guess = [&](int f) { Inputs i = {};
            for (int p = 0; p < PLAYERS; p++) i.of[p] = f < known[p] ? real[f].of[p] : known[p] ? real[known[p] - 1].of[p] : 0; return i; };
        int upto = std::min(now, FRAMES);
        if (back < upto) {                                  // undo, and simulate again without checking
            rollbacks++; CK(cudaMemcpyAsync(state, ring + back % RING, sizeof(State), cudaMemcpyDeviceToDevice, game));
            for (int f = back; f < upto; f++) { again++; frame(f, guess(f), f % 2); }
        }
        if (now < FRAMES) frame(now, guess(now), true);
        int sure = FRAMES; for (int k : known) sure = std::min(sure, k);
        // the state before frame `sure` can't change any more: it is in the ring
        if (now % 11 == 5 && sure > drawn && sure < now && now < FRAMES) {
            CK(cudaEventRecord(taken, game)); CK(cudaStreamWaitEvent(view, taken, 0));
            CK(cudaMemcpyAsync(seen, ring + sure % RING, sizeof(State), cudaMemcpyDeviceToDevice, view)); CK(cudaEventRecord(copied, view));
            CK(cudaStreamWaitEvent(game, copied, 0));       // the game must not write that slot before
            CK(cudaMemsetAsync(pixels, 0, W * H * 4, view)); splat<<<(THINGS + 255) / 256, 256, 0, view>>>(seen, pixels);
            colour<<<dim3((W + 31) / 32, H), 32, 0, view>>>(counts, colours, surface); CK(cudaGetLastError());
            CK(cudaMemcpy2DFromArrayAsync(picture, W * 4, canvas, 0, 0, W * 4, H, cudaMemcpyDeviceToHost, view)); CK(cudaStreamSynchronize(view));
            for (; confirmed < sure; confirmed++) { Inputs i = real[confirmed]; i.frame = confirmed; simulate(truth, i);
                sum = (sum ^ check_sum_of(truth)) * 1099511628211ull; }
            std::vector<uint32_t> count(W * H);
            for (auto &t : truth.things) count[t.y * H / FIELD * W + t.x * W / FIELD] += 1u + (t.hue & 15) + ((uint32_t)t.owner << 8);
            for (int y = 0; y < H; y++) for (int x = 0; x < W; x++) {
                uint32_t v = 0; for (int d = -1; d <= 1; d++) v += count[std::min(std::max(y + d, 0), H - 1) * W + x];
                expected[y * W + x] = ramp_words[v & 255] + v; }
            if (memcmp(picture, expected.data(), W * H * 4)) { wrong++; fprintf(stderr, "the picture of frame %d differs\n", sure); }
            for (uint32_t v : expected) sum = (sum ^ v) * 1099511628211ull;
            drawn = sure; views.push_back(sure);
        }
    }
    for (auto &t : players) t.join();
    CK(cudaStreamSynchronize(game));
    static State got; CK(cudaMemcpy(&got, state, sizeof got, cudaMemcpyDeviceToHost));
    for (; confirmed < FRAMES; confirmed++) { Inputs i = real[confirmed]; i.frame = confirmed; simulate(truth, i);
        sum = (sum ^ check_sum_of(truth)) * 1099511628211ull; }
    if (memcmp(&got, &truth, sizeof got)) { wrong++; fprintf(stderr, "the last state differs\n"); }
    // Even frames were checked only when first simulated, with whatever was guessed then, which is settled beforehand too
    if (sums[FRAMES - 1] != check_sum_of(truth)) { wrong++; fprintf(stderr, "the last checksum differs\n"); }
    for (int f = 0; f < FRAMES; f++) { wrong += sums[f] == 0; sum = (sum ^ sums[f]) * 1099511628211ull; }
    for (auto *p : {(void *)state, (void *)ring, (void *)pixels, (void *)ramp, (void *)seen}) CK(cudaFree(p));
    CK(cudaDestroySurfaceObject(surface)); CK(cudaDestroyTextureObject(counts)); CK(cudaDestroyTextureObject(colours)); CK(cudaFreeArray(canvas));
    CK(cudaFreeHost(picture)); CK(cudaFreeHost(sums));
    CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(g)); CK(cudaEventDestroy(taken)); CK(cudaEventDestroy(copied)); CK(cudaStreamDestroy(game));
    CK(cudaStreamDestroy(view));
    printf("%d frames, %d rollbacks, %d simulated again, %zu views\n", FRAMES, rollbacks, again, views.size());
    printf("rollback: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
