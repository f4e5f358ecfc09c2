// Before its first driver call a program takes away what the recorder may need: its environment, its root directory,
// its descriptors, its right to make files (Landlock), its life. The way is the first argument
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void refuse_files(void)
{
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG};
    int set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);

    if (set < 0) {
        printf("no Landlock\n");
        exit(77);
    }
    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_landlock_restrict_self, set, 0));
    close(set);
}

static void take_descriptors(void)
{
    struct rlimit few = {32, 32};

    REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
    while (dup(2) >= 0)
        ;
}

// Closes the recorder's directory, so that the trace goes below the new root directory. The recorder asks for the
// host's name when it has made the trace: that ends the program.
static void end_at_uname(const char *root)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    int i;

    for (i = 3; i < 1024; i++)
        close(i);
    REQUIRE(!chroot(root) && !chdir("/"));
    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

// Opens the directory of the trace under the number that the recorder had for it.
static void take_number(const char *directory)
{
    int i, opened;

    for (i = 3; i < 1024; i++)
        close(i);
    opened = open(directory, O_RDONLY | O_DIRECTORY);
    REQUIRE(opened >= 0 && dup2(opened, 100) == 100);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int i, seen[64];
    CUdeviceptr memory;

    if (!strcmp(way, "environment"))
        REQUIRE(!clearenv() && !setenv("PATH", "/usr/bin", 1));
    else if (!strcmp(way, "root"))
        REQUIRE(!chroot(argv[2]) && !chdir("/"));
    else if (!strcmp(way, "ended"))
        end_at_uname(argv[2]);
    else if (!strcmp(way, "number"))
        take_number(argv[2]);
    else if (!strcmp(way, "files"))
        refuse_files();
    else if (!strcmp(way, "descriptors"))
        take_descriptors();
    else if (!strcmp(way, "size"))
        REQUIRE(!setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}));
    start_driver();
    memory = allocate(sizeof seen);
    CHECK(cuMemsetD32(memory, 7, 64));
    CHECK(cuMemcpyDtoH(seen, memory, sizeof seen));
    for (i = 0; i < 64; i++)
        REQUIRE(seen[i] == 7);
    if (!strcmp(way, "number"))
        REQUIRE(fcntl(100, F_GETFD) >= 0);
    printf("%s: %d\n", way, seen[0]);
    return 0;
}
