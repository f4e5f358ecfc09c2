// Opens a library that opens another by a name which only its own RUNPATH resolves
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *outer;
    int (*answer)(void);

    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    outer = dlopen(argv[1], RTLD_NOW);
    if (!outer) {
        printf("%s\n", dlerror());
        return 1;
    }
    answer = dlsym(outer, "outer_answer");
    printf("%d\n", answer());
    return 0;
}
