// A small library for collectives, which does towards a profiler plugin what NCCL does. The newest interface that it
// knows is the version that RING_VERSION names. Ranks are processes; their kernels meet in a file that all map.
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_RANKS = 64, MOST_ELEMENTS = 16, SLOTS = MOST_RANKS * 4, SENT = SLOTS + 2 * MOST_RANKS * MOST_ELEMENTS * 4 };
enum { SENT_SLOTS = SENT + MOST_RANKS * 4, REGION = 4 * 4096 };
_Static_assert(SENT_SLOTS + MOST_RANKS * MOST_ELEMENTS * 4 <= REGION, "room for all");

enum { GROUP = 1, COLLECTIVE = 2, TRANSFER = 4, GROUP_CALL = 1 << 8, COLLECTIVE_CALL = 1 << 9, TRANSFER_CALL = 1 << 10 };

// Every member as the public headers of that version have it, in their order
typedef struct { const char *name; uint64_t hash, sequence; uint8_t func; const void *send; void *recv; size_t count; int root; uint8_t datatype; uint32_t op; size_t traffic; uint8_t channels, warps, algo, proto; int collnet, nvls; } coll_1;
typedef struct { const char *name; uint64_t hash; uint8_t func; void *buffer; uint8_t datatype; size_t count; int peer; } p2p_1;
typedef struct { const char *name; uint64_t hash, sequence; const char *func; const void *send; void *recv; size_t count; int root; const char *datatype; size_t traffic; uint8_t channels, warps; const char *algo, *proto; } coll_2;
typedef struct { const char *name; uint64_t hash, sequence; const char *func; const void *send; void *recv; size_t count; int root; const char *datatype; uint8_t channels, warps; const char *algo, *proto; } coll_3;
typedef struct { const char *name; uint64_t hash; const char *func; void *buffer; const char *datatype; size_t count; int peer; } p2p_2;
typedef struct { uint64_t sequence; const char *func; const void *send; void *recv; size_t count; int root; const char *datatype; uint8_t channels, warps; const char *algo, *proto; void *group; const char *variant; bool symmetric; uint64_t tag; } coll_4;
typedef struct { const char *func; void *buffer; const char *datatype; size_t count; int peer; uint8_t channels; void *group; uint64_t tag; } p2p_4;
typedef struct { const char *func; size_t count; const char *datatype; int root; void *stream; bool captured; uint64_t tag; } coll_api;
typedef struct { const char *func; size_t count; const char *datatype; void *stream; bool captured; uint64_t tag; } p2p_api;
typedef struct { bool captured; int depth; } group_api;
typedef union { coll_1 coll1; p2p_1 p2p1; coll_2 coll2; coll_3 coll3; p2p_2 p2p2; coll_4 coll4; p2p_4 p2p4; coll_api collapi; p2p_api p2papi; group_api groupapi; } body;
typedef struct { uint8_t type; void *parent; int rank; body body; } event_1;
typedef struct { uint64_t type; void *parent; int rank; body body; } event_5;

typedef struct {
    const char *name;
    int (*init)();
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
} plugin;

typedef struct {
    const char *name;
    uint64_t id;
    int rank, ranks;
    char *shared;
    CUdeviceptr device;
    CUfunction reduce, send, collect;
    unsigned sent[MOST_RANKS];
    uint64_t reduced;
    void *context;
} ring;

static plugin *tool;
static int version, mask;

