// Three processes in a ring, each of which adds its neighbour's memory to its own when that says so: a token in pipes is all
// that orders them
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, N = 500, ROUNDS = 3 };

static int ends[PROCESSES][2];

static void pass(int rank, const void *bytes, size_t size) { REQUIRE(write(ends[rank][1], bytes, size) == (ssize_t)size); }
static void take(int rank, void *bytes, size_t size)
{
    int from = (rank + PROCESSES - 1) % PROCESSES;

    REQUIRE(read(ends[from][0], bytes, size) == (ssize_t)size);
}

static int work(int rank)
{
    CUdeviceptr mine, theirs;
    CUipcMemHandle handle;
    int n = N, i, round, token = 0;
    float numbers[N];
    char name[8];

    snprintf(name, sizeof name, "%d", rank);
    setenv("RANK", name, 1);
    setenv("WORLD_SIZE", "3", 1);
    start_driver();
    CUfunction add = find_kernel(load_module("vector_add"), "vector_add");
    mine = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i * (rank + 1);
    CHECK(cuMemcpyHtoD(mine, numbers, sizeof numbers));
    CHECK(cuIpcGetMemHandle(&handle, mine));
    pass(rank, &handle, sizeof handle);
    take(rank, &handle, sizeof handle);
    CHECK(cuIpcOpenMemHandle(&theirs, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    for (round = 0; round < ROUNDS; round++) {
        if (rank || round)
            take(rank, &token, sizeof token);
        launch(add, 4, 128, (void *[]){&mine, &theirs, &mine, &n});
        CHECK(cuCtxSynchronize());
        token++;
        pass(rank, &token, sizeof token);
    }
    if (rank == 0)
        take(rank, &token, sizeof token);
    CHECK(cuMemcpyDtoH(numbers, mine, sizeof numbers));
    CHECK(cuIpcCloseMemHandle(theirs));
    // Nobody frees what another may still look at.
    if (rank == 0)
        pass(rank, &token, sizeof token);
    else
        take(rank, &token, sizeof token), pass(rank, &token, sizeof token);
    return numbers[1];
}

int main(void)
{
    int rank, status, sum;
    pid_t children[PROCESSES];

    for (rank = 0; rank < PROCESSES; rank++)
        REQUIRE(!pipe(ends[rank]));
    for (rank = 1; rank < PROCESSES; rank++) {
        children[rank] = fork();
        if (!children[rank])
            exit(work(rank));
    }
    sum = work(0);
    for (rank = 1; rank < PROCESSES; rank++) {
        REQUIRE(waitpid(children[rank], &status, 0) == children[rank] && WIFEXITED(status));
        printf("%d ", WEXITSTATUS(status));
    }
    printf("%d\n", sum);
    return 0;
}
