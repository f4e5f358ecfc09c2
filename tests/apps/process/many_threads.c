// argv[1] threads at a time, argv[2] rounds of them, argv[3] calls in each
#include "check.h"
#include <pthread.h>

static CUcontext context;
static int calls;

static void *work(void *unused)
{
    int i;

    CHECK(cuCtxSetCurrent(context));
    for (i = 1; i < calls; i++) {
        call_once(context);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int threads, rounds, i;
    pthread_t *all;

    REQUIRE(argc == 4);
    threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    calls = atoi(argv[3]);
    all = calloc(threads, sizeof *all);
    context = start_driver();
    while (rounds--) {
        for (i = 0; i < threads; i++)
            REQUIRE(!pthread_create(&all[i], NULL, work, NULL));
        for (i = 0; i < threads; i++)
            REQUIRE(!pthread_join(all[i], NULL));
    }
    printf("done\n");
    return 0;
}
