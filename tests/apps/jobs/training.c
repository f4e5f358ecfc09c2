// One rank of a training that shares what all ranks have found, in place and on a stream of its own, and goes on
// from the sum: a kernel uses it, and the CPU looks at the weights every few steps
// Arguments: the file that the ranks share, rank, ranks, steps, and what is special about it: `captured` has the sum
// made by a graph each time, `graph` by one that runs each time, `graphs` has all operations in one; `failed` first fails to capture one,
// `updated` makes it anew, `switched` does so when a node is switched off, `changed` changes it, `cloned`, `child` and `described` launch
// another graph that has it, `all` does one of each operation as well, `fault` has rank 1 write, behind the last step, where the sum says,
// `devices` has each on a device of its own, where it maps its weights; it looks at all devices,
// `peers` has each map memory of the one before, as NCCL does for its kernels, `touched` look into it, too
#include "check.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { N = 16 };
#define KIND CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

typedef struct ring ring;
ring *ring_open(const char *path, int region, uint64_t id, const char *name, int rank, int ranks);
void ring_all_reduce(ring *, CUdeviceptr data, unsigned count, CUstream);
void ring_all_reduce_both(ring *, CUdeviceptr data, unsigned count, CUstream);
void ring_all_gather(ring *, CUdeviceptr from, CUdeviceptr to, unsigned count, CUstream);
void ring_reduce_scatter(ring *, CUdeviceptr from, CUdeviceptr to, unsigned count, CUstream);
void ring_broadcast(ring *, CUdeviceptr data, unsigned count, int root, CUstream);
void ring_reduce(ring *, CUdeviceptr from, CUdeviceptr to, unsigned count, int root, CUstream);
void ring_send(ring *, CUdeviceptr data, unsigned count, int to, CUstream);
void ring_receive(ring *, CUdeviceptr data, unsigned count, int from, CUstream);
void ring_close(ring *);

// g = 5 w + a number, w = 3 w + g, and what takes the sum for an index
static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry gradient(.param .u64 p_w, .param .u64 p_g, .param .u32 p_of)\n{\n"
    "    .reg .b32 %r<6>;\n    .reg .b64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [p_w];\n    ld.param.u64 %rd2, [p_g];\n    ld.param.u32 %r1, [p_of];\n    mov.u32 %r2, %tid.x;\n"
    "    mul.wide.u32 %rd3, %r2, 4;\n    add.u64 %rd4, %rd1, %rd3;\n    add.u64 %rd5, %rd2, %rd3;\n"
    "    ld.global.u32 %r3, [%rd4];\n    mul.lo.u32 %r4, %r3, 5;\n    add.u32 %r4, %r4, %r1;\n    st.global.u32 [%rd5], %r4;\n    ret;\n}\n"
    ".visible .entry step(.param .u64 p_w, .param .u64 p_g)\n{\n"
    "    .reg .b32 %r<6>;\n    .reg .b64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [p_w];\n    ld.param.u64 %rd2, [p_g];\n    mov.u32 %r2, %tid.x;\n"
    "    mul.wide.u32 %rd3, %r2, 4;\n    add.u64 %rd4, %rd1, %rd3;\n    add.u64 %rd5, %rd2, %rd3;\n"
    "    ld.global.u32 %r3, [%rd4];\n    ld.global.u32 %r4, [%rd5];\n    mad.lo.u32 %r3, %r3, 3, %r4;\n    st.global.u32 [%rd4], %r3;\n    ret;\n}\n"
    ".visible .entry pick(.param .u64 p_w, .param .u64 p_g)\n{\n"
    "    .reg .b32 %r<4>;\n    .reg .b64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [p_w];\n    ld.param.u64 %rd2, [p_g];\n    ld.global.u32 %r1, [%rd2];\n"
    "    mul.wide.u32 %rd3, %r1, 1048576;\n    add.u64 %rd4, %rd1, %rd3;\n    st.global.u32 [%rd4], %r1;\n    ret;\n}\n";

typedef struct { CUipcMemHandle memory; CUipcEventHandle event; } handles;

static struct sockaddr_un socket_of(int rank)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%d.socket", rank);
    return address;
}

