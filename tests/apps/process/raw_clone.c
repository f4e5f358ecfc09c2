// Makes a child past all fork handlers
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status = -1, count;
    long child;

    start_driver();
    child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    REQUIRE(child >= 0);
    if (!child)
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 7 : 8);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(cuCtxSynchronize());
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
