// Forks within a driver call: it returns twice
#include "unwinding.h"
#include <sys/wait.h>
#include <unistd.h>

static pid_t child = -1;

static size_t callback(int threads)
{
    (void)threads;
    if (child < 0)
        child = fork();
    return 0;
}

int main(void)
{
    int status, count;

    unwinding_start();
    CHECK(call_with_callback(callback));
    if (!child)
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 5 : 6);
    REQUIRE(waitpid(child, &status, 0) == child);
    go_on();
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
