// Work at random, the same for the same $SEED (with $SHARED, in which all threads use the same buffers in turn, but for its order): memory of every kind, copies of every form, kernels, fills, callbacks and graphs on the
// streams of some threads, with no more waiting than it takes for the outcome to be one
#include "check.h"
#include <pthread.h>

enum { STREAMS = 3, BUFFERS = 8, GRAPHS = 3, SMALLEST = 4096, PART_BYTES = 2 * SMALLEST + 576, IDLE = -1 };

// A part is of one piece of pinned memory, with all other parts: neighbours have pages in common.
typedef enum { DEVICE, POOLED, PINNED, REGISTERED, MANAGED, PAGEABLE, PART, KINDS } Kind;

// `last`: the stream with the last work on it. All of it is the same address for both sides, where both can reach it.
typedef struct {
    Kind kind;
    CUdeviceptr at;
    size_t bytes;
    int last;
} Buffer;

typedef struct {
    CUgraph graph;
    CUgraphExec executable;
} Graph;

typedef struct {
    pthread_t thread;
    unsigned long long state, sum;
    // Events of its own for the streams of all.
    CUevent *events;
    CUstream streams[STREAMS];
    Buffer own[BUFFERS], *buffers;
    Graph graphs[GRAPHS];
} Worker;

typedef struct {
    unsigned char *at;
    size_t bytes;
    unsigned with;
} Change;

static CUcontext context;
static Worker *workers;
static unsigned char *parts;
static CUfunction take, pass;
static pthread_mutex_t turns[BUFFERS];
// What it is restricted to, to find out what it is that fails: kinds of memory and pieces of work, by their bits.
static int threads, steps, kinds, pieces, shared;

// A stream by its number among those of all threads.
static CUstream stream_of(int stream) { return workers[stream / STREAMS].streams[stream % STREAMS]; }
static int own_stream(const Worker *w, int stream) { return (int)(w - workers) * STREAMS + stream; }

// Whose turn it is: of some buffers in ascending order, from one to the last.
static void take_turn(int from, int to)
{
    for (int i = from; shared && i <= to; i++)
        pthread_mutex_lock(&turns[i]);
}

static void end_turn(int from, int to)
{
    for (int i = from; shared && i <= to; i++)
        pthread_mutex_unlock(&turns[i]);
}

static unsigned below(Worker *w, unsigned limit)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->state >> 33) % limit;
}

static int on_host(const Buffer *b) { return b->kind >= PINNED; }
static int on_device(const Buffer *b) { return b->kind != PAGEABLE; }

static void CUDA_CB change(void *data)
{
    Change *c = data;

    for (size_t i = 0; i < c->bytes; i++)
        c->at[i] = c->at[i] * 5 + c->with;
}

// The CPU waits until nobody works on it, by one of the ways there are.
static void idle(Worker *w, Buffer *b)
{
    CUresult result;

    if (b->last == IDLE)
        return;
    switch (below(w, threads == 1 ? 5 : 4)) {
    case 0:
        CHECK(cuStreamSynchronize(stream_of(b->last)));
        break;
    case 1:
        CHECK(cuEventRecord(w->events[b->last], stream_of(b->last)));
        CHECK(cuEventSynchronize(w->events[b->last]));
        break;
    case 2:
        while ((result = cuStreamQuery(stream_of(b->last))) == CUDA_ERROR_NOT_READY)
            ;
        CHECK(result);
        break;
    case 3:
        CHECK(cuEventRecord(w->events[b->last], stream_of(b->last)));
        while ((result = cuEventQuery(w->events[b->last])) == CUDA_ERROR_NOT_READY)
            ;
        CHECK(result);
        break;
    default:
        CHECK(cuCtxSynchronize());
    }
    b->last = IDLE;
}

// What follows on the stream comes behind all earlier work on the buffer.
static void order(Worker *w, Buffer *b, int stream)
{
    if (b->last != IDLE && b->last != stream) {
        CHECK(cuEventRecord(w->events[b->last], stream_of(b->last)));
        CHECK(cuStreamWaitEvent(stream_of(stream), w->events[b->last], 0));
    }
    b->last = stream;
}

static void release(Worker *w, Buffer *b)
{
    if (b->kind == POOLED) {
        int stream = own_stream(w, below(w, STREAMS));
        order(w, b, stream);
        CHECK(cuMemFreeAsync(b->at, stream_of(stream)));
        return;
    }
    idle(w, b);
    switch (b->kind) {
    case PINNED:
        CHECK(cuMemFreeHost((void *)b->at));
        break;
    case REGISTERED:
        CHECK(cuMemHostUnregister((void *)b->at));
        free((void *)b->at);
        break;
    case PAGEABLE:
        free((void *)b->at);
        break;
    case PART:
        break;
    default:
        CHECK(cuMemFree(b->at));
    }
}

