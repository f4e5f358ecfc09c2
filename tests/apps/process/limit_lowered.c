// Lowers RLIMIT_FSIZE to argv[1] bytes after its first calls: going past it is a signal; argv[2]: calls afterwards
#include "check.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
    struct rlimit limit;
    int i;

    REQUIRE(argc == 3);
    CUcontext context = start_driver();
    printf("done\n");
    fflush(stdout);
    limit.rlim_cur = limit.rlim_max = atoi(argv[1]);
    REQUIRE(!setrlimit(RLIMIT_FSIZE, &limit));
    for (i = 0; i < atoi(argv[2]); i++)
        call_once(context);
    return 0;
}
