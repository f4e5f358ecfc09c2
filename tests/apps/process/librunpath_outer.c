#include <dlfcn.h>
#include <stdio.h>

int outer_answer(void)
{
    void *inner = dlopen("librunpath_inner.so", RTLD_NOW);
    int (*answer)(void);

    if (!inner) {
        printf("%s\n", dlerror());
        return -1;
    }
    answer = dlsym(inner, "inner_answer");
    return answer();
}