static void obtain(Worker *w, Buffer *b)
{
    void *host;
    int stream = own_stream(w, below(w, STREAMS));
    Kind kind;

    do
        kind = below(w, KINDS);
    while (!(kinds >> kind & 1));
    *b = (Buffer){.kind = kind, .bytes = SMALLEST << below(w, 5), .last = stream};
    switch (b->kind) {
    case DEVICE:
        CHECK(cuMemAlloc(&b->at, b->bytes));
        break;
    case POOLED:
        CHECK(cuMemAllocAsync(&b->at, b->bytes, stream_of(stream)));
        break;
    case MANAGED:
        CHECK(cuMemAllocManaged(&b->at, b->bytes, CU_MEM_ATTACH_GLOBAL));
        break;
    case PINNED:
        CHECK(cuMemHostAlloc(&host, b->bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
        b->at = (CUdeviceptr)host;
        break;
    case PART:
        b->bytes = SMALLEST << below(w, 2);
        b->at = (CUdeviceptr)parts + ((w - workers) * BUFFERS + (b - w->buffers)) * PART_BYTES;
        break;
    default:
        REQUIRE(!posix_memalign(&host, 4096, b->bytes));
        b->at = (CUdeviceptr)host;
        if (b->kind == REGISTERED)
            CHECK(cuMemHostRegister(host, b->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    }
    // Nothing is ever read that nobody has written.
    if (on_device(b))
        CHECK(cuMemsetD8Async(b->at, below(w, 256), b->bytes, stream_of(stream)));
    else
        memset((void *)b->at, below(w, 256), b->bytes);
}

static void copy(Worker *w, Buffer *to, Buffer *from, int stream)
{
    size_t most = to->bytes < from->bytes ? to->bytes : from->bytes, bytes = 64 * (1 + below(w, most / 64));
    CUdeviceptr t = to->at + below(w, to->bytes - bytes + 1) / 4 * 4, f = from->at + below(w, from->bytes - bytes + 1) / 4 * 4;
    CUstream s = stream_of(stream);
    CUmemorytype to_type = on_device(to) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    CUmemorytype from_type = on_device(from) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;

    if (on_host(to) && below(w, 2))
        to_type = CU_MEMORYTYPE_HOST;
    if (on_host(from) && below(w, 2))
        from_type = CU_MEMORYTYPE_HOST;
    switch (below(w, 4)) {
    case 0:
        CHECK(cuMemcpyAsync(t, f, bytes, s));
        return;
    case 1: {
        size_t row = bytes / 16;
        CUDA_MEMCPY2D rows = {.srcMemoryType = from_type, .srcHost = (void *)f, .srcDevice = f, .srcPitch = row,
                              .dstMemoryType = to_type, .dstHost = (void *)t, .dstDevice = t, .dstPitch = row,
                              .WidthInBytes = row - below(w, 3), .Height = 16};
        CHECK(cuMemcpy2DAsync(&rows, s));
        return;
    }
    case 2: {
        size_t row = bytes / 16;
        CUDA_MEMCPY3D box = {.srcMemoryType = from_type, .srcHost = (void *)f, .srcDevice = f, .srcPitch = row, .srcHeight = 4,
                             .dstMemoryType = to_type, .dstHost = (void *)t, .dstDevice = t, .dstPitch = row, .dstHeight = 4,
                             .WidthInBytes = row, .Height = 1 + below(w, 4), .Depth = 4};
        CHECK(cuMemcpy3DAsync(&box, s));
        return;
    }
    default:
        if (on_device(to) && from_type == CU_MEMORYTYPE_HOST)
            CHECK(cuMemcpyHtoDAsync(t, (void *)f, bytes, s));
        else if (to_type == CU_MEMORYTYPE_HOST && on_device(from))
            CHECK(cuMemcpyDtoHAsync((void *)t, f, bytes, s));
        else if (on_device(to) && on_device(from))
            CHECK(cuMemcpyDtoDAsync(t, f, bytes, s));
        else
            CHECK(cuMemcpyAsync(t, f, bytes, s));
    }
}

// One piece of work on one or two buffers.
static void work_on(Worker *w, int a, int b, int stream, int captured)
{
    Buffer *one = &w->buffers[a], *two = &w->buffers[b];
    int n = one->bytes / 4, both = (one->bytes < two->bytes ? one->bytes : two->bytes) / 4;
    CUstream s = stream_of(stream);
    Change *c;
    int piece = below(w, 6);

    if (!(pieces >> piece & 1))
        return;
    if (!captured) {
        order(w, one, stream);
        order(w, two, stream);
    }
    switch (piece) {
    case 0:
        if (on_device(one))
            CHECK(cuLaunchKernel(pass, (n + 127) / 128, 1, 1, 128, 1, 1, 0, s, (void *[]){&one->at, &n}, NULL));
        return;
    case 1:
        if (on_device(one) && on_device(two))
            CHECK(cuLaunchKernel(take, (both + 127) / 128, 1, 1, 128, 1, 1, 0, s, (void *[]){&one->at, &two->at, &both}, NULL));
        return;
    case 2:
        if (on_device(one))
            CHECK(cuMemsetD32Async(one->at, below(w, 1u << 30), 1 + below(w, n), s));
        return;
    case 3:
        if (!on_host(one) || one->kind == MANAGED)
            return;
        REQUIRE(c = malloc(sizeof *c));
        *c = (Change){(unsigned char *)one->at, 1 + below(w, one->bytes), below(w, 256)};
        CHECK(cuLaunchHostFunc(s, change, c));
        return;
    default:
        // The driver may read it at once.
        if (two->kind == PAGEABLE && !captured) {
            idle(w, two);
            order(w, two, stream);
        }
        copy(w, one, two, stream);
    }
}

// What is captured has been put in order before, in this thread's turn.
static void work(Worker *w, int stream, int captured)
{
    int a = below(w, BUFFERS), b = (a + 1 + below(w, BUFFERS - 1)) % BUFFERS;
    int low = a < b ? a : b, high = a < b ? b : a;

    if (!captured) {
        take_turn(low, low);
        take_turn(high, high);
    }
    work_on(w, a, b, stream, captured);
    if (!captured) {
        end_turn(low, low);
        end_turn(high, high);
    }
}

static void drop(Worker *w, Graph *g)
{
    if (!g->executable)
        return;
    // A callback of it may be about to run.
    for (int i = 0; i < BUFFERS; i++)
        idle(w, &w->buffers[i]);
    CHECK(cuGraphExecDestroy(g->executable));
    CHECK(cuGraphDestroy(g->graph));
    *g = (Graph){0};
}

static void capture(Worker *w, Graph *g)
{
    int i, stream = own_stream(w, 1 + below(w, STREAMS - 1));

    drop(w, g);
    for (i = 0; i < BUFFERS; i++)
        order(w, &w->buffers[i], stream);
    CHECK(cuStreamBeginCapture(stream_of(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (i = 2 + below(w, 4); i; i--)
        work(w, stream, 1);
    CHECK(cuStreamEndCapture(stream_of(stream), &g->graph));
    CHECK(cuGraphInstantiate(&g->executable, g->graph, 0));
}

static void cpu(Worker *w, Buffer *b)
{
    unsigned char *at = (unsigned char *)b->at;
    size_t i, from = below(w, b->bytes), to = from + 1 + below(w, b->bytes - from);

    if (!on_host(b))
        return;
    idle(w, b);
    if (below(w, 3)) {
        for (i = from; i < to; i += 1 + (i & 3))
            at[i] += i;
        return;
    }
    for (i = from; i < to; i++)
        w->sum = w->sum * 31 + at[i];
}

// A copy that waits by itself: to the host, or from it.
static void wait_for_copy(Worker *w, Buffer *b)
{
    unsigned char host[SMALLEST];
    size_t bytes = 1 + below(w, SMALLEST), at = below(w, b->bytes - bytes + 1), i;

    if (!on_device(b))
        return;
    idle(w, b);
    if (below(w, 2)) {
        memset(host, below(w, 256), bytes);
        CHECK(below(w, 2) ? cuMemcpyHtoD(b->at + at, host, bytes) : cuMemcpy(b->at + at, (CUdeviceptr)host, bytes));
        // It may only have been staged, and the streams do not wait for the one it is on.
        CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
        return;
    }
    CHECK(below(w, 2) ? cuMemcpyDtoH(host, b->at + at, bytes) : cuMemcpy((CUdeviceptr)host, b->at + at, bytes));
    for (i = 0; i < bytes; i++)
        w->sum = w->sum * 31 + host[i];
}

static void *run(void *one)
{
    Worker *w = one;
    int i, step, stream;

    CHECK(cuCtxSetCurrent(context));
    if (!shared)
        for (i = 0; i < BUFFERS; i++)
            obtain(w, &w->buffers[i]);
    for (step = 0; step < steps; step++) {
        int at = below(w, BUFFERS);
        Buffer *b = &w->buffers[at];
        Graph *g = &w->graphs[below(w, GRAPHS)];
        switch (below(w, 16)) {
        case 0:
            if (shared)
                break;
            // Graphs know the addresses that they were made with.
            for (i = 0; i < GRAPHS; i++)
                drop(w, &w->graphs[i]);
            release(w, b);
            obtain(w, b);
            break;
        case 1:
            if (pieces >> 6 & 1) {
                take_turn(0, BUFFERS - 1);
                capture(w, g);
                end_turn(0, BUFFERS - 1);
            }
            break;
        case 2:
        case 3:
            if (!g->executable)
                break;
            stream = own_stream(w, below(w, STREAMS));
            take_turn(0, BUFFERS - 1);
            for (i = 0; i < BUFFERS; i++)
                order(w, &w->buffers[i], stream);
            CHECK(cuGraphLaunch(g->executable, stream_of(stream)));
            end_turn(0, BUFFERS - 1);
            break;
        case 4:
        case 5:
        case 6:
            take_turn(at, at);
            cpu(w, b);
            end_turn(at, at);
            break;
        case 7:
            take_turn(at, at);
            wait_for_copy(w, b);
            end_turn(at, at);
            break;
        default:
            work(w, own_stream(w, below(w, STREAMS)), 0);
        }
    }
    take_turn(0, BUFFERS - 1);
    for (i = 0; i < GRAPHS; i++)
        drop(w, &w->graphs[i]);
    end_turn(0, BUFFERS - 1);
    return NULL;
}

static void finish(Worker *w)
{
    int i;

    for (i = 0; i < BUFFERS; i++) {
        Buffer *b = &w->buffers[i];
        unsigned char *bytes = on_host(b) ? (unsigned char *)b->at : malloc(b->bytes);
        idle(w, b);
        if (!on_host(b))
            CHECK(cuMemcpyDtoH(bytes, b->at, b->bytes));
        for (size_t at = 0; at < b->bytes; at++)
            w->sum = w->sum * 31 + bytes[at];
        if (!on_host(b))
            free(bytes);
    }
    for (i = 0; i < BUFFERS; i++)
        release(w, &w->buffers[i]);
}

static void end_streams(Worker *w)
{
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cuStreamSynchronize(w->streams[i]));
        CHECK(cuStreamDestroy(w->streams[i]));
    }
    for (int i = 0; i < threads * STREAMS; i++)
        CHECK(cuEventDestroy(w->events[i]));
}

static int number(const char *name, int otherwise)
{
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

int main(void)
{
    int seed = number("SEED", 1), i;

    threads = number("THREADS", 1 + seed % 3);
    steps = number("STEPS", 150);
    kinds = number("ONLY_KINDS", (1 << PART) - 1);
    pieces = number("ONLY_PIECES", -1);
    shared = number("SHARED", 0);
    context = start_driver();
    CUmodule module = load_module("memory");
    take = find_kernel(module, "take");
    pass = find_kernel(module, "pass");
    workers = calloc(threads, sizeof *workers);
    if (kinds >> PART & 1)
        CHECK(cuMemHostAlloc((void **)&parts, (size_t)threads * BUFFERS * PART_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    for (i = 0; i < BUFFERS; i++)
        pthread_mutex_init(&turns[i], NULL);
    for (i = 0; i < threads; i++) {
        Worker *w = &workers[i];
        w->state = seed * 1000003ull + i;
        below(w, 2);
        w->buffers = shared ? workers[0].own : w->own;
        w->events = calloc(threads * STREAMS, sizeof *w->events);
        for (int j = 0; j < STREAMS; j++)
            CHECK(cuStreamCreate(&w->streams[j], j ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        for (int j = 0; j < threads * STREAMS; j++)
            CHECK(cuEventCreate(&w->events[j], CU_EVENT_DISABLE_TIMING));
    }
    if (shared)
        for (i = 0; i < BUFFERS; i++)
            obtain(&workers[0], &workers[0].buffers[i]);
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_create(&workers[i].thread, NULL, run, &workers[i]));
    for (i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    for (i = 0; i < (shared ? 1 : threads); i++) {
        finish(&workers[i]);
        if (!shared)
            printf("thread %d: %016llx\n", i, workers[i].sum);
    }
    for (i = 0; i < threads; i++)
        end_streams(&workers[i]);
    return 0;
}
