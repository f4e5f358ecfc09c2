// A library in front of CUPTI, as tools have it: looks on, and calls the next
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

uint32_t cuptiSubscribe(void **subscriber, void *callback, void *user)
{
    uint32_t (*next)(void **, void *, void *) = (uint32_t(*)(void **, void *, void *))dlsym(RTLD_NEXT, "cuptiSubscribe");
    puts("a tool looks on");
    return next ? next(subscriber, callback, user) : 99;
}
