// Is killed while one of its threads waits in the driver (for as long as CUTRACE_SIM_SLOW_US says)
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile int waiting;

// The state of the first thread
static char state(void)
{
    char path[64], found;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    REQUIRE((file = fopen(path, "r")) && fscanf(file, "%*d (%*[^)]) %c", &found) == 1);
    fclose(file);
    return found;
}

static void *killer(void *unused)
{
    // The driver sleeps; for a moment somebody else might.
    for (int asleep = 0; asleep < 20; usleep(10000))
        asleep = waiting && state() == 'S' ? asleep + 1 : 0;
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