// Of element i: its part of every rank, by turns in two places, as a rank may be one turn ahead of another. The
// device counts the turns: a graph may run again what it holds.
static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .global .align 4 .u32 turns;\n"
    ".visible .entry ncclDevKernel_AllReduce_Sum_u32_RING_LL(.param .u64 p_shared, .param .u64 p_data, .param .u32 p_count,\n"
    "    .param .u32 p_rank, .param .u32 p_ranks)\n{\n"
    "    .reg .pred %p<6>;\n    .reg .b32 %r<20>;\n    .reg .b64 %rd<20>;\n"
    "    ld.param.u64 %rd1, [p_shared];\n    ld.param.u64 %rd2, [p_data];\n    ld.param.u32 %r1, [p_count];\n"
    "    ld.param.u32 %r2, [p_rank];\n    ld.param.u32 %r3, [p_ranks];\n    ld.global.u32 %r4, [turns];\n    add.u32 %r4, %r4, 1;\n    st.global.u32 [turns], %r4;\n"
    "    and.b32 %r5, %r4, 1;\n    mul.wide.u32 %rd3, %r5, 4096;\n    add.u64 %rd4, %rd1, %rd3;\n    add.u64 %rd4, %rd4, 256;\n"
    "    mul.wide.u32 %rd5, %r2, 64;\n    add.u64 %rd5, %rd4, %rd5;\n    mov.u32 %r6, 0;\n"
    "PUT:\n    setp.ge.u32 %p1, %r6, %r1;\n    @%p1 bra TELL;\n    mul.wide.u32 %rd6, %r6, 4;\n    add.u64 %rd7, %rd2, %rd6;\n"
    "    add.u64 %rd8, %rd5, %rd6;\n    ld.global.u32 %r7, [%rd7];\n    st.volatile.global.u32 [%rd8], %r7;\n"
    "    add.u32 %r6, %r6, 1;\n    bra PUT;\n"
    "TELL:\n    membar.sys;\n    mul.wide.u32 %rd9, %r2, 4;\n    add.u64 %rd9, %rd1, %rd9;\n    st.volatile.global.u32 [%rd9], %r4;\n"
    "    mov.u32 %r8, 0;\n"
    "WAIT:\n    setp.ge.u32 %p2, %r8, %r3;\n    @%p2 bra SUM;\n    mul.wide.u32 %rd10, %r8, 4;\n    add.u64 %rd10, %rd1, %rd10;\n"
    "SPIN:\n    ld.volatile.global.u32 %r9, [%rd10];\n    setp.lt.u32 %p3, %r9, %r4;\n    @%p3 bra SPIN;\n"
    "    add.u32 %r8, %r8, 1;\n    bra WAIT;\n"
    "SUM:\n    membar.sys;\n    mov.u32 %r10, 0;\n"
    "NEXT:\n    setp.ge.u32 %p4, %r10, %r1;\n    @%p4 bra DONE;\n    mul.wide.u32 %rd11, %r10, 4;\n    add.u64 %rd12, %rd4, %rd11;\n"
    "    mov.u32 %r11, 0;\n    mov.u32 %r12, 0;\n"
    "ADD:\n    ld.volatile.global.u32 %r13, [%rd12];\n    add.u32 %r11, %r11, %r13;\n    add.u64 %rd12, %rd12, 64;\n"
    "    add.u32 %r12, %r12, 1;\n    setp.lt.u32 %p5, %r12, %r3;\n    @%p5 bra ADD;\n"
    "    add.u64 %rd13, %rd2, %rd11;\n    st.global.u32 [%rd13], %r11;\n    add.u32 %r10, %r10, 1;\n    bra NEXT;\n"
    "DONE:\n    ret;\n}\n"
    ".visible .entry ncclDevKernel_SendRecv(.param .u64 p_flag, .param .u64 p_slot, .param .u64 p_data, .param .u32 p_count,\n"
    "    .param .u32 p_sends, .param .u32 p_turn)\n{\n"
    "    .reg .pred %p<6>;\n    .reg .b32 %r<10>;\n    .reg .b64 %rd<10>;\n"
    "    ld.param.u64 %rd1, [p_flag];\n    ld.param.u64 %rd2, [p_slot];\n    ld.param.u64 %rd3, [p_data];\n"
    "    ld.param.u32 %r1, [p_count];\n    ld.param.u32 %r2, [p_sends];\n    ld.param.u32 %r3, [p_turn];\n"
    "    setp.ne.u32 %p1, %r2, 0;\n    mov.u64 %rd4, %rd3;\n    mov.u64 %rd5, %rd2;\n    mov.u32 %r4, 0;\n    @%p1 bra MOVE;\n"
    "    mov.u64 %rd4, %rd2;\n    mov.u64 %rd5, %rd3;\n"
    "WAIT:\n    ld.volatile.global.u32 %r5, [%rd1];\n    setp.lt.u32 %p2, %r5, %r3;\n    @%p2 bra WAIT;\n"
    "MOVE:\n    setp.ge.u32 %p3, %r4, %r1;\n    @%p3 bra MOVED;\n    mul.wide.u32 %rd6, %r4, 4;\n    add.u64 %rd7, %rd4, %rd6;\n"
    "    add.u64 %rd8, %rd5, %rd6;\n    ld.volatile.global.u32 %r6, [%rd7];\n    st.volatile.global.u32 [%rd8], %r6;\n"
    "    add.u32 %r4, %r4, 1;\n    bra MOVE;\n"
    "MOVED:\n    membar.sys;\n    setp.eq.u32 %p4, %r2, 0;\n    @%p4 bra DONE;\n    st.volatile.global.u32 [%rd1], %r3;\n"
    "DONE:\n    ret;\n}\n"
    // Puts so many elements; then element i of `count` is that numbered base + i % per of rank first + i / per, or
    // the sum of all ranks'
    ".visible .entry ncclDevKernel_Collect_RING_LL(.param .u64 p_shared, .param .u64 p_from, .param .u64 p_to, .param .u32 p_put,\n"
    "    .param .u32 p_count, .param .u32 p_per, .param .u32 p_base, .param .u32 p_first, .param .u32 p_sums, .param .u32 p_rank,\n"
    "    .param .u32 p_ranks)\n{\n"
    "    .reg .pred %p<6>;\n    .reg .b32 %r<32>;\n    .reg .b64 %rd<20>;\n"
    "    ld.param.u64 %rd1, [p_shared];\n    ld.param.u64 %rd2, [p_from];\n    ld.param.u64 %rd3, [p_to];\n"
    "    ld.param.u32 %r1, [p_put];\n    ld.param.u32 %r2, [p_count];\n    ld.param.u32 %r3, [p_per];\n    ld.param.u32 %r4, [p_base];\n"
    "    ld.param.u32 %r5, [p_first];\n    ld.param.u32 %r6, [p_sums];\n    ld.param.u32 %r7, [p_rank];\n"
    "    ld.param.u32 %r8, [p_ranks];\n    ld.global.u32 %r9, [turns];\n    add.u32 %r9, %r9, 1;\n    st.global.u32 [turns], %r9;\n"
    "    and.b32 %r10, %r9, 1;\n    mul.wide.u32 %rd4, %r10, 4096;\n    add.u64 %rd4, %rd1, %rd4;\n    add.u64 %rd4, %rd4, 256;\n"
    "    mul.wide.u32 %rd5, %r7, 64;\n    add.u64 %rd5, %rd4, %rd5;\n    mov.u32 %r11, 0;\n"
    "PUT:\n    setp.ge.u32 %p1, %r11, %r1;\n    @%p1 bra TELL;\n    mul.wide.u32 %rd6, %r11, 4;\n    add.u64 %rd7, %rd2, %rd6;\n"
    "    add.u64 %rd8, %rd5, %rd6;\n    ld.global.u32 %r12, [%rd7];\n    st.volatile.global.u32 [%rd8], %r12;\n"
    "    add.u32 %r11, %r11, 1;\n    bra PUT;\n"
    "TELL:\n    membar.sys;\n    mul.wide.u32 %rd9, %r7, 4;\n    add.u64 %rd9, %rd1, %rd9;\n    st.volatile.global.u32 [%rd9], %r9;\n"
    "    mov.u32 %r13, 0;\n"
    "WAIT:\n    setp.ge.u32 %p2, %r13, %r8;\n    @%p2 bra TAKE;\n    mul.wide.u32 %rd10, %r13, 4;\n    add.u64 %rd10, %rd1, %rd10;\n"
    "SPIN:\n    ld.volatile.global.u32 %r14, [%rd10];\n    setp.lt.u32 %p3, %r14, %r9;\n    @%p3 bra SPIN;\n"
    "    add.u32 %r13, %r13, 1;\n    bra WAIT;\n"
    "TAKE:\n    membar.sys;\n    mov.u32 %r15, 0;\n"
    "NEXT:\n    setp.ge.u32 %p4, %r15, %r2;\n    @%p4 bra DONE;\n    div.u32 %r16, %r15, %r3;\n    rem.u32 %r17, %r15, %r3;\n"
    "    add.u32 %r17, %r17, %r4;\n    add.u32 %r16, %r16, %r5;\n    add.u32 %r18, %r16, 1;\n    setp.eq.u32 %p5, %r6, 0;\n    @%p5 bra FROM;\n"
    "    mov.u32 %r16, 0;\n    mov.u32 %r18, %r8;\n"
    "FROM:\n    mov.u32 %r19, 0;\n"
    "ADD:\n    mul.wide.u32 %rd11, %r16, 64;\n    mul.wide.u32 %rd12, %r17, 4;\n    add.u64 %rd11, %rd4, %rd11;\n    add.u64 %rd11, %rd11, %rd12;\n"
    "    ld.volatile.global.u32 %r20, [%rd11];\n    add.u32 %r19, %r19, %r20;\n    add.u32 %r16, %r16, 1;\n"
    "    setp.lt.u32 %p5, %r16, %r18;\n    @%p5 bra ADD;\n"
    "    mul.wide.u32 %rd13, %r15, 4;\n    add.u64 %rd13, %rd3, %rd13;\n    st.global.u32 [%rd13], %r19;\n"
    "    add.u32 %r15, %r15, 1;\n    bra NEXT;\n"
    "DONE:\n    ret;\n}\n";

