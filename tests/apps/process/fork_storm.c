// Forks children while other threads are in the driver, begin and end; each child tries the driver, too
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, CHILDREN = 20 };

static CUcontext context;
static volatile int stop;

static void *brief(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    return unused;
}

static void *work(void *unused)
{
    pthread_t thread;

    CHECK(cuCtxSetCurrent(context));
    while (!stop) {
        int i;

        for (i = 0; i < 100; i++)
            call_once(context);
        REQUIRE(!pthread_create(&thread, NULL, brief, NULL) && !pthread_join(thread, NULL));
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    int i, count, status, good = 0;

    context = start_driver();
    for (i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, work, NULL));
    for (i = 0; i < CHILDREN; i++) {
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (!child)
            _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 5 : 6);
        REQUIRE(waitpid(child, &status, 0) == child);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 5;
    }
    stop = 1;
    for (i = 0; i < THREADS; i++)
        REQUIRE(!pthread_join(threads[i], NULL));
    printf("%d children\n", good);
    return 0;
}
