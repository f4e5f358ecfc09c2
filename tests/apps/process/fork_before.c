// Forks before the first call; parent and child both use the driver
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status = -1, count;
    pid_t child = fork();

    REQUIRE(child >= 0);
    CHECK(cuInit(0));
    if (!child) {
        CHECK(cuDeviceGetCount(&count));
        return 5;
    }
    CHECK(cuDriverGetVersion(&count));
    REQUIRE(waitpid(child, &status, 0) == child);
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
