// A sandbox refuses what a recorder needs (seccomp answers EPERM): argv[1] is memory that outlives the process (shmget),
// or memory that a child finds empty (madvise); argv[2]: how to end
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_shmget, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPC_PRIVATE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof steps / sizeof *steps, steps };
    CUcontext context;
    int i;

    REQUIRE(argc == 3);
    if (strcmp(argv[1], "shmget")) {
        steps[1].k = SYS_madvise;
        steps[2].k = offsetof(struct seccomp_data, args[2]);
        steps[3].k = MADV_WIPEONFORK;
    }
    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    REQUIRE(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    context = start_driver();
    for (i = 0; i < 20000; i++) {
        call_once(context);
    }
    printf("done\n");
    fflush(stdout);
    if (!strcmp(argv[2], "kill"))
        kill(getpid(), SIGKILL);
    return 0;
}
