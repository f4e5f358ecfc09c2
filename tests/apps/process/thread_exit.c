// A thread ends in a driver call: by pthread_exit, or cancelled, as argv[1] says
#include "unwinding.h"
#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static volatile int inside;

static size_t exits(int threads)
{
    (void)threads;
    pthread_exit((void *)7);
}

static size_t waits(int threads)
{
    inside = threads;
    while (inside)
        pause();
    return 0;
}

static void cleanup(void *unused)
{
    (void)unused;
    go_on();
}

static void *work(void *callback)
{
    CHECK(cuCtxSetCurrent(context));
    pthread_cleanup_push(cleanup, NULL);
    call_with_callback((CUoccupancyB2DSize)callback);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    int cancel = argc == 2 && !strcmp(argv[1], "cancel");
    pthread_t thread;
    void *result = NULL;

    unwinding_start();
    CHECK(cuCtxGetCurrent(&context));
    REQUIRE(!pthread_create(&thread, NULL, work, cancel ? (void *)waits : (void *)exits));
    if (cancel) {
        while (!inside)
            usleep(1000);
        REQUIRE(!pthread_cancel(thread));
    }
    REQUIRE(!pthread_join(thread, &result));
    printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : result == (void *)7 ? "exited" : "?");
    go_on();
    return 0;
}
