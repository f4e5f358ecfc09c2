// Before its first driver call a program takes away what the recorder may need: its environment, its root directory,
// its descriptors, its right to make files (Landlock), its life. The way is the first argument
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
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

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int i, seen[64];
    CUdeviceptr memory;

    if (!strcmp(way, "environment"))
        REQUIRE(!clearenv() && !setenv("PATH", "/usr/bin", 1));
    else if (!strcmp(way, "root"))
        REQUIRE(!chroot(argv[2]) && !chdir("/"));
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
    printf("%s: %d\n", way, seen[0]);
    return 0;
}
