// A child that outlives its parent: it calls the driver, waits for the file argv[1], and makes the file "done".
// With OUTLIVES_WAITS set the parent waits for it
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int ready[2], count, tries;
    char byte;
    pid_t child;

    REQUIRE(argc == 2 && !pipe(ready));
    child = fork();
    REQUIRE(child >= 0);
    CHECK(cuInit(0));
    if (child) {
        REQUIRE(read(ready[0], &byte, 1) == 1);
        if (getenv("OUTLIVES_WAITS"))
            waitpid(child, &count, 0);
        return 0;
    }
    CHECK(cuDeviceGetCount(&count));
    REQUIRE(write(ready[1], "x", 1) == 1);
    for (tries = 0; access(argv[1], F_OK) && tries < 2000; tries++)
        usleep(10000);
    fclose(fopen("done", "w"));
    return 0;
}
