// argv[1] threads call the driver until the file argv[2] is there, while somebody truncates the trace; argv[3]: how to end
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static CUcontext context;
static volatile int stop;

static void *work(void *unused)
{

    CHECK(cuCtxSetCurrent(context));
    while (!stop) {
        call_once(context);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t all[16];
    int threads, i;

    REQUIRE(argc == 4);
    threads = atoi(argv[1]);
    REQUIRE(threads > 0 && threads <= 16);
    context = start_driver();
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_create(&all[i], NULL, work, NULL));
    while (access(argv[2], F_OK))
        usleep(1000);
    stop = 1;
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_join(all[i], NULL));
    printf("done\n");
    fflush(stdout);
    if (!strcmp(argv[3], "kill"))
        kill(getpid(), SIGKILL);
    return 7;
}
