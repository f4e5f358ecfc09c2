// Memory and an event of a process that another uses by their handles, and whose results the first takes
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, TURNS = 3 };

struct Shared {
    CUipcMemHandle memory;
    CUipcEventHandle event;
};

static void pass(int file, const void *bytes, size_t size) { REQUIRE(write(file, bytes, size) == (ssize_t)size); }
static void take(int file, void *bytes, size_t size) { REQUIRE(read(file, bytes, size) == (ssize_t)size); }

static int child(int in, int out)
{
    struct Shared shared;
    CUdeviceptr memory, own;
    CUevent event;
    int numbers[N], n = N, turn, i;

    take(in, &shared, sizeof shared);
    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuIpcOpenMemHandle(&memory, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcOpenEventHandle(&event, shared.event));
    // No allocation begins there: it stays open.
    REQUIRE(cuMemFree(memory + sizeof(int)));
    own = allocate(sizeof numbers);
    for (turn = 0; turn < TURNS; turn++) {
        take(in, &i, sizeof i);
        // The parent has only recorded it: its work may be under way.
        CHECK(cuStreamWaitEvent(0, event, 0));
        launch(twice, 8, 128, (void *[]){&memory, &n});
        CHECK(cuMemcpyDtoD(own, memory, sizeof numbers));
        CHECK(cuMemcpyDtoH(numbers, own, sizeof numbers));
        for (i = 0; i < N; i++)
            REQUIRE(numbers[i] == 4 * (i + turn));
        pass(out, &turn, sizeof turn);
    }
    CHECK(cuEventDestroy(event));
    CHECK(cuIpcCloseMemHandle(memory));
    CHECK(cuMemFree(own));
    return 7;
}

int main(void)
{
    struct Shared shared;
    int there[2], back[2], numbers[N], n = N, turn, i, status, sum = 0;
    CUdeviceptr neighbour, memory;
    CUevent event;
    CUstream stream;

    REQUIRE(!pipe(there) && !pipe(back));
    pid_t process = fork();
    if (!process)
        return child(there[0], back[1]);
    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    neighbour = allocate(100);
    memory = allocate(sizeof numbers);
    REQUIRE(cuIpcOpenMemHandle(&neighbour, (CUipcMemHandle){{0}}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcGetMemHandle(&shared.memory, memory));
    CHECK(cuIpcGetEventHandle(&shared.event, event));
    pass(there[1], &shared, sizeof shared);
    for (turn = 0; turn < TURNS; turn++) {
        for (i = 0; i < N; i++)
            numbers[i] = i + turn;
        CHECK(cuMemcpyHtoDAsync(memory, numbers, sizeof numbers, stream));
        CHECK(cuLaunchKernel(twice, 8, 1, 1, 128, 1, 1, 0, stream, (void *[]){&memory, &n}, NULL));
        CHECK(cuEventRecord(event, stream));
        pass(there[1], &turn, sizeof turn);
        take(back[0], &i, sizeof i);
        CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
        sum += numbers[N - 1];
    }
    REQUIRE(waitpid(process, &status, 0) == process && WEXITSTATUS(status) == 7);
    CHECK(cuMemFree(memory));
    printf("%d\n", sum);
    return 0;
}
