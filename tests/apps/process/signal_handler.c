// A signal handler that calls the driver, also in the midst of a call. Writes into the file argv[1] how many calls it made
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static volatile unsigned long handled;

static void handler(int signal)
{
    CUcontext found;

    (void)signal;
    CHECK(cuCtxGetCurrent(&found));
    handled++;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    unsigned long calls = 0;
    CUcontext context;
    FILE *report;

    REQUIRE(argc == 2);
    context = start_driver();
    REQUIRE(!sigaction(SIGALRM, &action, NULL));
    REQUIRE(!setitimer(ITIMER_REAL, &every, NULL));
    while (handled < 500) {
        call_once(context);
        calls++;
    }
    REQUIRE(!setitimer(ITIMER_REAL, &never, NULL));
    report = fopen(argv[1], "w");
    REQUIRE(report);
    fprintf(report, "%lu %lu\n", calls, handled);
    REQUIRE(!fclose(report));
    printf("done\n");
    return 0;
}