// As NCCL does: none is no trouble, and of a plugin the newest version that both know is taken
static void find_tool(void)
{
    const char *path = getenv("NCCL_PROFILER_PLUGIN"), *newest = getenv("RING_VERSION");
    void *library = path && strcasecmp(path, "none") ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    char symbol[32];

    for (version = newest ? atoi(newest) : 4; library && version > 0 && !tool; version -= !tool) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
        tool = dlsym(library, symbol);
    }
    if (tool)
        REQUIRE(!strcmp(tool->name, "cutrace"));
}

ring *ring_open(const char *path, int region, uint64_t id, const char *name, int rank, int ranks)
{
    ring *self = calloc(1, sizeof *self);
    CUmodule module;
    int file = open(path, O_RDWR);

    REQUIRE(self && file >= 0 && ranks <= MOST_RANKS);
    self->name = name, self->id = id, self->rank = rank, self->ranks = ranks;
    self->shared = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)region * REGION);
    REQUIRE(self->shared != MAP_FAILED);
    close(file);
    CHECK(cuMemHostRegister(self->shared, REGION, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&self->device, self->shared, 0));
    CHECK(cuModuleLoadData(&module, kernels));
    self->reduce = find_kernel(module, "ncclDevKernel_AllReduce_Sum_u32_RING_LL");
    self->send = find_kernel(module, "ncclDevKernel_SendRecv");
    self->collect = find_kernel(module, "ncclDevKernel_Collect_RING_LL");
    if (!tool)
        find_tool();
    if (tool && version >= 5)
        REQUIRE(!tool->init(&self->context, id, &mask, name, 1, ranks, rank, NULL));
    else if (tool && version == 4)
        REQUIRE(!tool->init(&self->context, &mask, name, id, 1, ranks, rank, NULL));
    else if (tool)
        REQUIRE(!tool->init(&self->context, &mask));
    return self;
}

