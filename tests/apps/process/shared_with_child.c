// Much pinned memory that a child process has, too, and writes while nobody can see it
#include "../check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 20, BYTES = N * sizeof(int) };

int main(void)
{
    int *shared, result, n = 256;

    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CUdeviceptr memory = allocate(BYTES);
    shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cuMemHostRegister(shared, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    launch(take, 1, 256, (void *[]){&memory, &shared, &n});
    CHECK(cuCtxSynchronize());
    pid_t child = fork();
    if (!child) {
        shared[7] = 77;
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    launch(take, 1, 256, (void *[]){&memory, &shared, &n});
    CHECK(cuMemcpyDtoH(&result, memory + 7 * sizeof(int), sizeof result));
    REQUIRE(result == 77);
    printf("%d\n", result);
    return 0;
}
