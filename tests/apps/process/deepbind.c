// Opens a library that prefers its own dependencies, the driver among them, to everything that was there before
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *library;
    int (*count)(void);

    REQUIRE(argc == 2);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    REQUIRE(library);
    count = dlsym(library, "count_devices");
    printf("%d\n", count());
    return 0;
}
