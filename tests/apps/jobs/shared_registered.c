// Two processes that have registered the same page of a file, each at its own address: kernels of one write what kernels of the
// other wait for there, and a number that one's CPU has written there the other's kernel adds
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, PAGE = 4096 };

// [number, its turn] of each process, then a number of the child's CPU
static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry post(.param .u64 p_to, .param .u64 p_from, .param .u32 p_turn)\n{\n"
    "    .reg .b32 %r<3>;\n    .reg .b64 %rd<3>;\n"
    "    ld.param.u64 %rd1, [p_to];\n    ld.param.u64 %rd2, [p_from];\n    ld.param.u32 %r1, [p_turn];\n"
    "    ld.global.u32 %r2, [%rd2];\n    st.volatile.global.u32 [%rd1], %r2;\n    membar.sys;\n"
    "    st.volatile.global.u32 [%rd1+4], %r1;\n    ret;\n}\n"
    ".visible .entry take(.param .u64 p_from, .param .u64 p_to, .param .u64 p_more, .param .u32 p_turn)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<6>;\n    .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [p_from];\n    ld.param.u64 %rd2, [p_to];\n    ld.param.u64 %rd3, [p_more];\n"
    "    ld.param.u32 %r1, [p_turn];\n"
    "SPIN:\n    ld.volatile.global.u32 %r2, [%rd1+4];\n    setp.lt.u32 %p1, %r2, %r1;\n    @%p1 bra SPIN;\n"
    "    membar.sys;\n    ld.volatile.global.u32 %r3, [%rd1];\n    ld.volatile.global.u32 %r4, [%rd3];\n"
    "    add.u32 %r5, %r3, %r4;\n    ld.global.u32 %r3, [%rd2];\n    add.u32 %r5, %r5, %r3;\n"
    "    st.global.u32 [%rd2], %r5;\n    ret;\n}\n";

static unsigned work(int rank, int file, int from, int to)
{
    unsigned start = 10 + rank, result;
    CUdeviceptr shared, data, mine, theirs, more;
    CUfunction post, take;
    CUmodule module;
    unsigned *memory;
    char token = 0;

    setenv("RANK", rank ? "1" : "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(memory != MAP_FAILED);
    memory += PAGE / sizeof *memory;
    start_driver();
    CHECK(cuMemHostRegister(memory, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&shared, memory, 0));
    CHECK(cuModuleLoadData(&module, kernels));
    post = find_kernel(module, "post");
    take = find_kernel(module, "take");
    data = allocate(sizeof start);
    CHECK(cuMemcpyHtoD(data, &start, sizeof start));
    mine = shared + 64 * rank;
    theirs = shared + 64 * !rank;
    more = shared + 512;
    for (unsigned turn = 1; turn <= ROUNDS; turn++) {
        // The parent's kernels do not run before this is there, and it stays until they have run.
        if (rank) {
            memory[512 / sizeof *memory] = 1000 * turn;
            REQUIRE(write(to, &token, 1) == 1);
        } else {
            REQUIRE(read(from, &token, 1) == 1);
            // The child's launches are given to the driver first, mostly: it then waits there for what is written after them.
            usleep(20000);
        }
        launch(post, 1, 1, (void *[]){&mine, &data, &turn});
        launch(take, 1, 1, (void *[]){&theirs, &data, &more, &turn});
        CHECK(cuCtxSynchronize());
        if (rank)
            REQUIRE(read(from, &token, 1) == 1);
        else
            REQUIRE(write(to, &token, 1) == 1);
    }
    CHECK(cuMemcpyDtoH(&result, data, sizeof result));
    CHECK(cuMemHostUnregister(memory));
    return result;
}

int main(void)
{
    int there[2], back[2], status, file = memfd_create("shared", 0);
    unsigned result;
    pid_t child;

    REQUIRE(file >= 0 && !ftruncate(file, 3 * PAGE) && !pipe(there) && !pipe(back));
    child = fork();
    if (!child)
        exit(work(1, file, there[0], back[1]) % 251);
    result = work(0, file, back[0], there[1]);
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    printf("%u %d\n", result, WEXITSTATUS(status));
    return 0;
}
