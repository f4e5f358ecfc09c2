// The System V shared memory of this process is gone when it has ended. argv[1]: why; argv[2] threads call the driver
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/shm.h>
#include <unistd.h>

static CUcontext context;

static void *work(void *unused)
{
    int i;

    CHECK(cuCtxSetCurrent(context));
    for (i = 0; i < 20000; i++)
        call_once(context);
    return unused;
}

static void remove_own(void)
{
    FILE *all = fopen("/proc/sysvipc/shm", "r");
    char line[512];
    int id, pid;

    REQUIRE(all);
    while (fgets(line, sizeof line, all))
        if (sscanf(line, "%*d %d %*o %*d %d", &id, &pid) == 2 && pid == getpid())
            REQUIRE(!shmctl(id, IPC_RMID, NULL));
    fclose(all);
}

int main(int argc, char **argv)
{
    pthread_t all[16];
    int threads, i;

    REQUIRE(argc == 3);
    threads = atoi(argv[2]);
    REQUIRE(threads > 0 && threads <= 16);
    if (!strcmp(argv[1], "namespace") && unshare(CLONE_NEWIPC) && unshare(CLONE_NEWUSER | CLONE_NEWIPC))
        perror("unshare");
    context = start_driver();
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_create(&all[i], NULL, work, NULL));
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_join(all[i], NULL));
    if (!strcmp(argv[1], "removed"))
        remove_own();
    printf("done\n");
    return 0;
}
