// Has taken every descriptor that it may have before its first call, and looks whether errno is left alone
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    struct rlimit limit, after;
    int i, left = count > 1 ? atoi(arguments[1]) : 0, last = -1, taken = 0;

    REQUIRE(!getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 64;
    REQUIRE(limit.rlim_max > 256 && !setrlimit(RLIMIT_NOFILE, &limit));
    while ((i = open("/dev/null", O_RDONLY)) >= 0)
        last = i, taken++;
    for (i = 0; i < left; i++)
        close(last - i);
    errno = 77;
    CUcontext context = start_driver();
    for (i = 0; i < 1000; i++)
        call_once(context);
    CUdeviceptr memory = allocate(sizeof i);
    CHECK(cuMemcpyHtoD(memory, &i, sizeof i));
    printf("errno %d\n", errno);
    REQUIRE(!getrlimit(RLIMIT_NOFILE, &after) && after.rlim_cur == limit.rlim_cur && after.rlim_max == limit.rlim_max);
    // Those that were left are left still.
    for (i = 0; open("/dev/null", O_RDONLY) >= 0; i++)
        ;
    printf("%d left\n", i);
    return 0;
}
