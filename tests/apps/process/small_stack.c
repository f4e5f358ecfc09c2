// The first call, and some that carry data, on a thread with little stack
#include "check.h"
#include <limits.h>
#include <pthread.h>

static void *work(void *unused)
{
    static char bytes[5000];
    CUdeviceptr memory;

    start_driver();
    memory = allocate(sizeof bytes);
    CHECK(cuMemcpyHtoD(memory, bytes, sizeof bytes));
    CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
    return unused;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;

    REQUIRE(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, 64 << 10));
    REQUIRE(!pthread_create(&thread, &attributes, work, NULL));
    REQUIRE(!pthread_join(thread, NULL));
    printf("done\n");
    return 0;
}