// What began; NULL if nobody wants to know
static void *begin(ring *self, int type, void *parent, const body *of)
{
    void *handle = NULL;

    if (!tool)
        return NULL;
    if (version >= 5) {
        event_5 event = {.type = type, .parent = parent, .rank = self->rank};
        event.body = *of;
        REQUIRE(!tool->start(self->context, &handle, &event));
    } else {
        event_1 event = {.type = type, .parent = parent, .rank = self->rank};
        memset((char *)&event + 1, 0xaa, 7); // padding
        event.body = *of;
        REQUIRE(!tool->start(self->context, &handle, &event));
    }
    return handle;
}

static void end(void *handle)
{
    if (handle)
        REQUIRE(!tool->stop(handle));
}

// What is launched, or a graph that has captured it launches
typedef struct {
    ring *self;
    bool moves;
    const char *func;
    int number;
    CUdeviceptr source, data;
    unsigned count;
    int peer, parts;
    void *calls[2];
} task;

static void give(const task *);

static void give_by_callback(void *of) { give(of); }

// Whether this rank's work needs the CPU, which a graph then calls back
static bool has_proxies(const ring *self)
{
    const char *rank = getenv("RING_PROXIES");

    return rank && atoi(rank) == self->rank;
}

// A group, its operations as the program calls them, the launch, and then what was launched, as NCCL tells it. Of
// several each is a part of the data, one behind the other.
static void told(ring *self, bool moves, const char *func, int number, CUdeviceptr source, CUdeviceptr data,
                 unsigned count, int peer, int parts, CUstream stream, CUfunction kernel, void **arguments)
{
    void *group_call = NULL;
    CUstreamCaptureStatus captured;
    task *given = calloc(1, sizeof *given);
    body of = {0};

    REQUIRE(given && parts <= 2);
    *given = (task){self, moves, func, number, source, data, count, peer, parts, {0}};
    CHECK(cuStreamIsCapturing(stream, &captured));
    if (version >= 5 && mask) {
        of.groupapi = (group_api){.captured = captured, .depth = 1};
        group_call = begin(self, GROUP_CALL, NULL, &of);
        for (int i = 0; i < parts; i++) {
            memset(&of, 0, sizeof of);
            if (moves)
                of.p2papi = (p2p_api){.func = func, .count = count, .datatype = "ncclUint32", .stream = stream, .captured = captured};
            else
                of.collapi = (coll_api){.func = func, .count = count, .datatype = "ncclUint32", .root = peer, .stream = stream, .captured = captured};
            given->calls[i] = begin(self, moves ? TRANSFER_CALL : COLLECTIVE_CALL, group_call, &of);
            end(given->calls[i]);
        }
    }
    if (captured && has_proxies(self))
        CHECK(cuLaunchHostFunc(stream, give_by_callback, given));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    if (!(captured && has_proxies(self))) {
        give(given);
        free(given);
    }
    end(group_call);
    // It stands still for what is captured
    self->reduced += moves || captured ? 0 : parts;
}

