// Forks after its first calls; in the child another thread than the one that forked calls first
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *unused)
{
    int count;

    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    return unused;
}

int main(void)
{
    pthread_t thread;
    pid_t child;
    int status;

    start_driver();
    child = fork();
    if (!child) {
        REQUIRE(!pthread_create(&thread, NULL, work, NULL));
        REQUIRE(!pthread_join(thread, NULL));
        return 0;
    }
    REQUIRE(waitpid(child, &status, 0) == child && !status);
    return 0;
}
