// Started by root, it becomes another user before its first driver call, as a server does
#include "check.h"
#include <grp.h>
#include <unistd.h>

int main(void)
{
    CUcontext current;
    int i;

    REQUIRE(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
    start_driver();
    for (i = 0; i < 700; i++)
        CHECK(cuCtxGetCurrent(&current));
    printf("done\n");
    return 0;
}