static void *given(const task *task, int part, void *group)
{
    ring *self = task->self;
    bool moves = task->moves;
    const char *func = task->func;
    unsigned count = task->count;
    int peer = task->peer, number = task->number;
    void *source = (void *)(task->source + (size_t)part * count * 4), *buffer = (void *)(task->data + (size_t)part * count * 4);
    // NCCL's own count begins at 0 for each function
    uint64_t sequence = moves ? 0 : self->reduced + part;
    body of = {0};

    if (version >= 4 && moves)
        of.p2p4 = (p2p_4){.func = func, .buffer = buffer, .datatype = "ncclUint32", .count = count, .peer = peer, .channels = 2, .group = group};
    else if (version >= 4)
        of.coll4 = (coll_4){.sequence = sequence, .func = func, .send = source, .recv = buffer, .count = count, .root = peer, .datatype = "ncclUint32", .channels = 2, .warps = 16, .algo = "RING", .proto = "LL", .group = group};
    else if (version >= 2 && moves)
        of.p2p2 = (p2p_2){.name = self->name, .hash = self->id, .func = func, .buffer = buffer, .datatype = "ncclUint32", .count = count, .peer = peer};
    else if (version == 3)
        of.coll3 = (coll_3){.name = self->name, .hash = self->id, .sequence = sequence, .func = func, .send = source, .recv = buffer, .count = count, .root = peer, .datatype = "ncclUint32", .channels = 2, .warps = 16, .algo = "RING", .proto = "LL"};
    else if (version == 2)
        of.coll2 = (coll_2){.name = self->name, .hash = self->id, .sequence = sequence, .func = func, .send = source, .recv = buffer, .count = count, .root = peer, .datatype = "ncclUint32", .traffic = 77, .channels = 2, .warps = 16, .algo = "RING", .proto = "LL"};
    else if (moves)
        of.p2p1 = (p2p_1){.name = self->name, .hash = self->id, .func = number, .buffer = buffer, .datatype = 3, .count = count, .peer = peer};
    else
        of.coll1 = (coll_1){.name = self->name, .hash = self->id, .sequence = sequence, .func = number, .send = source, .recv = buffer, .count = count, .root = peer, .datatype = 3, .channels = 2, .warps = 16, .algo = 1, .proto = 0};
    return begin(self, moves ? TRANSFER : COLLECTIVE, version >= 5 ? task->calls[part] : group, &of);
}