// Gives them to the next rank, and takes those of the one before; the descriptor's number is another then
static void exchange(int rank, int ranks, handles *all, int *file)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct sockaddr_un own = socket_of(rank), next = socket_of((rank + 1) % ranks);
    struct iovec part = {all, sizeof *all};
    struct msghdr message = {.msg_name = &next, .msg_namelen = sizeof next, .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int end = socket(AF_UNIX, SOCK_DGRAM, 0);

    REQUIRE(end >= 0 && !bind(end, (struct sockaddr *)&own, sizeof own));
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), file, sizeof(int));
    while (sendmsg(end, &message, 0) < 0)
        usleep(1000);
    message.msg_name = NULL, message.msg_namelen = 0;
    REQUIRE(recvmsg(end, &message, 0) == sizeof *all && CMSG_FIRSTHDR(&message));
    memcpy(file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    close(end);
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle memory, size_t granule, CUmemLocation where)
{
    CUmemAccessDesc access = {.location = where, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;

    CHECK(cuMemAddressReserve(&at, granule, 0, 0, 0));
    CHECK(cuMemMap(at, granule, 0, memory, 0));
    CHECK(cuMemSetAccess(at, granule, &access, 1));
    CHECK(cuMemRelease(memory));
    return at;
}

// The memory of the rank before. Where that lies is put into memory of our own, as for kernels.
static CUdeviceptr memory_of_peer(int rank, int ranks, CUdeviceptr table, CUdeviceptr given, CUevent event, CUstream stream)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = KIND, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle memory;
    CUdeviceptr own, opened;
    size_t granule;
    handles all;
    int file;

    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&file, memory, KIND, 0));
    own = mapped(memory, granule, properties.location);
    CHECK(cuMemsetD32(own, rank + 77, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&all.memory, given));
    CHECK(cuIpcGetEventHandle(&all.event, event));
    exchange(rank, ranks, &all, &file);
    CHECK(cuIpcOpenMemHandle(&opened, all.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcOpenEventHandle(&event, all.event));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    CHECK(cuMemImportFromShareableHandle(&memory, (void *)(uintptr_t)file, KIND));
    own = mapped(memory, granule, properties.location);
    CHECK(cuMemcpyHtoD(table, &own, sizeof own));
    return own;
}

// As libraries do that find out who reaches whom
static void start_on(int rank)
{
    CUdevice devices[16], found;
    CUcontext context;
    int count, value;
    unsigned flags;
    char name[64];
    size_t bytes;
    CUuuid id;

    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    REQUIRE(count <= 16);
    for (int i = 0; i < count; i++) {
        CHECK(cuDeviceGet(&devices[i], i));
        CHECK(cuDeviceGetName(name, sizeof name, devices[i]));
        CHECK(cuDeviceGetUuid(&id, devices[i]));
        CHECK(cuDeviceTotalMem(&bytes, devices[i]));
        CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, devices[i]));
        CHECK(cuDeviceGetPCIBusId(name, sizeof name, devices[i]));
        CHECK(cuDeviceGetByPCIBusId(&found, name));
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            if (i == j)
                continue;
            CHECK(cuDeviceCanAccessPeer(&value, devices[i], devices[j]));
            CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, devices[i], devices[j]));
        }
    CHECK(cuDevicePrimaryCtxRetain(&context, devices[rank % count]));
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < count; i++) {
        CHECK(cuDevicePrimaryCtxGetState(devices[i], &flags, &value));
        REQUIRE(value == (i == rank % count));
    }
}

// On the current device, filled; those that reach it are given access, too
static CUdeviceptr mapped_here(size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = KIND, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access[16] = {0};
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at;
    size_t granule;
    int count;

    CHECK(cuCtxGetDevice(&properties.location.id));
    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    at = mapped(memory, granule, properties.location);
    CHECK(cuMemsetD8Async(at, 0, bytes, NULL));
    CHECK(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++)
        access[i] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}, .flags = i == properties.location.id ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ};
    CHECK(cuMemSetAccess(at, granule, access, count));
    return at;
}

static bool is_one_of(const char *special, const char *const *names)
{
    while (*names && strcmp(special, *names))
        names++;
    return *names;
}

// Set when no graph holds the object any more, as NCCL waits for it
static volatile bool is_let_go;

static void lets_go(void *of) { (void)of, is_let_go = true; }

static CUgraph captured(ring *world, CUdeviceptr data, CUdeviceptr other, CUstream stream, const char *special)
{
    unsigned part = N / 4;
    CUgraph graph;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async(other, 7, N, stream));
    if (!strcmp(special, "graphs")) {
        // Two as one launch, where results of one are what the next begins with, and one that brings nothing to most ranks
        ring_all_reduce_both(world, data, N / 2, stream);
        ring_all_gather(world, data, other, part, stream);
        ring_broadcast(world, other, N, 0, stream);
        ring_reduce(world, other, data, part, 0, stream);
    }
    ring_all_reduce(world, data, N, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    return graph;
}

