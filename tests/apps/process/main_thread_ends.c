// The first thread ends, another goes on: the process ends with the last of them. With an argument, the first copies
// enough for the recorder to have threads for that
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { MANY = 2 << 20 };

static CUcontext context;

static void *work(void *bytes)
{
    char stat[512] = "", *state = stat;
    CUdeviceptr memory;

    // Until the first thread is no more
    while (*state != 'Z') {
        FILE *file = fopen("/proc/self/stat", "r");
        REQUIRE(file && fgets(stat, sizeof stat, file));
        fclose(file);
        state = strrchr(stat, ')') + 2;
        usleep(1000);
    }
    CHECK(cuCtxSetCurrent(context));
    memory = allocate(MANY);
    CHECK(cuMemcpyHtoD(memory, bytes, MANY));
    CHECK(cuMemFree(memory));
    printf("worked\n");
    fflush(stdout);
    return NULL;
}

static void at_end(void)
{
    printf("ended\n");
}

int main(int argc, char **unused)
{
    pthread_t thread;
    char *bytes = calloc(1, MANY);

    (void)unused;
    REQUIRE(!atexit(at_end));
    context = start_driver();
    if (argc == 2) {
        CUdeviceptr memory = allocate(MANY);
        CHECK(cuMemcpyHtoD(memory, bytes, MANY));
    }
    REQUIRE(!pthread_create(&thread, NULL, work, bytes) && !pthread_detach(thread));
    pthread_exit(NULL);
}
