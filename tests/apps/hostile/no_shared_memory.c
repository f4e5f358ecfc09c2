// A sandbox refuses System V shared memory (seccomp answers EPERM); argv[1]: how to end
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_shmget, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof steps / sizeof *steps, steps };
    CUcontext current, context;
    int i;

    REQUIRE(argc == 2);
    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    REQUIRE(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    context = start_driver();
    for (i = 0; i < 20000; i++) {
        CHECK(cuCtxGetCurrent(&current));
        REQUIRE(current == context);
    }
    printf("done\n");
    fflush(stdout);
    if (!strcmp(argv[1], "kill"))
        kill(getpid(), SIGKILL);
    return 0;
}
