// A registered shared mapping that a kernel reads in place once, and copies read again and again. The program fills it itself; with
// "child" a child does, of which neither a call nor a page of this process tells; with "in place" the kernel reads it each time
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 18, BYTES = N * sizeof(int), STEPS = 6 };

static void fill(int *slot, int step)
{
    int i;

    for (i = 0; i < N; i += step % 3 ? 1 : 5000)
        slot[i] = 7 * i + step;
}

int main(int argc, char **argv)
{
    int *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int by_child = argc > 1, in_place = argc > 1 && !strcmp(argv[1], "in place");
    int ask[2], tell[2], step, got, n = 256, results[256];
    CUdeviceptr memory, out, mapped;
    CUstream stream;
    pid_t child = -1;

    REQUIRE(shared != MAP_FAILED && !pipe(ask) && !pipe(tell));
    if (by_child && !(child = fork())) {
        close(ask[1]);
        while (read(ask[0], &step, sizeof step) == sizeof step) {
            fill(shared, step);
            if (write(tell[1], &step, sizeof step) != sizeof step)
                break;
        }
        _exit(0);
    }
    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostRegister(shared, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&mapped, shared, 0));
    memory = allocate(BYTES);
    out = allocate(sizeof results);
    for (step = 0; step < STEPS; step++) {
        if (!by_child)
            fill(shared, step);
        else
            REQUIRE(write(ask[1], &step, sizeof step) == sizeof step && read(tell[0], &got, sizeof got) == sizeof got && got == step);
        if (!step || in_place) {
            CHECK(cuLaunchKernel(take, 1, 1, 1, 256, 1, 1, 0, stream, (void *[]){&out, &mapped, &n}, NULL));
        } else {
            CHECK(cuMemcpyHtoDAsync(memory, shared, BYTES, stream));
            CHECK(cuLaunchKernel(take, 1, 1, 1, 256, 1, 1, 0, stream, (void *[]){&out, &memory, &n}, NULL));
        }
        CHECK(cuMemcpyDtoHAsync(results, out, sizeof results, stream));
        CHECK(cuStreamSynchronize(stream));
        printf("%d: %d %d\n", step, results[1], results[255]);
    }
    close(ask[1]);
    REQUIRE(child < 0 || waitpid(child, NULL, 0) == child);
    return 0;
}
