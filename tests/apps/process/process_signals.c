// Signals are sent to the process while every thread that the program knows of blocks them; and glibc is made to stop all
// threads, as it does to change their user
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(void)
{
    sigset_t set;
    int i, got = 0, seen = 0;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    REQUIRE(!sigprocmask(SIG_BLOCK, &set, NULL));
    start_driver();
    for (i = 0; i < 100; i++) {
        REQUIRE(!kill(getpid(), SIGUSR1)); // would end the process in a thread that does not block it
        REQUIRE(!sigwait(&set, &got));
        seen += got == SIGUSR1;
    }
    REQUIRE(!setresuid(getuid(), geteuid(), -1));
    CHECK(cuCtxSynchronize());
    printf("%d signals\n", seen);
    return 0;
}
