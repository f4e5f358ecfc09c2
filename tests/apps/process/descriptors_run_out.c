// Closes the descriptors it does not know, and for two seconds all that it may have are taken; then there are some again
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void)
{
    struct rlimit before, few;
    int i;

    CUcontext context = start_driver();
    REQUIRE(!getrlimit(RLIMIT_NOFILE, &before));
    for (i = 3; i < 1000; i++)
        close(i);
    few = before;
    few.rlim_cur = 3;
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
    REQUIRE(open("/dev/null", O_RDONLY) < 0);
    sleep(2);
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &before));
    for (i = 0; i < 50000; i++)
        call_once(context);
    printf("done\n");
    return 0;
}
