// Is killed while one of its threads waits in the driver (for as long as CUTRACE_SIM_SLOW_US says)
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile int waiting;

static void *killer(void *unused)
{
    while (!waiting)
        usleep(1000);
    usleep(200000);
    raise(SIGKILL);
    return unused;
}

int main(void)
{
    pthread_t thread;

    start_driver();
    REQUIRE(!pthread_create(&thread, NULL, killer, NULL));
    printf("waiting\n");
    fflush(stdout);
    waiting = 1;
    CHECK(cuCtxSynchronize());
    return 0;
}
