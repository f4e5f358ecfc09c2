// Forks in the midst of its use of the driver; the child may not use it, and tries
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status = -1, count;
    CUcontext context;
    pid_t child;

    start_driver();
    child = fork();
    REQUIRE(child >= 0);
    if (!child) {
        CUresult get = cuDeviceGetCount(&count), current = cuCtxGetCurrent(&context);
        printf("child %d %d\n", (int)get, (int)current);
        return 6;
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(cuCtxSynchronize());
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