// One that fails, into memory that is gone when the next one runs
static void fail_to_capture(ring *world, CUstream stream)
{
    CUdeviceptr gone = allocate(N * 4);
    CUstream forked;
    CUevent event;
    CUgraph graph;

    CHECK(cuStreamCreate(&forked, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ring_all_reduce(world, gone, N, stream);
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(forked, event, 0));
    CHECK(cuMemsetD32Async(gone, 7, N, forked));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
    CHECK(cuMemFree(gone));
}

static CUgraphExec instantiated(ring *world, CUdeviceptr data, CUdeviceptr other, CUstream stream, const char *special)
{
    CUgraph graph, around;
    CUgraphExec executable;
    CUgraphNode fill, child;
    CUuserObject object;
    size_t count = 1;

    if (!strcmp(special, "failed"))
        fail_to_capture(world, stream);
    graph = captured(world, data, other, stream, special);
    CHECK(cuUserObjectCreate(&object, &executable, lets_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    if (!strcmp(special, "cloned")) {
        CHECK(cuGraphClone(&around, graph));
    } else if (!strcmp(special, "child")) {
        CHECK(cuGraphCreate(&around, 0));
        CHECK(cuGraphAddChildGraphNode(&child, around, NULL, 0, graph));
    } else if (!strcmp(special, "described")) {
        CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = graph}};
        CHECK(cuGraphCreate(&around, 0));
        CHECK(cuGraphAddNode(&child, around, NULL, NULL, 0, &params));
    } else {
        around = NULL;
    }
    CHECK(cuGraphInstantiate(&executable, around ? around : graph, 0));
    CHECK(cuGraphGetRootNodes(graph, &fill, &count));
    if (!strcmp(special, "changed")) {
        CUDA_MEMSET_NODE_PARAMS eights = {.dst = other, .value = 8, .elementSize = 4, .width = N, .height = 1};
        CUcontext context;
        CHECK(cuCtxGetCurrent(&context));
        CHECK(cuGraphExecMemsetNodeSetParams(executable, fill, &eights, context));
    }
    if (!strcmp(special, "switched")) {
        CHECK(cuMemsetD32(other, 9, N));
        CHECK(cuGraphNodeSetEnabled(executable, fill, 0));
    }
    if (!strcmp(special, "updated") || !strcmp(special, "switched")) {
        CUgraphExecUpdateResultInfo result;
        CUgraph newer = captured(world, data, other, stream, special);
        CHECK(cuGraphExecUpdate(executable, newer, &result));
        CHECK(cuGraphDestroy(newer));
    }
    if (around)
        CHECK(cuGraphDestroy(around));
    CHECK(cuGraphDestroy(graph));
    return executable;
}

static const char *const of_graphs[] = {"captured", "graph", "graphs", "failed", "updated", "switched", "changed", "cloned", "child", "described", NULL};

// In a graph, which is made anew each time if that is what is special; and its end, if there is no more to reduce
static void reduce_by_graph(ring *world, CUdeviceptr data, CUdeviceptr other, CUstream stream, const char *special)
{
    static CUgraphExec executable;
    bool is_anew = !strcmp(special, "captured");

    if (data && !executable)
        executable = instantiated(world, data, other, stream, special);
    if (data)
        CHECK(cuGraphLaunch(executable, stream));
    if (executable && (is_anew || !data)) {
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuGraphExecDestroy(executable));
        executable = NULL;
        for (int i = 0; !is_let_go; i++, usleep(1000))
            REQUIRE(i < 20000);
        is_let_go = false;
    }
}