static void give(const task *task)
{
    body of = {0};
    void *group = mask ? begin(task->self, GROUP, NULL, &of) : NULL;

    for (int part = 0; part < task->parts; part++)
        if (mask & (task->moves ? TRANSFER : COLLECTIVE))
            end(given(task, part, group));
    end(group);
}

void ring_all_reduce(ring *self, CUdeviceptr data, unsigned count, CUstream stream)
{
    void *arguments[] = {&self->device, &data, &count, &self->rank, &self->ranks};

    REQUIRE(count <= MOST_ELEMENTS);
    told(self, false, "AllReduce", 4, data, data, count, 0, 1, stream, self->reduce, arguments);
}

// As one group: two sums, the second of what lies behind the first
void ring_all_reduce_both(ring *self, CUdeviceptr data, unsigned count, CUstream stream)
{
    unsigned both = 2 * count;
    void *arguments[] = {&self->device, &data, &both, &self->rank, &self->ranks};

    REQUIRE(both <= MOST_ELEMENTS);
    told(self, false, "AllReduce", 4, data, data, count, 0, 2, stream, self->reduce, arguments);
}

void ring_all_gather(ring *self, CUdeviceptr from, CUdeviceptr to, unsigned count, CUstream stream)
{
    unsigned all = count * self->ranks, zero = 0;
    void *arguments[] = {&self->device, &from, &to, &count, &all, &count, &zero, &zero, &zero, &self->rank, &self->ranks};

    REQUIRE(count <= MOST_ELEMENTS);
    told(self, false, "AllGather", 2, from, to, count, 0, 1, stream, self->collect, arguments);
}

// `count` elements of the sum come to each rank
void ring_reduce_scatter(ring *self, CUdeviceptr from, CUdeviceptr to, unsigned count, CUstream stream)
{
    unsigned all = count * self->ranks, base = self->rank * count, zero = 0, sums = 1;
    void *arguments[] = {&self->device, &from, &to, &all, &count, &count, &base, &zero, &sums, &self->rank, &self->ranks};

    REQUIRE(all <= MOST_ELEMENTS);
    told(self, false, "ReduceScatter", 3, from, to, count, 0, 1, stream, self->collect, arguments);
}

void ring_broadcast(ring *self, CUdeviceptr data, unsigned count, int root, CUstream stream)
{
    unsigned zero = 0;
    void *arguments[] = {&self->device, &data, &data, &count, &count, &count, &zero, &root, &zero, &self->rank, &self->ranks};

    REQUIRE(count <= MOST_ELEMENTS);
    told(self, false, "Broadcast", 0, data, data, count, root, 1, stream, self->collect, arguments);
}

// To the root alone
void ring_reduce(ring *self, CUdeviceptr from, CUdeviceptr to, unsigned count, int root, CUstream stream)
{
    unsigned zero = 0, sums = 1, taken = self->rank == root ? count : 0;
    void *arguments[] = {&self->device, &from, &to, &count, &taken, &count, &zero, &zero, &sums, &self->rank, &self->ranks};

    REQUIRE(count <= MOST_ELEMENTS);
    told(self, false, "Reduce", 1, from, to, count, root, 1, stream, self->collect, arguments);
}

// Once between two collectives
void ring_send(ring *self, CUdeviceptr data, unsigned count, int to, CUstream stream)
{
    unsigned turn = ++self->sent[self->rank], sends = 1;
    CUdeviceptr flag = self->device + SENT + 4 * self->rank, slot = self->device + SENT_SLOTS + 64 * self->rank;
    void *arguments[] = {&flag, &slot, &data, &count, &sends, &turn};

    told(self, true, "Send", 6, data, data, count, to, 1, stream, self->send, arguments);
}

void ring_receive(ring *self, CUdeviceptr data, unsigned count, int from, CUstream stream)
{
    unsigned turn = ++self->sent[from], sends = 0;
    CUdeviceptr flag = self->device + SENT + 4 * from, slot = self->device + SENT_SLOTS + 64 * from;
    void *arguments[] = {&flag, &slot, &data, &count, &sends, &turn};

    told(self, true, "Recv", 7, data, data, count, from, 1, stream, self->send, arguments);
}

void ring_close(ring *self)
{
    if (tool)
        REQUIRE(!tool->finalize(self->context));
    CHECK(cuMemHostUnregister(self->shared));
    munmap(self->shared, REGION);
    free(self);
}
