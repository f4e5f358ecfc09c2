// Preloaded: the process can make no more threads than THREADS says, as under the limit of a control group
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *given)
{
    static int made;
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    const char *most = getenv("THREADS");

    if (most && __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) >= atoi(most))
        return EAGAIN;
    return next(thread, how, start, given);
}
