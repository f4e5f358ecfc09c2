// Replaces itself, or starts itself, in the way that argv[1] names
#include "check.h"
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    char *arguments[] = {argv[0], "again", NULL};
    int status = -1, count;
    pid_t child = -1;

    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    if (!strcmp(argv[1], "again")) {
        CHECK(cuDeviceGetCount(&count));
        printf("again %d\n", count);
        return 9;
    }
    CHECK(cuDriverGetVersion(&count));
    printf("first\n");
    fflush(stdout);
    if (!strcmp(argv[1], "exec"))
        execv(argv[0], arguments);
    if (!strcmp(argv[1], "vfork") && !(child = vfork())) {
        execv(argv[0], arguments);
        _exit(1);
    }
    if (!strcmp(argv[1], "spawn"))
        REQUIRE(!posix_spawn(&child, argv[0], NULL, NULL, arguments, environ));
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(cuDeviceGetCount(&count));
    printf("first %d\n", WEXITSTATUS(status));
    return 0;
}
