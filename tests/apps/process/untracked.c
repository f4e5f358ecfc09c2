// The kernel will not tell what is written: userfaultfd is forbidden, as in a container. Pinned memory too long to be compared
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { N = 256 << 10, ROUNDS = 200 };

int main(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    int *pinned, n = 128, round, result;
    CUdeviceptr memory;

    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemAllocHost((void **)&pinned, N * sizeof(int)));
    memory = allocate(n * sizeof(int));
    for (round = 0; round < ROUNDS; round++) {
        pinned[3] = round;
        launch(take, 1, n, (void *[]){&memory, &pinned, &n});
        CHECK(cuMemcpyDtoH(&result, memory + 3 * sizeof(int), sizeof result));
        REQUIRE(result == round);
    }
    printf("%d\n", result);
    return 0;
}