int main(int argc, char **argv)
{
    int rank = atoi(argv[2]), ranks = atoi(argv[3]), steps = atoi(argv[4]);
    uint32_t values[N], sum = 0;
    CUdeviceptr weights, gradients, other;
    CUstream compute, side;
    CUmodule module;
    CUevent ready, reduced, shared;
    CUdeviceptr peers = 0;

    const char *special = argc > 5 ? argv[5] : "";

    if (!strcmp(special, "devices"))
        start_on(rank);
    else
        start_driver();
    CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&reduced, CU_EVENT_DISABLE_TIMING));
    CHECK(cuModuleLoadData(&module, kernels));
    CUfunction gradient = find_kernel(module, "gradient"), step = find_kernel(module, "step");
    weights = strcmp(special, "devices") ? allocate(sizeof values) : mapped_here(sizeof values);
    gradients = allocate(sizeof values);
    other = is_one_of(special, of_graphs) ? allocate(sizeof values) : 0;
    ring *world = ring_open(argv[1], 0, 0x1234567890abcdefull, "world", rank, ranks);
    if (!strcmp(special, "peers") || !strcmp(special, "touched")) {
        CHECK(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
        peers = memory_of_peer(rank, ranks, gradients, allocate(1 << 21), shared, compute);
    }
    for (int i = 0; i < N; i++)
        values[i] = i + 1;
    CHECK(cuMemcpyHtoD(weights, values, sizeof values));
    for (int turn = 1; turn <= steps; turn++) {
        unsigned of = (rank + 1) * 1000 + turn;
        CHECK(cuLaunchKernel(gradient, 1, 1, 1, N, 1, 1, 0, compute, (void *[]){&weights, &gradients, &of}, NULL));
        CHECK(cuEventRecord(ready, compute));
        CHECK(cuStreamWaitEvent(side, ready, 0));
        if (is_one_of(special, of_graphs))
            reduce_by_graph(world, gradients, other, side, special);
        else
            ring_all_reduce(world, gradients, N, side);
        CHECK(cuEventRecord(reduced, side));
        CHECK(cuStreamWaitEvent(compute, reduced, 0));
        CHECK(cuLaunchKernel(step, 1, 1, 1, N, 1, 1, 0, compute, (void *[]){&weights, &gradients}, NULL));
        if (turn % 3 == 0 || turn == steps) {
            CHECK(cuMemcpyDtoHAsync(values, weights, sizeof values, compute));
            CHECK(cuStreamSynchronize(compute));
            sum += values[0] + values[N - 1];
        }
    }
    if (is_one_of(special, of_graphs)) {
        // What the fill in the graph left, or was switched off to leave
        CHECK(cuMemcpyDtoHAsync(values, other, sizeof values, side));
        CHECK(cuStreamSynchronize(side));
        sum = sum * 31 + values[0];
        reduce_by_graph(world, 0, 0, side, special);
    }
    for (int turn = 0; !strcmp(special, "all") && turn < 5; turn++) {
        CUdeviceptr gathered = allocate(sizeof values);
        unsigned part = N / ranks;
        CHECK(cuMemsetD32Async(gathered, 7, N, compute));
        if (turn == 0)
            ring_all_reduce_both(world, gradients, N / 2, compute), ring_all_gather(world, gradients, gathered, part, compute);
        else if (turn == 1)
            ring_reduce_scatter(world, weights, gathered, part, compute);
        else if (turn == 2)
            ring_broadcast(world, weights, N, 1 % ranks, compute);
        else if (turn == 3)
            ring_reduce(world, weights, gathered, N, 0, compute);
        else
            ring_all_gather(world, weights, gathered, 1, compute);
        CHECK(cuLaunchKernel(step, 1, 1, 1, N, 1, 1, 0, compute, (void *[]){&weights, &gathered}, NULL));
        CHECK(cuMemcpyDtoHAsync(values, weights, sizeof values, compute));
        CHECK(cuStreamSynchronize(compute));
        for (int i = 0; i < N; i++)
            sum = sum * 31 + values[i];
        CHECK(cuMemFree(gathered));
    }
    if (!strcmp(special, "fault") && rank == 1) {
        CUfunction pick = find_kernel(module, "pick");
        CHECK(cuLaunchKernel(pick, 1, 1, 1, 1, 1, 1, 0, compute, (void *[]){&weights, &gradients}, NULL));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(compute));
        puts("fault");
        return 0;
    }
    if (!strcmp(special, "touched")) {
        CHECK(cuMemcpyDtoDAsync(gradients, peers, sizeof values, compute));
        CHECK(cuLaunchKernel(step, 1, 1, 1, N, 1, 1, 0, compute, (void *[]){&weights, &gradients}, NULL));
        CHECK(cuMemcpyDtoHAsync(values, weights, sizeof values, compute));
        CHECK(cuStreamSynchronize(compute));
        sum += values[2];
    }
    // What one rank has goes to the next, which goes on with it
    if (ranks > 1 && rank < 2) {
        if (rank == 0)
            ring_send(world, weights, N, 1, compute);
        else
            ring_receive(world, gradients, N, 0, compute);
        CHECK(cuLaunchKernel(step, 1, 1, 1, N, 1, 1, 0, compute, (void *[]){&weights, &gradients}, NULL));
        CHECK(cuMemcpyDtoHAsync(values, weights, sizeof values, compute));
        CHECK(cuStreamSynchronize(compute));
        sum += values[1];
    }
    ring_close(world);
    printf("%u\n", sum);
    return 0;
}
