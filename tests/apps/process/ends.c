// Ends in the way that argv[1] names, with nothing destroyed before
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    CUdeviceptr memory;
    const char *way = argc == 2 ? argv[1] : "";

    start_driver();
    CHECK(cuMemAlloc(&memory, 1000));
    CHECK(cuMemsetD8(memory, 1, 1000));
    printf("%s\n", way);
    fflush(stdout);
    if (!strcmp(way, "_exit"))
        _exit(11);
    if (!strcmp(way, "quick_exit"))
        quick_exit(12);
    if (!strcmp(way, "abort"))
        abort();
    if (!strcmp(way, "fault"))
        *(volatile int *)8 = 1;
    if (!strcmp(way, "kill"))
        raise(SIGKILL);
    return 13;
}
