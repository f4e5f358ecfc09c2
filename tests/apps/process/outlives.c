// A child that outlives its parent: it calls the driver, waits for the file argv[1], and makes the file "done".
// With OUTLIVES_WAITS set the parent waits for it; with OUTLIVES_INHERITS set it has what the parent's trace is written by
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int ready[2], count, tries;
    char byte;
    pid_t child;

    REQUIRE(argc == 2 && !pipe(ready));
    if (getenv("OUTLIVES_INHERITS"))
        CHECK(cuInit(0));
    child = fork();
    REQUIRE(child >= 0);
    if (!getenv("OUTLIVES_INHERITS"))
        CHECK(cuInit(0));
    if (child) {
        REQUIRE(read(ready[0], &byte, 1) == 1);
        if (getenv("OUTLIVES_WAITS"))
            waitpid(child, &count, 0);
        return 0;
    }
    // What its parent has begun to use it may not
    REQUIRE(cuDeviceGetCount(&count) == CUDA_SUCCESS || getenv("OUTLIVES_INHERITS"));
    REQUIRE(write(ready[1], "x", 1) == 1);
    for (tries = 0; access(argv[1], F_OK) && tries < 2000; tries++)
        usleep(10000);
    fclose(fopen("done", "w"));
    return 0;
}
