// Calls the driver while a thread ends: from a thread_local's destructor, and from a key's, which runs later still
#include "check.h"
#include <pthread.h>
#include <thread>

static CUcontext context;
static pthread_key_t key;
static int rounds;

struct Last {
    ~Last()
    {
        CUcontext current;
        CHECK(cuCtxGetCurrent(&current));
        REQUIRE(current == context);
    }
};

static void key_ends(void *value)
{
    int count;

    CHECK(cuDeviceGetCount(&count));
    if (++rounds < 3)
        pthread_setspecific(key, value);
}

int main()
{
    context = start_driver();
    REQUIRE(!pthread_key_create(&key, key_ends));
    std::thread([] {
        static thread_local Last last;
        (void)&last;
        pthread_setspecific(key, &rounds);
        CHECK(cuCtxSetCurrent(context));
    }).join();
    printf("%d rounds\n", rounds);
    return 0;
}
